import { describe, expect, it } from "vitest";
import { sliceLane } from "../../test/slices";
import { ns } from "../base/units";
import type { SliceLane } from "../wire/header";
import { eachIn, kernelsIn, opsIn, type RangeSource } from "./range-tables";
import { buildSliceIndex } from "./slice-index";

interface Slice {
  readonly lane: number;
  readonly depth?: number;
  readonly start: number;
  readonly dur: number;
  readonly name: string;
  readonly phase?: string;
  /** The row of the op that launched it. */
  readonly op?: number;
}

const LANES: readonly SliceLane[] = [
  sliceLane("main", "thread", "main"),
  sliceLane("stream 7", "stream", "Device 0"),
  sliceLane("queue", "queue", "Device 0"),
  sliceLane("autograd", "thread", "autograd"),
];

//  main        0 ProfilerStep ──────────────────────────────── 1000
//              ├ mm 100 ───────────── 400
//              │ ├ add 150–250  └ mm 300–350
//              └ add 500–600
//  stream 7    gemm 200–500 of the first mm, gemm 600–640 of the last add, a copy 700–720 of no op
//  autograd    add 100–200
const SLICES: readonly Slice[] = [
  { lane: 0, start: 0, dur: 1000, name: "ProfilerStep" },
  { lane: 0, depth: 1, start: 100, dur: 300, name: "mm", phase: "forward" },
  { lane: 0, depth: 2, start: 150, dur: 100, name: "add", phase: "forward" },
  { lane: 0, depth: 2, start: 300, dur: 50, name: "mm", phase: "forward" },
  { lane: 0, depth: 1, start: 500, dur: 100, name: "add", phase: "backward" },
  { lane: 1, start: 200, dur: 300, name: "gemm", phase: "forward", op: 1 },
  { lane: 1, start: 600, dur: 40, name: "gemm", phase: "backward", op: 4 },
  { lane: 1, start: 700, dur: 20, name: "copy", phase: "data" },
  { lane: 2, start: 0, dur: 1000, name: "queue" },
  { lane: 3, start: 100, dur: 100, name: "add", phase: "backward" },
];

function textOf(texts: readonly string[]) {
  const words = [...new Set(texts)];
  const keys = Int32Array.from(texts, (text) => words.indexOf(text));
  return { kind: "text" as const, words, keys };
}

function sourceOf(slices: readonly Slice[]): RangeSource {
  const column = (of: (slice: Slice) => number) => Float64Array.from(slices, of);
  const start = column((slice) => slice.start);
  const dur = column((slice) => slice.dur);
  const lane = column((slice) => slice.lane);
  const depth = column((slice) => slice.depth ?? 0);
  return {
    ops: buildSliceIndex({ lane, depth, start_ns: start, dur_ns: dur }, LANES.length),
    view: { lanes: LANES },
    names: textOf(slices.map(({ name }) => name)),
    phases: textOf(slices.map(({ phase }) => phase ?? "python")),
    start,
    dur,
    op: column((slice) => slice.op ?? -1),
  };
}

/** The rows of a table with their words, and some of their numbers. */
function rowsOf(
  table: typeof opsIn,
  [start, end]: readonly [number, number],
  shown: readonly string[],
  slices = SLICES,
) {
  const source = sourceOf(slices);
  return table(source, { start: ns(start), end: ns(end) }).map((row) => {
    const numbers = row as unknown as Readonly<Record<string, number>>;
    const words = { name: source.names.words[row.key], phase: source.phases.words[row.phase] };
    return { ...words, ...Object.fromEntries(shown.map((each) => [each, numbers[each]])) };
  });
}

// Work on two streams.
const STREAMS: readonly Slice[] = [
  { lane: 0, start: 0, dur: 100, name: "gemm" },
  { lane: 0, start: 150, dur: 50, name: "copy" },
  { lane: 0, start: 200, dur: 40, name: "gemm" },
  { lane: 1, start: 90, dur: 20, name: "copy" },
  { lane: 1, start: 300, dur: 60, name: "fill" },
];

function visits(start: number, end: number, slices = STREAMS) {
  const { ops } = sourceOf(slices);
  const found: (readonly number[])[] = [];
  for (const row of ops.rows) eachIn(ops, row, start, end, (...each) => found.push(each));
  return found;
}

describe("eachIn", () => {
  it("visits the slices of a span with their part of it", () => {
    // Row of the frame, time in the span.
    expect(visits(50, 205)).toEqual([
      [0, 50],
      [1, 50],
      [2, 5],
      [3, 20],
    ]);
  });

  it("passes over slices that only touch the span", () => {
    expect(visits(100, 150).map(([row]) => row)).toEqual([3]);
    expect(visits(110, 150)).toEqual([]);
  });

  it("gives a slice that is longer than the span all of it", () => {
    expect(visits(20, 30)).toEqual([[0, 10]]);
  });

  it("visits instants inside the span", () => {
    const instant = [{ lane: 0, start: 5, dur: 0, name: "add" }];
    expect(visits(0, 10, instant)).toEqual([[0, 0]]);
    expect(visits(6, 10, instant)).toEqual([]);
  });

  it("passes over slices that ended inside an overlapping one", () => {
    const overlapping: readonly Slice[] = [
      { lane: 0, start: 0, dur: 100, name: "mm" },
      { lane: 0, start: 10, dur: 20, name: "mm" },
      { lane: 0, start: 40, dur: 30, name: "mm" },
    ];
    expect(visits(50, 60, overlapping).map(([row]) => row)).toEqual([0, 2]);
  });
});

describe("opsIn", () => {
  const TIMES = ["calls", "self_cpu_ns", "total_cpu_ns", "self_device_ns"];

  it("counts the ops of all threads with the device work that they launched", () => {
    expect(rowsOf(opsIn, [0, 1000], TIMES)).toEqual([
      {
        name: "mm",
        phase: "forward",
        calls: 2,
        // 300 - 100 - 50, and the 50 of the inner mm.
        self_cpu_ns: 200,
        // The inner mm is part of the outer one.
        total_cpu_ns: 300,
        self_device_ns: 300,
      },
      {
        name: "add",
        // 200 of its 300 ns are backward.
        phase: "backward",
        calls: 3,
        self_cpu_ns: 300,
        total_cpu_ns: 300,
        self_device_ns: 40,
      },
      // The copy was launched by no known op.
      {
        name: undefined,
        phase: "data",
        calls: 0,
        self_cpu_ns: 0,
        total_cpu_ns: 0,
        self_device_ns: 20,
      },
    ]);
  });

  it("cuts times at the edges of the range and counts what is left as calls", () => {
    expect(rowsOf(opsIn, [200, 550], TIMES)).toEqual([
      {
        name: "mm",
        phase: "forward",
        calls: 2,
        // 200 to 400, less 50 of the add and 50 of the inner mm, which has them itself.
        self_cpu_ns: 150,
        total_cpu_ns: 200,
        self_device_ns: 300,
      },
      // 200 to 250 and 500 to 550; that of the other thread ends at 200.
      {
        name: "add",
        phase: "forward",
        calls: 2,
        self_cpu_ns: 100,
        total_cpu_ns: 100,
        self_device_ns: 0,
      },
    ]);
  });

  it("gives the part of the own time of all ops", () => {
    // 200 and 300 of 500.
    expect(rowsOf(opsIn, [0, 1000], ["self_cpu_ratio"])).toEqual([
      { name: "mm", phase: "forward", self_cpu_ratio: 0.4 },
      { name: "add", phase: "backward", self_cpu_ratio: 0.6 },
      { name: undefined, phase: "data", self_cpu_ratio: 0 },
    ]);
  });

  it("shows an op whose kernel alone lies in the range, without calls", () => {
    expect(rowsOf(opsIn, [610, 630], TIMES)).toEqual([
      {
        name: "add",
        phase: "backward",
        calls: 0,
        self_cpu_ns: 0,
        total_cpu_ns: 0,
        self_device_ns: 20,
      },
    ]);
  });

  it("orders ops without device work by their own time", () => {
    const slices: readonly Slice[] = [
      { lane: 0, start: 0, dur: 10, name: "short" },
      { lane: 0, start: 20, dur: 30, name: "long" },
    ];
    expect(rowsOf(opsIn, [0, 100], [], slices).map(({ name }) => name)).toEqual(["long", "short"]);
  });

  it("has no rows where nothing but the step runs", () => {
    expect(rowsOf(opsIn, [800, 900], [])).toEqual([]);
  });
});

describe("kernelsIn", () => {
  it("counts the work of all streams by name, the largest first", () => {
    expect(rowsOf(kernelsIn, [0, 1000], ["calls", "sum_ns", "mean_ns", "max_ns"])).toEqual([
      { name: "gemm", phase: "forward", calls: 2, sum_ns: 340, mean_ns: 170, max_ns: 300 },
      { name: "copy", phase: "data", calls: 1, sum_ns: 20, mean_ns: 20, max_ns: 20 },
    ]);
  });

  it("cuts kernels at the edges of the range", () => {
    // 450 to 500 and 600 to 620.
    expect(rowsOf(kernelsIn, [450, 620], ["calls", "sum_ns", "mean_ns"])).toEqual([
      { name: "gemm", phase: "forward", calls: 2, sum_ns: 70, mean_ns: 35 },
    ]);
  });

  it("gives the part of the time of all kernels", () => {
    // 40 and 20 of 60.
    expect(rowsOf(kernelsIn, [550, 1000], ["sum_ratio"])).toEqual([
      { name: "gemm", phase: "backward", sum_ratio: 40 / 60 },
      { name: "copy", phase: "data", sum_ratio: 20 / 60 },
    ]);
  });

  it("has no rows where no kernel runs", () => {
    expect(rowsOf(kernelsIn, [500, 600], [])).toEqual([]);
  });
});
