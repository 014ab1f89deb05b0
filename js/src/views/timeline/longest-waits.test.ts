import { describe, expect, it } from "vitest";
import { SLICES_VIEW, type Slice, sliceFrame } from "../../../test/timeline-slices";
import { longestWaits, waitingDevice } from "./longest-waits";
import { createTimelineModel } from "./timeline-model";
import { detailsOf, waitWords } from "./timeline-words";

// As Python counts: a gap begins, another cause begins in it, or one that was before goes on.
const GAP = 2;
const CAUSE = 1;
const SAME = 0;

const wait = (start: number, dur: number, count: number, note: string, name = ""): Slice => ({
  lane: 3,
  start,
  dur,
  name,
  kind: "idle",
  note,
  count,
});

/** Waits of 10, 20, 30 and 30 us; the second and the third are of one gap. */
const MODEL = createTimelineModel(
  SLICES_VIEW,
  sliceFrame([
    { lane: 0, start: 0, dur: 200_000, name: "Step 4", kind: "step", count: 4 },
    wait(10_000, 10_000, GAP, "Python"),
    wait(30_000, 20_000, GAP, "Python"),
    wait(50_000, 30_000, CAUSE, "op dispatch\ttrain.py:7", "aten::mul"),
    wait(150_000, 30_000, GAP, "a blocking call", "cudaMemcpy"),
  ]),
);

function longest(start: number, end: number, most = 3, model = MODEL) {
  const device = waitingDevice(model);
  if (device === undefined) throw new Error("no device");
  return longestWaits(device, model, start, end, most);
}

function found(start: number, end: number, most = 3, model = MODEL) {
  return longest(start, end, most, model).map(({ ns, row }) => [ns, row]);
}

describe("the longest waits of a window", () => {
  it("are whole gaps in the order of their time in it, by the wait that takes the most of each", () => {
    expect(found(0, 200_000)).toEqual([
      [50_000, 3],
      [30_000, 4],
      [10_000, 1],
    ]);
    expect(found(0, 200_000, 2)).toEqual([
      [50_000, 3],
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

  it("name the cause with the most time in all, and the longest of its waits", () => {
    const model = createTimelineModel(
      SLICES_VIEW,
      sliceFrame([
        wait(0, 20_000, GAP, "Python", "first"),
        wait(20_000, 35_000, CAUSE, "a blocking call", "cudaMemcpy"),
        wait(55_000, 25_000, SAME, "Python", "second"),
      ]),
    );
    expect(found(0, 100_000, 3, model)).toEqual([[80_000, 2]]);
  });

  it("are known to a pixel only where a gap begins or ends in merged waits", () => {
    const merged = [1, 3, 1, 2, 1];
    const gaps = [1, 0, 1, 2, 1];
    const begins = [GAP, SAME, GAP, GAP, GAP];
    const starts = [0, 40_000, 60_000, 90_000, 95_000];
    const durations = [40_000, 5_000, 30_000, 4_000, 20_000];
    const slices = starts.map((start, at) =>
      wait(start, durations[at] ?? 0, begins[at] ?? 0, "Python"),
    );
    const plain = sliceFrame(slices);
    const numbers = (values: number[]) =>
      ({ kind: "number", values: Int32Array.from(values) }) as const;
    const columns = new Map([
      ...plain.columns,
      ["merged", numbers(merged)],
      ["gaps", numbers(gaps)],
      ["cause_gaps", numbers(gaps)],
    ] as const);
    const model = createTimelineModel(SLICES_VIEW, { ...plain, columns });
    expect(longest(0, 200_000, 9, model).map(({ ns, isExact }) => [ns, isExact])).toEqual([
      [45_000, true],
      [30_000, false],
      [20_000, true],
      [4_000, false],
    ]);
  });

  it("say the main cause of a gap, where and when", () => {
    const [mixed, blocked, python] = longest(0, 200_000).map((each) => waitWords(MODEL, each));
    expect(mixed).toEqual({
      long: "50 µs",
      what: "mostly op dispatch",
      name: "aten::mul",
      where: "train.py:7 · 30 µs into step 4",
    });
    expect([blocked?.what, blocked?.name]).toEqual(["a blocking call", "cudaMemcpy"]);
    expect(python).toEqual({
      long: "10 µs",
      what: "Python",
      name: "",
      where: "10 µs into step 4",
    });
  });

  it("name what most of the cause is in, also where that is several waits and not the longest", () => {
    const model = createTimelineModel(
      SLICES_VIEW,
      sliceFrame([
        wait(0, 3_000, GAP, "op dispatch", "run"),
        wait(3_000, 4_000, SAME, "op dispatch", "aten::diff"),
        wait(7_000, 3_500, SAME, "op dispatch", "run"),
      ]),
    );
    const [only] = longest(0, 20_000, 1, model).map((each) => waitWords(model, each));
    expect([only?.long, only?.what, only?.name]).toEqual(["10.5 µs", "op dispatch", "run"]);
  });

  it("name the longest wait of the cause only if it is most of it", () => {
    const model = createTimelineModel(
      SLICES_VIEW,
      sliceFrame([
        wait(0, 2_000_000, GAP, "work that is done once", "aten::empty"),
        wait(2_000_000, 347_000_000, SAME, "work that is done once", "cudaLaunchKernel"),
        wait(400_000_000, 5_000_000, GAP, "Python", "forward"),
        wait(405_000_000, 6_000_000, SAME, "Python"),
        wait(411_000_000, 3_000_000, CAUSE, "a blocking call", "cudaMemcpy"),
      ]),
    );
    const words = longest(0, 500_000_000, 3, model).map((each) => waitWords(model, each));
    expect(words.map(({ long, what, name }) => [long, what, name])).toEqual([
      ["347 ms", "work that is done once", "cudaLaunchKernel"],
      ["14 ms", "mostly Python", ""],
    ]);
    const whole = (row: number) =>
      detailsOf(model, row).find(({ label }) => label === "whole gap")?.value;
    expect(whole(1)).toBe("349 ms, all of it for work that is done once, in 2 waits");
    expect(whole(4)).toBe("14 ms, 3 ms of it for a blocking call, in 3 waits");
  });
});
