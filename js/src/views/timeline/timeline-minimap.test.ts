import { describe, expect, it } from "vitest";
import { sliceLane, slicesFrame, slicesHeader } from "../../../test/slices";
import { busyShares } from "./timeline-minimap";
import { createTimelineModel } from "./timeline-model";

const RANKS = ["rank 0", "rank 1"].flatMap((group) => [
  sliceLane("steps", "thread", group),
  sliceLane("collectives", "stream", group),
  sliceLane("compute", "stream", group),
]);

describe("the strip over a timeline", () => {
  it("shows how many of the ranks work, where there are no devices", () => {
    const frame = slicesFrame([
      { lane: 0, start: 0, dur: 400 },
      { lane: 1, start: 100, dur: 100 },
      { lane: 2, start: 0, dur: 100 },
      { lane: 3, start: 0, dur: 400 },
      { lane: 5, start: 100, dur: 200 },
    ]);
    const model = createTimelineModel(slicesHeader({ lanes: RANKS }), frame);
    // Bins of 100 ns: rank 0 computes in the first and communicates in the second, rank 1 computes in the next two.
    expect(busyShares(model, 8)).toEqual([0.5, 1, 0.5, 0]);
  });
});
