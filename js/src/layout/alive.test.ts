import { describe, expect, it } from "vitest";
import type { Column, Frame } from "../wire/frame";
import { aliveAt, grownSince } from "./alive";

interface Block {
  readonly device?: string;
  readonly category?: string;
  readonly op?: string;
  readonly line?: number;
  readonly shape?: string;
  readonly name?: string;
  readonly module?: string;
  readonly size: number;
  readonly from?: number;
  readonly to?: number;
  readonly cycle?: number;
}

function frameOf(blocks: readonly Block[]): Frame {
  const text = (pick: (block: Block) => string): Column => {
    const words = Array.from(new Set(blocks.map(pick)));
    return {
      kind: "text",
      words,
      keys: Int32Array.from(blocks, (each) => words.indexOf(pick(each))),
    };
  };
  const number = (pick: (block: Block) => number): Column => ({
    kind: "number",
    values: Float64Array.from(blocks, pick),
  });
  const columns: Record<string, Column> = {
    device: text(({ device = "cpu" }) => device),
    category: text(({ category = "activation" }) => category),
    op: text(({ op = "aten::mm" }) => op),
    shape: text(({ shape = "" }) => shape),
    file: text(({ line }) => (line === undefined ? "" : "/home/me/train.py")),
    line: number(({ line = Number.NaN }) => line),
    size_bytes: number(({ size }) => size),
    allocated_at_ns: number(({ from = Number.NaN }) => from),
    freed_at_ns: number(({ to = Number.NaN }) => to),
    cycle: number(({ cycle = 0 }) => cycle),
    module: text(({ module = "" }) => module),
    name: text(({ name = "" }) => name),
    dtype: text(() => ""),
  };
  return { rows: blocks.length, columns: new Map(Object.entries(columns)) };
}

describe("aliveAt", () => {
  it("has blocks from their allocation until their release", () => {
    const frame = frameOf([{ size: 8, from: 10, to: 20 }]);
    const sizes = [9, 10, 19, 20].map((time) => aliveAt(frame, "cpu", time).length);
    expect(sizes).toEqual([0, 1, 1, 0]);
  });

  it("has blocks from before the recording, and those that stay", () => {
    const frame = frameOf([
      { size: 8, to: 20 },
      { size: 4, from: 15, op: "aten::add" },
    ]);
    const found = (time: number) => aliveAt(frame, "cpu", time).map(({ bytes }) => bytes);
    expect([0, 15, 99].map(found)).toEqual([[8], [8, 4], [4]]);
  });

  it("has the blocks of the cycle at that time alone, in which older ones are listed again", () => {
    const frame = frameOf([
      { size: 8, category: "parameter" },
      { size: 2, from: 10 },
      { size: 8, category: "parameter", cycle: 1 },
      { size: 2, cycle: 1 },
      { size: 4, from: 100, to: 110, cycle: 1, op: "aten::add" },
    ]);
    const found = (time: number) => aliveAt(frame, "cpu", time).map(({ bytes }) => bytes);
    expect([0, 50, 105, 120].map(found)).toEqual([[8], [8, 2], [8, 4, 2], [8, 2]]);
    // Gradients that end with a cycle may be gone before the next one begins.
    expect(grownSince(frame, "cpu", 0)).toEqual([]);
  });

  it("adds up blocks of one kind from one place, the largest groups first", () => {
    const frame = frameOf([
      { size: 5, from: 1, line: 3 },
      { size: 6, from: 4, line: 3 },
      { size: 8, from: 2, line: 9 },
      { size: 2, from: 2, line: 3, category: "temporary" },
    ]);
    const found = aliveAt(frame, "cpu", 5).map(({ bytes, count, title, first, last }) => ({
      bytes,
      count,
      title,
      times: [first, last],
    }));
    expect(found).toEqual([
      { bytes: 11, count: 2, title: "mm train.py:3", times: [1, 4] },
      { bytes: 8, count: 1, title: "mm train.py:9", times: [2, 2] },
      { bytes: 2, count: 1, title: "mm train.py:3", times: [2, 2] },
    ]);
  });

  it("counts parameters together, whatever made them", () => {
    const frame = frameOf([
      { size: 5, category: "parameter", op: "aten::empty" },
      { size: 7, category: "parameter", op: "aten::zeros" },
    ]);
    const [group] = aliveAt(frame, "cpu", 5);
    expect([group?.title, group?.bytes]).toEqual(["2 parameters", 12]);
  });

  it("calls tensors as the program does, and adds up the elements of a list", () => {
    const frame = frameOf([
      { size: 9, from: 0, name: "logits", shape: "[8, 4]", module: "head", op: "aten::addmm" },
      { size: 3, from: 0, name: "kept[0]", shape: "[4]" },
      { size: 3, from: 1, name: "kept[11]", shape: "[4]" },
      { size: 2, from: 0, module: "blocks.0", op: "aten::softmax" },
    ]);
    const found = aliveAt(frame, "cpu", 5).map(({ title, place }) => [title, place]);
    expect(found).toEqual([
      ["logits [8, 4]", "head · addmm"],
      ["kept[*] [4]", "mm"],
      ["blocks.0", "softmax"],
    ]);
  });

  it("has what was there before in its place by size, as the areas have", () => {
    const frame = frameOf([
      { size: 90, op: "", category: "unknown" },
      { size: 8, op: "", category: "unknown", name: "data", shape: "[2]" },
      { size: 2, from: 0 },
    ]);
    const found = aliveAt(frame, "cpu", 5).map(({ title }) => title);
    expect(found).toEqual(["from before the recording", "data [2]", "mm"]);
  });

  it("counts equal siblings together", () => {
    const frame = frameOf([
      { size: 5, from: 0, module: "blocks.0.mlp.2" },
      { size: 5, from: 0, module: "blocks.11.mlp.2" },
      { size: 6, from: 0, module: "blocks.1.attn" },
      { size: 2, from: 0, module: "Qwen2MLP_7" },
      { size: 2, from: 0, module: "Qwen2MLP_8" },
    ]);
    const found = aliveAt(frame, "cpu", 5).map(({ bytes, title }) => [bytes, title]);
    expect(found).toEqual([
      [10, "blocks.*.mlp.* ×2"],
      [6, "blocks.1.attn"],
      [4, "Qwen2MLP ×2"],
    ]);
  });

  it("knows the devices apart", () => {
    const frame = frameOf([{ size: 5 }, { size: 7, device: "cuda:0" }]);
    expect(aliveAt(frame, "cuda:0", 1).map(({ bytes }) => bytes)).toEqual([7]);
    expect(aliveAt(frame, "cuda:7", 1)).toEqual([]);
  });

  it("calls tensors without a name by what made them, with their shape, and nodes of autograd by their op", () => {
    const node = "autograd::engine::evaluate_function: NllLossBackward0";
    const frame = frameOf([
      { size: 9, from: 0, shape: "[8, 4]", op: "aten::addmm", line: 2 },
      { size: 5, from: 0, op: node },
    ]);
    const found = aliveAt(frame, "cpu", 5).map(({ title, place }) => [title, place]);
    expect(found).toEqual([
      ["addmm [8, 4]", "train.py:2"],
      ["NllLoss backward", ""],
    ]);
  });
});

describe("tensors that are called alike", () => {
  it("have what they differ by behind their title", () => {
    const shape = "[32, 32]";
    const frame = frameOf([
      { size: 9, from: 0, shape, module: "stem", op: "aten::conv" },
      { size: 8, from: 0, shape, module: "block", op: "aten::add", line: 3 },
      { size: 7, from: 0, shape, module: "block", op: "aten::relu", line: 3 },
      { size: 6, from: 0, shape: "[4]", module: "head", op: "aten::mm", line: 3 },
      { size: 5, from: 0, shape: "[4]", module: "head", op: "aten::mm", line: 4 },
    ]);
    const found = aliveAt(frame, "cpu", 5).map(({ title, place }) => [title, place]);
    expect(found).toEqual([
      ["stem [32, 32]", "conv"],
      ["block [32, 32] add", "train.py:3"],
      ["block [32, 32] relu", "train.py:3"],
      ["head [4] train.py:3", "mm"],
      ["head [4] train.py:4", "mm"],
    ]);
  });

  it("keep their title where nothing else is known of them", () => {
    const frame = frameOf([
      { size: 9, from: 0, op: "aten::mm" },
      { size: 8, from: 0, op: "aten::mm", category: "temporary" },
    ]);
    expect(aliveAt(frame, "cpu", 5).map(({ title }) => title)).toEqual(["mm", "mm"]);
  });
});

describe("grownSince", () => {
  it("has what was allocated since then and is never released", () => {
    const frame = frameOf([
      { size: 1 },
      { size: 2, from: 5 },
      { size: 4, from: 15 },
      { size: 8, from: 16, to: 20 },
    ]);
    expect(grownSince(frame, "cpu", 10).map(({ bytes }) => bytes)).toEqual([4]);
  });
});
