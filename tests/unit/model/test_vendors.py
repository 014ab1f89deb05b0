from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity

from torchprof_magic.ingest.chrome.categories import category_of, is_known
from torchprof_magic.model.vendors import (
    ACCELERATOR,
    ACTIVITIES,
    COLLECTIVE_KERNEL,
    COLLECTIVE_RANGE,
    DEVICE_MEMORY,
    DEVICE_TYPES,
    LAUNCH,
    VENDORS,
    Vendor,
    device_of_allocator,
)


def test_device_types_are_numbered_as_in_torch() -> None:
    numbers = {name.lower(): int(member) for name, member in DeviceType.__members__.items()}
    assert {device: numbers[device] for device in DEVICE_TYPES.values()} == {
        device: number for number, device in DEVICE_TYPES.items()
    }


def test_no_two_vendors_share_a_device_name_number_or_category() -> None:
    for values in (
        [vendor.device for vendor in VENDORS],
        [vendor.device_type for vendor in VENDORS if vendor.device_type is not None],
        [category for vendor in VENDORS for category in (*vendor.runtime_categories, *vendor.work_categories)],
        [name for vendor in VENDORS for name in (*vendor.work_processes, *vendor.call_processes)],
    ):
        assert len(values) == len(set(values))


def test_every_activity_of_torch_can_be_recorded() -> None:
    assert {name.lower() for name in ProfilerActivity.__members__} <= set(ACTIVITIES)


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.device)
def test_calls_of_a_vendors_runtime_are_runtime_calls(vendor: Vendor) -> None:
    for category in vendor.runtime_categories:
        assert category_of(category) == category_of(category.upper()) == "runtime"


@pytest.mark.parametrize(
    ("name", "is_collective"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", True),
        ("void rccl::AllGather<float>()", True),
        ("mscclKernel_Sum_float", True),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", True),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", True),
        ("void mscclpp::collective::allreduce8<__half>(void*)", True),
        ("void (anonymous namespace)::allreduce_LL_1node<__half>(void*)", True),
        ("void c10d::symmetric_memory::(anonymous namespace)::multimem_all_reduce_kernel<float, 16>(float*)", True),
        ("multimem_one_shot_all_reduce_kernel", True),
        ("void c10d::symmetric_memory::(anonymous namespace)::one_shot_all_reduce_kernel<float, 8, true>()", True),
        ("void c10d::symmetric_memory::{anonymous}::two_shot_all_reduce_kernel_inplace<float>()", True),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", True),
        ("void sglang::cross_device_reduce_2stage<__half, 4>()", True),
        ("void aiter::cross_device_reduce_2stage_write_mode<__half, 8>()", True),
        ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(Pattern)1>()", True),
        ("void tensorrt_llm::kernels::ar_fusion::moereduce_allreduce_fusion_kernel_oneshot_lamport<>()", True),
        ("void tensorrt_llm::kernels::twoShotAllReduceKernel<float, 8>()", True),
        ("void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>, __half>()", True),
        ("nvshmemi_barrier_kernel", True),
        ("void deep_ep::intranode::dispatch<8, 768>(int4*)", True),
        ("void deep_ep::internode_ll::combine<true, 7168>()", True),
        ("hcom_allReduce__123_0_1", True),
        ("oneccl_allreduce_ring", True),
        ("void gloo::(anonymous namespace)::sum<float>()", True),
        ("void at::native::reduce_nccl_like()", False),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(float)", False),
        ("void at::native::elementwise_kernel<ncclDataType_t>()", False),
        ("my_nccl_free_gemm", False),
        ("fused_rmsnorm_allreduced_input", False),
        ("smallreduce_kernel", False),
        ("triton_red_fused_all_reduce_0", False),
        ("void deep_ep::layout::get_dispatch_layout<256>()", False),
        ("void user::dispatch<8>()", False),
        ("combine_heads", False),
        ("std::vector<ncclUniqueId>::push_back", False),
        ("gloom::kernel", False),
        ("gemm", False),
    ],
)
def test_collective_kernels_are_known_by_how_their_name_begins(name: str, is_collective: bool) -> None:
    assert bool(re.search(COLLECTIVE_KERNEL, name)) is is_collective


@pytest.mark.parametrize(
    ("name", "is_collective"),
    [
        ("nccl:all_reduce", True),
        ("gloo:broadcast", True),
        ("xccl:all_gather", True),
        ("ncclKernel", True),
        ("gloomy", False),
        ("my nccl:all_reduce", False),
    ],
)
def test_ranges_of_collectives_are_known_by_how_they_begin(name: str, is_collective: bool) -> None:
    assert bool(re.search(COLLECTIVE_RANGE, name)) is is_collective


@pytest.mark.parametrize(
    ("name", "is_accelerator"),
    [
        ("GPU 0", True),
        ("MTIA 17", True),
        ("NPU", True),
        ("TPU core 3", True),
        ("Ascend Hardware", True),
        ("CPU", False),
        ("python3", False),
        ("service", False),
        ("output", False),
    ],
)
def test_processes_of_accelerators_are_known_by_their_name(name: str, is_accelerator: bool) -> None:
    assert bool(re.search(ACCELERATOR, name)) is is_accelerator


def test_every_activity_of_kineto_is_known() -> None:
    header = Path(torch.__file__).parent / "include" / "kineto" / "ActivityType.h"
    if not header.is_file():
        pytest.skip("this torch has no headers of Kineto")
    names = re.findall(r'{"([a-z0-9_]+)", ActivityType::', header.read_text())
    assert len(names) > 20
    assert [name for name in names if not is_known(name)] == []


@pytest.mark.parametrize(
    ("name", "is_launch"),
    [
        ("cudaLaunchKernel", True),
        ("hipLaunchCooperativeKernel", True),
        ("cudaGraphLaunch", True),
        ("urEnqueueKernelLaunch", True),
        ("zeCommandListAppendLaunchKernel", True),
        ("Node@launch", True),
        ("runFunction - job_prep_and_submit_for_execution", True),
        ("cudaFree", False),
        ("urEnqueueMemBufferCopy", False),
    ],
)
def test_launches_are_known_by_their_name(name: str, is_launch: bool) -> None:
    assert bool(re.search(LAUNCH, name)) is is_launch


@pytest.mark.parametrize(
    ("device", "is_counted"), [("cuda:0", True), ("xpu:1", True), ("cpu", False), ("mps:0", False)]
)
def test_device_memory_is_what_torch_counts_as_such(device: str, is_counted: bool) -> None:
    assert bool(re.search(DEVICE_MEMORY, device)) is is_counted


def test_the_allocator_settings_of_a_snapshot_name_the_device() -> None:
    assert device_of_allocator("PYTORCH_XPU_ALLOC_CONF expandable_segments") == "xpu"
    assert device_of_allocator("PYTORCH_CUDA_ALLOC_CONF") == device_of_allocator("") == "cuda"
