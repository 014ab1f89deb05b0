import { describe, expect, it } from "vitest";
import { cutMiddle, shortenAll, shortenForBox, shortenName, shortenNote } from "./names";

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

describe("shortenAll", () => {
  const forward = [56, 150, 218].map(
    (line) => `forward transformers/qwen2/modeling_qwen2.py:${line}`,
  );

  it("never makes two names alike", () => {
    const layers = [
      "blocks.0.attention.self.query.weight_quantizer",
      "blocks.0.attention.self.value.weight_quantizer",
    ];
    for (const names of [forward, layers]) {
      for (const room of [12, 16, 20, 30]) {
        const short = shortenAll(names, room);
        expect(new Set(short).size).toBe(names.length);
        expect(Math.max(...short.map((text) => text.length))).toBeLessThanOrEqual(room);
      }
    }
  });

  it("keeps the line of frames in sight", () => {
    // The folder goes first; then there is room for twelve characters of the beginning and seven of the end.
    expect(shortenAll(forward, 20)).toEqual([
      "forward mode…2.py:56",
      "forward mode….py:150",
      "forward mode….py:218",
    ]);
  });

  it("tells the range of a backward node from the node in it", () => {
    const node = "ConvolutionBackward0";
    const range = `autograd::engine::evaluate_function: ${node}`;
    expect(shortenAll([range], 30)).toEqual([node]);
    expect(shortenAll([range, node], 30)).toEqual([`…${node}`, node]);
    // Also where several are cut: six of the beginning, and four of the end.
    const others = [range, node, "autograd::engine::evaluate_function: ReluBackward0"];
    expect(shortenAll(others, 12)).toEqual(["…Convol…ard0", "Convolu…ard0", "ReluBac…ard0"]);
  });

  it("shows where long names differ in their middle", () => {
    const [head, tail] = ["a".repeat(40), "z".repeat(40)];
    // Room for 16: four of the beginning, the ellipsis, and eleven from where they differ, the last one cut.
    expect(shortenAll([`${head}1${tail}`, `${head}2${tail}`], 16)).toEqual([
      "aaaa…1zzzzzzzzz…",
      "aaaa…2zzzzzzzzz…",
    ]);
  });

  it("leaves equal names equal", () => {
    expect(shortenAll(["aten::mm", "aten::mm"], 8)).toEqual(["aten::mm", "aten::mm"]);
  });
});

it("drops what all names begin with also in a box for a few characters, and cuts the end there", () => {
  expect(shortenForBox("aten::conv2d", 8)).toBe("conv2d");
  expect(shortenForBox("aten::convolution", 8)).toBe("convolu…");
  const node = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
  expect(shortenForBox(node, 14)).toBe("AccumulateGrad");
});

it("cuts the names of a remark, but never within what says a number", () => {
  const note = "aten::copy_, device busy 91.9 %";
  expect(shortenNote(note, 31)).toBe(note);
  expect(shortenNote(note, 27)).toBe("copy_, device busy 91.9 %");
  expect(shortenNote(note, 25)).toBe("copy_, device busy 91.9 %");
  expect(shortenNote("Distributed.forward, device busy 91.9 %", 28)).toBe(
    "Distr…rd, device busy 91.9 %",
  );
  expect(shortenNote(note, 20)).toBe("device busy 91.9 %");
  expect(shortenNote(note, 17)).toBe("");
  expect(shortenNote("1,368 calls", 8)).toBe("");
  expect(shortenNote("qwen2/modeling_qwen2.py:56", 12)).toBe(
    shortenName("qwen2/modeling_qwen2.py:56", 12),
  );
});
