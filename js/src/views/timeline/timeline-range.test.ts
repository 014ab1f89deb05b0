import { describe, expect, it } from "vitest";
import { SLICES_VIEW, sliceFrame } from "../../../test/timeline-slices";
import { ns } from "../../base/units";
import { createTimelineModel } from "./timeline-model";
import { hostPhases, hostWaits, inGaps } from "./timeline-range";

const waits = (gaps: number, ...counts: number[]) =>
  counts.map((count) => ({ lane: 0, cause: "Python", count, ns: 5, gaps }));

it("counts gaps with several causes once", () => {
  expect(inGaps(waits(5, 3, 4))).toBe(", in 5 gaps");
  expect(inGaps(waits(1, 1))).toBe("");
});

it("does not count a single gap, or none", () => {
  expect(inGaps(waits(1, 1, 1))).toBe("");
  expect(inGaps([])).toBe("");
});

describe("what the host does in a window", () => {
  const phase = (start: number, dur: number, name: string) => ({
    lane: 0,
    depth: 1,
    start,
    dur,
    name,
    kind: "phase",
    phase: name,
  });
  const model = createTimelineModel(
    SLICES_VIEW,
    sliceFrame([
      { lane: 0, start: 0, dur: 100, name: "Step 1", kind: "step", count: 1 },
      phase(0, 20, "forward"),
      phase(20, 50, "idle"),
      phase(70, 30, "forward"),
    ]),
  );

  it("is the time of each phase, the longest first", () => {
    expect(hostPhases(model, { start: ns(0), end: ns(100) })).toEqual([
      { phase: "forward", ns: 50 },
      { phase: "idle", ns: 50 },
    ]);
  });

  it("is cut at the edges of the window", () => {
    expect(hostPhases(model, { start: ns(10), end: ns(75) })).toEqual([
      { phase: "idle", ns: 50 },
      { phase: "forward", ns: 15 },
    ]);
    expect(hostPhases(model, { start: ns(200), end: ns(300) })).toEqual([]);
  });
});

describe("when the host waits in a window", () => {
  const lanes = [...SLICES_VIEW.lanes, { ...SLICES_VIEW.lanes[0], kind: "host_waits" as const }];
  const lane = lanes.length - 1;
  const wait = (start: number, dur: number) => ({
    lane,
    start,
    dur,
    name: "time.sleep",
    kind: "blocking",
  });
  const model = createTimelineModel(
    { ...SLICES_VIEW, lanes } as typeof SLICES_VIEW,
    sliceFrame([wait(10, 20), wait(40, 30)]),
  );

  it("is each wait with its part in the window, the longest first", () => {
    expect(hostWaits(model, { start: ns(0), end: ns(100) })).toEqual([
      { row: 1, ns: 30 },
      { row: 0, ns: 20 },
    ]);
    expect(hostWaits(model, { start: ns(15), end: ns(45) })).toEqual([
      { row: 0, ns: 15 },
      { row: 1, ns: 5 },
    ]);
  });

  it("is none outside of it, or without such a lane", () => {
    expect(hostWaits(model, { start: ns(80), end: ns(100) })).toEqual([]);
    const none = createTimelineModel(SLICES_VIEW, sliceFrame([]));
    expect(hostWaits(none, { start: ns(0), end: ns(100) })).toEqual([]);
  });
});
