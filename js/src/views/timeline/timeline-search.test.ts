// @vitest-project logic
import { describe, expect, it } from "vitest";
import { SLICES_VIEW, type Slice, sliceFrame } from "../../../test/timeline-slices";
import { createTimelineModel } from "./timeline-model";
import { searchSlices } from "./timeline-search";

/** Two ops with one inside the first, two gaps of which the first has two waits, and two kernels between them. */
const SLICES: readonly Slice[] = [
  { lane: 1, start: 0, dur: 50, name: "aten::linear", kind: "op" },
  { lane: 1, start: 10, dur: 30, name: "aten::addmm", kind: "op", depth: 1 },
  { lane: 1, start: 60, dur: 20, name: "aten::relu", kind: "op" },
  { lane: 3, start: 0, dur: 5, name: "aten::linear", kind: "idle", note: "Python\tmodel.py:1" },
  { lane: 3, start: 5, dur: 15, name: "aten::addmm", kind: "idle", note: "launching ops" },
  { lane: 3, start: 40, dur: 25, name: "", kind: "idle", note: "loading data" },
  { lane: 4, start: 20, dur: 20, name: "addmm_kernel", kind: "kernel" },
  { lane: 4, start: 65, dur: 10, name: "relu_kernel", kind: "kernel" },
];
const MODEL = createTimelineModel(SLICES_VIEW, sliceFrame(SLICES));

function found(query: string): readonly string[] {
  const matches = searchSlices(MODEL, "depth", query);
  const rows = Array.from(matches?.rows() ?? []);
  expect(matches?.count ?? 0).toBe(rows.length);
  return rows.map((row) => `${SLICES[row]?.start} ${SLICES[row]?.name || SLICES[row]?.note}`);
}

describe("searchSlices", () => {
  it("finds ops, waits and kernels of all lanes in order of time", () => {
    expect(found("addmm")).toEqual(["5 aten::addmm", "10 aten::addmm", "20 addmm_kernel"]);
    expect(searchSlices(MODEL, "depth", "addmm")?.ns).toBe(15 + 30 + 20);
  });

  it("finds the longest wait of each gap, by how long the gap is", () => {
    expect(found("wait")).toEqual(["5 aten::addmm", "40 loading data"]);
    expect(found("wait >24ns")).toEqual(["40 loading data"]);
  });

  it("finds a wait by its cause", () => {
    expect(found("python")).toEqual(["0 aten::linear"]);
  });

  it("finds slices by an expression and by how long they are", () => {
    expect(found("/relu|linear/ <25ns")).toEqual([
      "0 aten::linear",
      "60 aten::relu",
      "65 relu_kernel",
    ]);
  });

  it("finds all rows of a long recording without running out of stack", () => {
    const many = Array.from({ length: 200_000 }, (_, at) => ({
      lane: 3,
      start: 10 * at,
      dur: 5,
      name: "",
      kind: "idle",
      note: "Python",
    }));
    const model = createTimelineModel(SLICES_VIEW, sliceFrame(many));
    expect(searchSlices(model, "depth", "wait")?.count).toBe(200_000);
  });

  it("is null without a query", () => {
    expect(searchSlices(MODEL, "depth", "  ")).toBeNull();
  });
});
