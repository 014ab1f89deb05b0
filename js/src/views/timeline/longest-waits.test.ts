import { describe, expect, it } from "vitest";
import { SLICES_VIEW, type Slice, sliceFrame } from "../../../test/timeline-slices";
import { longestWaits, waitingDevice } from "./longest-waits";
import { createTimelineModel } from "./timeline-model";
import { waitWords } from "./timeline-words";

const wait = (start: number, dur: number, note: string, name = ""): Slice => ({
  lane: 3,
  start,
  dur,
  name,
  kind: "idle",
  note,
});

/** Waits of 10, 20, 30 and 30 us; the second and the third touch. */
const MODEL = createTimelineModel(
  SLICES_VIEW,
  sliceFrame([
    { lane: 0, start: 0, dur: 200_000, name: "Step 4", kind: "step", count: 4 },
    wait(10_000, 10_000, "Python"),
    wait(30_000, 20_000, "Python"),
    wait(50_000, 30_000, "launching ops\ttrain.py:7", "aten::mul"),
    wait(150_000, 30_000, "blocking call", "cudaMemcpy"),
  ]),
);

function found(start: number, end: number, most = 3) {
  const device = waitingDevice(MODEL);
  if (device === undefined) throw new Error("no device");
  return longestWaits(device, MODEL, start, end, most).map(({ ns, row }) => [ns, row]);
}

describe("the longest waits of a window", () => {
  it("come in the order of their time in it", () => {
    expect(found(0, 200_000)).toEqual([
      [30_000, 3],
      [30_000, 4],
      [20_000, 2],
    ]);
    expect(found(0, 200_000, 2)).toEqual([
      [30_000, 3],
      [30_000, 4],
    ]);
  });

  it("are cut at the edges of the window", () => {
    expect(found(15_000, 35_000)).toEqual([
      [5_000, 1],
      [5_000, 2],
    ]);
    expect(found(80_000, 150_000)).toEqual([]);
  });

  it("say why, where and when", () => {
    expect(waitWords(MODEL, 3)).toEqual({
      what: "launching ops in aten::mul",
      where: "train.py:7 · 50 µs into step 4",
    });
    expect(waitWords(MODEL, 1)).toEqual({ what: "Python", where: "10 µs into step 4" });
  });
});
