import { describe, expect, it } from "vitest";
import { sliceLane, slicesFrame } from "../../../test/slices";
import { SLICES_VIEW, type Slice, sliceFrame } from "../../../test/timeline-slices";
import { ns } from "../../base/units";
import { createTimelineModel, originOf } from "./timeline-model";
import { describeSlice, detailsOf, partTitle, stepsText, whenOf } from "./timeline-words";

const KERNEL = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>(int)";

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

const MODEL = createTimelineModel(SLICES_VIEW, sliceFrame(SLICES), (name) =>
  name === KERNEL ? "add f32" : name,
);
const KERNEL_ROW = 5;

describe("what a window is about", () => {
  const place = (start: number, end: number) =>
    partTitle(MODEL, { start: ns(start), end: ns(end) });

  it("is a step or all if it has them whole, and else a window", () => {
    expect(place(100_000, 200_000)).toBe("in step 5");
    expect(place(0, 100_000)).toBe("in step 4");
    expect(place(0, 200_000)).toBe("in the whole recording");
    expect(place(50_000, 200_000)).toBe("in this window");
    expect(stepsText(MODEL, { start: ns(50_000), end: ns(200_000) })).toBe("steps 4–5");
  });

  it("is all or a window where there are no steps", () => {
    const model = { steps: [], whole: { start: ns(0), end: ns(10) } };
    expect(partTitle(model, { start: ns(0), end: ns(10) })).toBe("from the first op on");
    expect(partTitle(model, { start: ns(0), end: ns(9) })).toBe("in this window");
    expect(stepsText(model, { start: ns(0), end: ns(10) })).toBe("");
  });
});

function details(row: number): ReadonlyMap<string, string> {
  return new Map(detailsOf(MODEL, row).map(({ label, value }) => [label, value]));
}

function span(start: number, end: number) {
  return { start, end } as Parameters<typeof originOf>[1];
}

describe("what is said of a slice", () => {
  it("begins at the start of a step, or some time into it", () => {
    // A slice on the edge of two steps is of the second.
    expect(whenOf(MODEL, KERNEL_ROW, 100_000)).toBe("at the start of step 5");
    expect(whenOf(MODEL, KERNEL_ROW, 110_000)).toBe("10 µs into step 5");
  });

  it("calls a kernel by its short name, and keeps the full one", () => {
    const { name, facts } = describeSlice(MODEL, KERNEL_ROW);
    expect(name).toBe("add f32");
    expect(facts).toEqual(["40 µs", "30 µs into step 5", "by aten::add"]);
    expect(details(KERNEL_ROW).get("full name")).toBe(KERNEL);
  });

  it("says who launched a kernel, when, and with which shapes and grid", () => {
    const found = details(KERNEL_ROW);
    expect(found.get("call")).toBe("cudaLaunchKernel");
    expect(found.get("by")).toBe("aten::add");
    // From the beginning of the call to that of the kernel.
    expect(found.get("launched")).toBe("15 µs earlier");
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

describe("what is said of a counter", () => {
  const scale = { low: 0, high: 400, unit: "W", least: 0, most: 400 };
  const power = sliceLane("Power", "counter", "Device 0", { scale });
  const view = { ...SLICES_VIEW, lanes: [...SLICES_VIEW.lanes.slice(0, 1), power] };
  const level = Math.round(((2 ** 31 - 1) * 312.5) / 400);
  const value = { lane: 1, start: 120_000, dur: 1_000, name: "Power", kind: "counter" };
  const steps = SLICES.slice(0, 2);
  const model = createTimelineModel(view, sliceFrame([...steps, { ...value, count: level }]));

  it("is its value at the moment, how long it holds, and when", () => {
    const { name, isCode, phase, facts } = describeSlice(model, 2);
    expect([name, isCode, phase]).toEqual(["Power", false, ""]);
    expect(facts).toEqual(["312.5 W", "1 µs", "20 µs into step 5"]);
  });

  it("has the value in the panel, and nothing of what ops have", () => {
    expect(detailsOf(model, 2)).toEqual([
      { label: "value", value: "312.5 W" },
      { label: "holds", value: "1 µs" },
      { label: "begins", value: "20 µs into step 5" },
      { label: "on", value: "Power, Device 0" },
    ]);
  });

  it("is the highest of several values that are merged", () => {
    const frame = slicesFrame([{ ...value, lane: 1, slice: 7, merged: 5 }]);
    const counts = new Map(frame.columns).set("count", {
      kind: "number",
      values: Float64Array.of(level),
    });
    const merged = createTimelineModel(view, { ...frame, columns: counts });
    expect(describeSlice(merged, 0).facts[0]).toBe("up to 312.5 W");
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
