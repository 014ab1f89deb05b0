import { describe, expect, it } from "vitest";
import type { Column, Frame } from "../../wire/frame";
import type { SlicesHeader } from "../../wire/header";
import { createTimelineModel, originOf } from "./timeline-model";
import { describeSlice, detailsOf } from "./timeline-words";

const KERNEL = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>(int)";

interface Slice {
  readonly lane: number;
  readonly start: number;
  readonly dur: number;
  readonly name: string;
  readonly kind: string;
  readonly depth?: number;
  readonly note?: string;
  readonly source?: number;
  readonly op?: number;
  readonly count?: number;
  readonly grid?: string;
  readonly shapes?: string;
}

/** Two steps of 100 us: in the second an op of 20 us launches a kernel of 40 us, before which the device waits. */
const SLICES: readonly Slice[] = [
  { lane: 0, start: 0, dur: 100_000, name: "Step 4", kind: "step", count: 4 },
  { lane: 0, start: 100_000, dur: 100_000, name: "Step 5", kind: "step", count: 5 },
  { lane: 1, start: 110_000, dur: 20_000, name: "aten::add", kind: "op", shapes: "[[2,3]]" },
  { lane: 2, start: 115_000, dur: 5_000, name: "cudaLaunchKernel", kind: "runtime", op: 2 },
  {
    lane: 3,
    start: 0,
    dur: 130_000,
    name: "aten::add",
    kind: "idle",
    note: "launching ops\ttrain.py:7",
  },
  {
    lane: 4,
    start: 130_000,
    dur: 40_000,
    name: KERNEL,
    kind: "kernel",
    source: 3,
    op: 2,
    grid: "8×1×1",
  },
];

const VIEW = {
  name: "timeline",
  title: "Timeline",
  count: null,
  empty: null,
  place: "tab",
  tab: "timeline",
  group: "",
  offset: 0,
  length: 1,
  shape: "slices",
  excerpt: null,
  lanes: [
    { title: "Steps", kind: "steps", group: "" },
    { title: "main", kind: "thread", group: "main" },
    { title: "calls", kind: "calls", group: "main" },
    { title: "Device 0", kind: "waits", group: "Device 0" },
    { title: "stream 7", kind: "stream", group: "Device 0" },
  ],
  layers: [{ title: "Ops", column: "depth" }],
  columns: [
    { name: "shapes", title: "Shapes" },
    { name: "grid", title: "Grid" },
  ],
} as unknown as SlicesHeader;

function text(values: readonly string[]): Column {
  const words = [...new Set(values)];
  return { kind: "text", words, keys: Int32Array.from(values, (value) => words.indexOf(value)) };
}

function numbers(values: readonly number[]): Column {
  return { kind: "number", values: Float64Array.from(values) };
}

const FRAME: Frame = {
  rows: SLICES.length,
  columns: new Map([
    ["lane", numbers(SLICES.map(({ lane }) => lane))],
    ["depth", numbers(SLICES.map(({ depth = 0 }) => depth))],
    ["start_ns", numbers(SLICES.map(({ start }) => start))],
    ["dur_ns", numbers(SLICES.map(({ dur }) => dur))],
    ["name", text(SLICES.map(({ name }) => name))],
    ["kind", text(SLICES.map(({ kind }) => kind))],
    ["phase", text(SLICES.map(() => "forward"))],
    ["note", text(SLICES.map(({ note = "" }) => note))],
    ["source", numbers(SLICES.map(({ source = -1 }) => source))],
    ["op", numbers(SLICES.map(({ op = -1 }) => op))],
    ["count", numbers(SLICES.map(({ count = 1 }) => count))],
    ["shapes", text(SLICES.map(({ shapes = "" }) => shapes))],
    ["grid", text(SLICES.map(({ grid = "" }) => grid))],
  ]),
};

const MODEL = createTimelineModel(VIEW, FRAME, (name) => (name === KERNEL ? "add f32" : name));
const KERNEL_ROW = 5;

function details(row: number): ReadonlyMap<string, string> {
  return new Map(detailsOf(MODEL, row).map(({ label, value }) => [label, value]));
}

function span(start: number, end: number) {
  return { start, end } as Parameters<typeof originOf>[1];
}

describe("what is said of a slice", () => {
  it("calls a kernel by its short name, and keeps the full one", () => {
    const { name, facts } = describeSlice(MODEL, KERNEL_ROW);
    expect(name).toBe("add f32");
    expect(facts).toEqual(["40.0 µs", "30.0 µs into step 5", "by aten::add"]);
    expect(details(KERNEL_ROW).get("full name")).toBe(KERNEL);
  });

  it("says who launched a kernel, when, and with which shapes and grid", () => {
    const found = details(KERNEL_ROW);
    expect(found.get("call")).toBe("cudaLaunchKernel");
    expect(found.get("by")).toBe("aten::add");
    // From the beginning of the call to that of the kernel.
    expect(found.get("launched")).toBe("15.0 µs earlier");
    expect(found.get("shapes")).toBe("[[2,3]]");
    expect(found.get("grid")).toBe("8×1×1");
  });

  it("says what was not recorded of an op, and what brings it", () => {
    expect(details(2).get("stack")).toBe("not recorded · --stack");
    expect(details(2).get("shapes")).toBe("[[2,3]]");
    expect(details(3).has("stack")).toBe(false);
    expect(details(0).has("stack")).toBe(false);
  });

  it("explains a wait by its cause, the line, and the work around it", () => {
    const found = details(4);
    expect(found.get("cause")).toBe("launching ops");
    expect(found.get("line")).toBe("train.py:7");
    expect(found.get("ran before")).toBe("nothing in the recording");
    expect(found.get("runs after")).toBe("add f32");
  });
});

describe("where times are counted from", () => {
  it("is the step that a window shows", () => {
    expect(originOf(MODEL, span(110_000, 150_000)).origin).toBe(100_000);
    expect(originOf(MODEL, span(100_000, 200_000)).step?.number).toBe(5);
  });

  it("is the first step in a window that shows several", () => {
    const { origin, step } = originOf(MODEL, span(0, 200_000));
    expect([origin, step]).toEqual([0, undefined]);
  });

  it("is the beginning of the recording where a window begins within a step", () => {
    expect(originOf(MODEL, span(20_000, 200_000)).origin).toBe(0);
  });
});
