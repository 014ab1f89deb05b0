"""The titles of kernels."""

from __future__ import annotations

import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from support import kernel, launch, make_trace, span

from torchprof_magic.facts.device.kernel_names import MAX_CHARS, READ_CHARS, kernel_title, kernel_titles, titles_of
from torchprof_magic.facts.device.kernel_types import type_in

NATIVE = "at::native::(anonymous namespace)::"
FOREACH = f"void {NATIVE}multi_tensor_apply_kernel<{NATIVE}TensorListMetadata<2>, {NATIVE}"
VECTORIZED = "void at::native::vectorized_elementwise_kernel<4, at::native::"
STRIDED = "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::"
LAMBDA = "(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda"
FLASH = "pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t"

COLLECTIVES = {
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "nccl AllReduce sum bf16 · ring ll",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, ncclWork*)": "nccl AllReduce sum f32 · ring ll",
    "ncclKernel_AllReduce_TREE_LL_Sum___nv_bfloat16(ncclDevComm*)": "nccl AllReduce sum bf16 · tree ll",
    "ncclKernel_ReduceScatter_RING_LL128_Max_half(ncclDevComm*)": "nccl ReduceScatter max f16 · ring ll128",
    "ncclKernel_AllReduce_RING_LL_Sum_uint64_t(ncclDevComm*)": "nccl AllReduce sum u64 · ring ll",
    # What only moves bytes is recorded as their sum.
    "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)": "nccl Broadcast i8 · ring ll",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)": "nccl SendRecv i8 · ring simple",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "nccl AllGather · ring ll",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": "nccl SendRecv",
}
TRITON = {
    "triton_poi_fused_add_mul_3": "add mul · triton pointwise #3",
    "triton_red_fused__to_copy_12": "to copy · triton reduction #12",
    "triton_per_fused_native_layer_norm_0": "native layer norm · triton persistent reduction #0",
    "triton_tem_fused_mm_7": "mm · triton template #7",
    "triton_spl_fused_cumsum_1": "cumsum · triton split scan #1",
    "triton_for_fused_12": "triton foreach #12",
    "triton_poi_fused_0": "triton pointwise #0",
    "triton_poi_fused_add_0d1d2d3de": "add · triton pointwise",
    "triton_red_fused_add_addmm_mul_native_layer_norm_split_unsqueeze_view_20": (
        "add addmm mul native layer norm split … · triton reduction #20"
    ),
    # An op whose name says attention is still one of Triton's kernels.
    "triton_poi_fused_scaled_dot_product_attention_2": "scaled dot product attention · triton pointwise #2",
}
ATTENTION = {
    f"void pytorch_flash::flash_fwd_kernel<{FLASH}> >(Params)": "flash attention forward bf16",
    f"void pytorch_flash::flash_fwd_splitkv_kernel<{FLASH}> >(Params)": "flash attention forward bf16 · splitkv",
    f"void pytorch_flash::flash_fwd_splitkv_combine_kernel<{FLASH}> >(Params)": (
        "flash attention forward bf16 · splitkv_combine"
    ),
    f"void pytorch_flash::flash_bwd_dot_do_o_kernel<true, {FLASH}> >(Params)": (
        "flash attention backward bf16 · dot_do_o"
    ),
    f"void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<{FLASH}> >(Params)": (
        "flash attention backward bf16"
    ),
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<cutlass::half_t> > >(Params)": (
        "flash attention forward f16"
    ),
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)": (
        "attention forward bf16"
    ),
    "fmha_cutlassB_f16_aligned_64x64_k64_sm80": "attention backward f16",
    "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_bf16_knob_31_64x64x64_1x1x1_kernel0_0": (
        "flash attention backward bf16 · cudnn"
    ),
    "aiter::fmha_fwd_hd128_bf16_rtz": "attention forward bf16",
}
PRODUCTS = {
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x5_nn_align8>(Params)": (
        "gemm bf16 128x64 · cutlass nn"
    ),
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nt_align4>(Params)": (
        "gemm f32 256x64 · cutlass nt"
    ),
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int>, cutlass::bfloat16_t> >(P)": (
        "gemm bf16 · cutlass"
    ),
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas": (
        "gemm bf16 128x128x64 · xmma sm90 tn"
    ),
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_nn": "gemm f16 128x64 · ampere nn",
    # It adds up in f32, but its inputs are bf16.
    "ampere_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": "gemm bf16 128x128 · ampere tn",
    "ampere_sgemm_32x32_sliced1x4_tn": "gemm f32 32x32 · ampere tn",
    "volta_dgemm_64x64_nn": "gemm f64 64x64 · volta nn",
    "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT": "gemm bf16 128x256 · nvjet",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x192x64_MI16x16x1_SN": "gemm bf16 128x192x64 · Tensile",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI32x32x8x1_SN": "gemm f16 128x128x16 · Tensile",
    "Cijk_Ailk_Bjlk_SB_MT64x64x16_MI16x16x4x1_SE": "gemm f32 64x64x16 · Tensile",
    "Cijk_Ailk_Bljk_DB_MT64x32x8_SE": "gemm f64 64x32x8 · Tensile",
    "void gemmSN_TN_kernel<float, 128, 16, 2, 4, cublasGemvTensorStridedBatched<float const> >(Params)": (
        "gemm f32 · cublas"
    ),
    # The type of its indices stands first.
    "void gemmk1_kernel<int, float, 256, 5, false, cublasGemvTensorStridedBatched<float const> >(Params)": (
        "gemm f32 · cublas"
    ),
}
CONVOLUTIONS = {
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1": "conv f32 128x128 · cudnn volta nt",
    "turing_h1688cudnn_256x64_sliced1x2_ldg8_relu_exp_medium_nhwc_tn_v1": "conv f16 256x64 · cudnn turing tn",
    "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x128_32x3_nhwc_align4>(Params)": (
        "conv input grad tf32 64x128 · cutlass"
    ),
    "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_cudnn_train": (
        "conv weight grad tf32 128x128x16 · xmma sm80"
    ),
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32_stage5_cudnn_infer": (
        "conv tf32 64x128x32 · xmma sm80"
    ),
    "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22"
    "ImplicitGemmMultistageINS_4gemm9GemmShapeILi64ELi128ELi32EEENS4_52Conv2dWgradOutputGradientTile": (
        "conv weight grad 64x128x32 · cutlass"
    ),
    "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1>(int, int, float const*)": "conv f32",
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1": "conv bf16 128x128x32",
    "igemm_bwd_gtcx_nhwc_fp16_bx0_ex0_bt256x128x32": "conv input grad f16 256x128x32",
    "igemm_wrw_gtcx3_nhwc_fp32_bx0_ex0_bt256x128x32": "conv weight grad f32 256x128x32",
    "volta_igemm_int8_128x128_ldg4_nn": "gemm i8 128x128 · volta nn",
    "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int)": (
        "conv weight grad f32 · wgrad_alg0_engine"
    ),
    "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)": "conv input grad f32 · dgrad_engine",
    "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(Params)": (
        "conv winograd f32 · winogradForwardData4x4"
    ),
    "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnnTensorStruct)": (
        "batch norm forward f32 · bn_fw_tr_1C11_singleread"
    ),
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128>(float)": (
        "batch norm backward f32 · bn_bw_1C11_kernel_new"
    ),
    "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false>(Params)": "NCHW to NHWC f16 · nchwToNhwcKernel",
}
ELEMENTWISE = {
    f"{VECTORIZED}CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int)": "add f32 · vectorized",
    f"{VECTORIZED}CUDAFunctorOnSelf_add<c10::BFloat16>, std::array<char*, 2ul> >(int)": (
        "add bf16 with a number · vectorized"
    ),
    f"{VECTORIZED}AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(int)": (
        "mul f32 with a number · vectorized"
    ),
    f"{STRIDED}BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
    "at::native::binary_internal::MulFunctor<float> > > >(int)": "mul bf16 · strided",
    f"{VECTORIZED}GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{{lambda()#2}}::operator()() "
    "const::{lambda(float)#1}, at::detail::Array<char*, 2> >(int)": "gelu f32 · vectorized",
    f"{VECTORIZED}GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&)::{{lambda(c10::Half, c10::Half)#1}} >(int)": (
        "gelu backward f16 · vectorized"
    ),
    f"{VECTORIZED}(anonymous namespace)::silu_kernel{LAMBDA}(c10::BFloat16)#1}}, char >(int)": "silu bf16 · vectorized",
    f"{VECTORIZED}sqrt_kernel_cuda{LAMBDA}(float)#1}}, char >(int)": "sqrt f32 · vectorized",
    f"{VECTORIZED}addcdiv_cuda_kernel{LAMBDA}(float, float, float)#1}}, char >(int)": "addcdiv f32 · vectorized",
    f"{VECTORIZED}FillFunctor<long>, at::detail::Array<char*, 1> >(int)": "fill i64 · vectorized",
    f"{VECTORIZED}(anonymous namespace)::launch_clamp_scalar{LAMBDA}(float)#1}}, char >(int)": (
        "clamp scalar f32 · vectorized"
    ),
    f"{VECTORIZED}bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{{lambda(float)#1}}, char >(int)": (
        "copy bf16 · vectorized"
    ),
    f"{VECTORIZED}bfloat16tofloat32_copy_kernel_cuda(at::TensorIteratorBase&)::{{lambda(c10::BFloat16)#1}} >(int)": (
        "copy bf16 to f32 · vectorized"
    ),
    # The first type is that of the condition.
    f"{VECTORIZED}(anonymous namespace)::where_kernel_impl{LAMBDA}(bool, long, long)#1}}, char >(int)": (
        "where i64 · vectorized"
    ),
    f"{STRIDED}direct_copy_kernel_cuda{LAMBDA}(c10::BFloat16)#1}}>(at::TensorIteratorBase&)": "copy bf16 · strided",
    "void at::native::unrolled_elementwise_kernel<at::native::copy_device_to_device(at::TensorIterator&, bool)::"
    "{lambda()#2}::operator()() const::{lambda(float)#1}, at::detail::Array<char*, 2> >(int)": "copy f32 · unrolled",
    "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(c10::Scalar const&)::"
    "{lambda()#1}::operator()() const::{lambda(long)#1}>(int, long*)": "arange i64 · by index",
    "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_put_kernel_impl<"
    "at::native::OpaqueType<4> >(at::TensorIterator&, c10::ArrayRef<long>)::{lambda(char*, char*, long)#1}> >(int)": (
        "index put 4-byte · indexed"
    ),
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>, "
    "unsigned int, float, 4> >(int)": "mean f32 · reduction",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
    "at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}> >(int)": (
        "sum f32 · reduction"
    ),
}
FOREACHES = {
    f"{FOREACH}BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>(int)": "add f32 · foreach",
    f"{FOREACH}BinaryOpListAlphaFunctor<float, 2, 2, 0>, at::native::maximum<float>, float>(int)": (
        "maximum f32 · foreach"
    ),
    f"{FOREACH}UnaryOpFunctor<float, 2, 1, 1>, at::native::Sqrt<float> >(int)": "sqrt f32 · foreach",
    f"{FOREACH}BinaryOpScalarFunctor<float, 1, 1, 0>, at::native::power_functor<float>, float>(int)": (
        "pow f32 · foreach"
    ),
    f"{FOREACH}TernaryOpScalarFunctor<float, 3, 2, 2>, at::native::LerpFunctor<float>, float>(int)": (
        "lerp f32 · foreach"
    ),
    f"{FOREACH}PointwiseOpScalarFunctor<float, 3, 3, 0>, std::multiplies<float>, float>(int)": "addcmul f32 · foreach",
    f"{FOREACH}PointwiseOpListFunctor<float, 4, 3, 3>, std::divides<float> >(int)": "addcdiv f32 · foreach",
    f"{FOREACH}FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)0, false>, double, bool>(int)": (
        "fused adam f32 · foreach"
    ),
}
OTHERS = {
    # What is called gemm or tensorop need not be a product of matrices.
    "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int, int const*)": "permute_2D_lengths_kernel i32",
    "SubTensorOpWithScalar1d": "SubTensorOpWithScalar1d",
    "void split_embedding_codegen_forward_unweighted_kernel<float, float>(fbgemm_gpu::FixedDivisor)": (
        "split_embedding_codegen_forward_unweighted_kernel f32"
    ),
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, "
    "unsigned int, 4, 64, 64>(int)": "CatArrayBatchedCopy 2-byte",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float>(cublasLt::cublasSplitKParams<float>)": (
        "splitKreduce_kernel f32"
    ),
    "void cutlass_cudnn_train::Kernel<cutlass_cudnn_train::reduction::kernel::ReduceSplitK<float, 4> >(Params)": (
        "ReduceSplitK f32"
    ),
    "void cub::DeviceScanKernel<cub::DeviceScanPolicy<int>::Policy600, int*, int*, cub::Sum>(int*)": (
        "DeviceScanKernel i32"
    ),
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)": (
        "softmax_warp_forward f32"
    ),
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)": "rotary_embedding_kernel bf16",
    "void cask_cudnn_infer::computeOffsetsKernel<false, false>(Params)": "computeOffsetsKernel",
    "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_27Rmsnorm2dFwdPipelineProblemI"
    "DF16bDF16bfEEEEEEEvT_": "Rmsnorm2dFwd Rmsnorm2dFwdPipelineOnePass bf16",
    "_ZN12_GLOBAL__N_117my_plain_functionEPfi": "my_plain_function",
    "_Z": "_Z",
    "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD · pageable",
    "Memcpy HtoD (Pinned -> Device)": "Memcpy HtoD · pinned",
    "Memcpy DtoH (Device -> Pinned)": "Memcpy DtoH · pinned",
    "Memcpy HtoH (Pageable -> Pinned)": "Memcpy HtoH · pageable to pinned",
    "Memcpy DtoD (Device -> Device)": "Memcpy DtoD",
    "Memset (Device)": "Memset",
    "CopyDeviceToHost": "CopyDeviceToHost",
    "_topk_forward": "_topk_forward",
    "my_kernel(float*, int)": "my_kernel f32",
    "": "",
}
TABLE = COLLECTIVES | TRITON | ATTENTION | PRODUCTS | CONVOLUTIONS | ELEMENTWISE | FOREACHES | OTHERS


@pytest.mark.parametrize("name", TABLE)
def test_a_title_says_what_before_how(name: str) -> None:
    assert kernel_title(name) == TABLE[name]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<unsigned int, unsigned long>", ""),
        ("<int, double>", "f64"),
        ("<long, int>", "i64"),
        ("<int, long>", "i32"),
        ("<bool, float>", "f32"),
        ("<bool>", "bool"),
        ("<unsigned char>", "u8"),
        ("<OpaqueType<16u>, long>", "16-byte"),
        ("<float_like, integer>", ""),
        ("_e4m3bf16_e4m3f32_f32", "f8"),
    ],
)
def test_of_the_types_in_a_name_one_of_floating_point_counts_and_an_index_does_not(text: str, kind: str) -> None:
    assert type_in(text) == kind


def test_kernels_that_differ_in_a_number_or_nothing_visible_are_told_apart() -> None:
    names = [f"void foo<{size}, float>({rest})" for size, rest in ((4, ""), (8, ""), (8, "x"), (4, "x"), (4, "y"))]
    titles = ["foo f32", "foo f32 <8>", "foo f32 (2)", "foo f32 <4>", "foo f32 (3)"]
    assert list(kernel_titles(names).values()) == titles
    assert list(kernel_titles([*names, *names])) == names


def test_the_number_of_a_title_is_none_that_a_kernel_is_called_by() -> None:
    # The second of each is called as the first, and as the third would be if it were numbered.
    names = ["<a> (2)", "<a>", "void <a>", "void void <a>"]
    assert list(kernel_titles(names).values()) == ["<a> (2)", "<a>", "<a> (3)", "<a> (4)"]


def test_a_long_title_is_cut_and_keeps_the_type() -> None:
    title = kernel_title(f"void {'long_' * 30}name<float>(float*)")
    assert (len(title), title.startswith("long_long_"), title.endswith("… f32")) == (MAX_CHARS, True, True)
    assert kernel_title("a" * MAX_CHARS) == "a" * MAX_CHARS
    assert kernel_title("a" * (MAX_CHARS + 1)) == f"{'a' * (MAX_CHARS - 1)}…"


PARTS = (
    "void ", "at::native::", "(anonymous namespace)::", "<unnamed>::", "vectorized_elementwise_kernel", "reduce_kernel",
    "multi_tensor_apply_kernel", "<", ">", "(", ")", ", ", "::", "4", "128", "float", "unsigned int", "c10::BFloat16",
    "CUDAFunctor_add", "AddFunctor", "std::plus", "BinaryOpFunctor<", "_kernel_cuda", "launch_", "gemm", "cudnn",
    "cutlass", "128x64", "tilesize", "_ZN", "9", "nccl", "ncclKernel_AllReduce", "_", "RING", "Sum", "flash_fwd_",
    "splitkv", "triton_poi_fused_", "add", "_0d1", "Memcpy HtoD (", "Pageable", " -> ", "Device", "Memset (", " (2)",
    "OpaqueType<4u>", "x", "é", "\n",
)  # fmt: skip
NAMES = st.lists(st.sampled_from(PARTS), max_size=8).map("".join) | st.text(max_size=40)


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(NAMES, max_size=40, unique=True))
def test_two_names_never_have_one_title(names: list[str]) -> None:
    titles = kernel_titles(names)
    assert list(titles) == names
    assert len(set(titles.values())) == len(names)


LIKE_TITLES = (
    "a", "<a>", "void <a>", "<a> (2)", "<a> (3)", "void <a> (2)", "<a> <1>", "f<1>(", "f<2>(", "f<1>((", "f", "void f",
    "void f<1>(", "f <1>", "f (2)",
)  # fmt: skip


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(st.sampled_from(LIKE_TITLES), unique=True))
def test_names_that_look_like_titles_do_not_take_those_of_others(names: list[str]) -> None:
    assert len(set(kernel_titles(names).values())) == len(names)


BEGINNINGS = (
    "", "_Z", "_ZN9", "void cudnn", "elementwise_kernel<", "elementwise_kernel<launch_",
    "reduce_kernel<binary_internal::", "multi_tensor_apply_kernel<BinaryOpFunctor<", "flash_fwd_", "flash_bwd_convert_",
    "Cijk_", "gemm", "tilesize", "MT", "ncclKernel_A", "triton_poi_fused_", "cutlass::Kernel<", "gfx", "Memcpy H (",
)  # fmt: skip
PIECES = (
    "a", "A", "1", "_", "_1", "x1", "a::", "A::Functor", "_kernel", "_functor", "Ops", "Functor<", "flash_fwd_convert_",
    "a_splitkv", "<", "(", "<1,", ", ", "int ", "unsigned ", "dgrad_", "_h1", "s123", "d1", "bfloat16to", "\n", "é",
)  # fmt: skip


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_names_of_ten_thousand_characters_have_short_titles(begin: str) -> None:
    # An expression that backtracks without bound would not come back from one of these.
    names = [(begin + piece * 10_000)[:10_000] for piece in PIECES]
    titles = kernel_titles([*names, *(f"{name}!" for name in names)])
    assert max(map(len, titles.values())) <= MAX_CHARS + len(" <123456>")
    assert len(set(titles.values())) == len(titles)


def test_the_work_for_a_name_does_not_grow_with_what_follows_its_beginning() -> None:
    begin = f"{VECTORIZED}CUDAFunctor_add<float>, ".ljust(READ_CHARS, "x")
    assert kernel_title(begin) == kernel_title(begin + "double" * 1_000_000) == "add f32 · vectorized"


@pytest.mark.parametrize("digits", [4, 5_000])
def test_lengths_in_mangled_names_can_be_any_number(digits: int) -> None:
    # Python refuses to read a number of more than 4300 digits.
    assert kernel_title("_Z" + "9" * digits).startswith("_Z9999")
    assert kernel_title("_Z4abcd" + "9" * digits) == "abcd"


def test_a_report_has_the_titles_of_its_kernels_that_differ_from_their_names() -> None:
    first, second = (f"{VECTORIZED}CUDAFunctor_add<float>, {size} >(int)" for size in (3, 5))
    runs = ((first, 5), ("plain", 90), (second, 20), (first, 5), ("Memset (Device)", 7))
    events = [
        event
        for at, (name, dur_us) in enumerate(runs)
        for event in (launch(at, 1, at), kernel(name, 100 + 100 * at, dur_us, at))
    ]
    titles = titles_of(make_trace(span("aten::add(float)", 0, 10), *events))
    # 20 us, then twice 5 us, then 7 us. The ops of the host keep their names.
    assert list(titles.items()) == [
        (second, "add f32 · vectorized"),
        (first, "add f32 · vectorized <4>"),
        ("Memset (Device)", "Memset"),
    ]
    assert titles_of(make_trace(span("aten::add", 0, 10))) == {}


def test_letters_outside_of_ascii_are_kept() -> None:
    assert kernel_title("größe<float>(float*)") == "größe f32"
