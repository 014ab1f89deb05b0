import { describe, expect, it } from "vitest";
import { cutMiddle, shortenName } from "./names";

const KERNEL =
  "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, float)";

describe("shortenName", () => {
  it("leaves a name that fits as it is", () => {
    expect(shortenName("aten::mm", 8)).toBe("aten::mm");
  });

  it("drops the return type first", () => {
    expect(shortenName("void f<a>(int)", 12)).toBe("f<a>(int)");
  });

  it("folds arguments and inner templates but keeps what tells kernels apart", () => {
    expect(shortenName(KERNEL, 70)).toBe(
      "vectorized_elementwise_kernel<4, CUDAFunctor_add<…>, array<…> >(…)",
    );
  });

  it("folds all template arguments when there is little room", () => {
    expect(shortenName(KERNEL, 40)).toBe("vectorized_elementwise_kernel<…>(…)");
  });

  it("keeps both ends of a name without templates", () => {
    // Room for 11: the ellipsis, six of the beginning, four of the end.
    expect(shortenName("abcdefghijklmnopqrst", 11)).toBe("abcdef…qrst");
  });
});

it("drops what all ops and nodes begin with before it cuts a name", () => {
  expect(shortenName("aten::native_layer_norm", 17)).toBe("native_layer_norm");
  expect(shortenName("autograd::engine::evaluate_function: AddmmBackward0", 20)).toBe(
    "AddmmBackward0",
  );
  expect(shortenName("aten::native_layer_norm_backward", 15)).toBe("native_la…kward");
});

it("cuts between whole characters, not inside one", () => {
  expect(cutMiddle("😀😀😀😀😀", 4)).toBe("😀😀…😀");
});

it("drops the folders of a Python frame first, then its file", () => {
  const frame = "torch/nn/modules/module.py(1782): _call_impl";
  expect(shortenName(frame, 40)).toBe("module.py(1782): _call_impl");
  expect(shortenName(frame, 12)).toBe("_call_impl");
});

it("keeps both ends of a built-in function's name", () => {
  expect(shortenName("<built-in method run_backward of x object>", 21)).toBe(
    "<built-in me… object>",
  );
});
