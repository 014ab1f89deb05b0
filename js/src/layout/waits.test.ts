import { describe, expect, it } from "vitest";
import { linearScale } from "../base/scale";
import { ns, px } from "../base/units";
import { buildSliceIndex } from "./slice-index";
import { buildWaits, busyRatio, gapsIn, layoutWaits, positionsIn, sumWaits } from "./waits";

/** `begins` is 2 where a gap begins, as by default, 1 where another cause begins in it, and else 0. */
type Wait = readonly [start: number, dur: number, cause: number, begins?: number];

/** Waits on lane 1; lane 0 has two slices, so that the row does not begin at position 0. */
function waitsOf(list: readonly Wait[], causes = 3) {
  const all: readonly Wait[] = [[0, 5, 0], [10, 5, 0], ...list];
  const index = buildSliceIndex(
    {
      lane: Float64Array.from(all, (_, at) => (at < 2 ? 0 : 1)),
      depth: new Float64Array(all.length),
      start_ns: Float64Array.from(all, ([start]) => start),
      dur_ns: Float64Array.from(all, ([, dur]) => dur),
    },
    2,
  );
  const row = index.ofLane[1]?.[0];
  if (row === undefined) throw new Error("there are no waits");
  const gapsOf = (each: number) => {
    const begins = all[each]?.[3] ?? 2;
    return { gaps: begins === 2 ? 1 : 0, ofCause: begins > 0 ? 1 : 0 };
  };
  return buildWaits(index, row, causes, (each) => all[each]?.[2] ?? -1, gapsOf);
}

/** The boxes on one pixel per ns; a box of its own is 26 px wide or more. */
function layout(list: readonly Wait[], start = 0, end = 1000) {
  const scale = linearScale({ start: ns(start), end: ns(end) }, px(end - start));
  return layoutWaits(waitsOf(list), scale);
}

// Two short ones between two long ones, then 30 ns later another short one.
const WAITS: readonly Wait[] = [
  [0, 26, 0],
  [30, 5, 0],
  [40, 10, 1],
  [80, 2, 1],
  [90, 30, 2],
];

describe("layoutWaits", () => {
  it("gives long waits a box each and sums short ones up in stretches", () => {
    expect(layout(WAITS)).toEqual([
      { left: 0, width: 26, ns: 26, count: 1, gaps: 1, cause: 0, row: 2 },
      // From 30 to 50 the device waits 5 + 10; the cause with 10 counts.
      { left: 30, width: 20, ns: 15, count: 2, gaps: 2, cause: 1, row: 3 },
      { left: 80, width: 2, ns: 2, count: 1, gaps: 1, cause: 1, row: 5 },
      { left: 90, width: 30, ns: 30, count: 1, gaps: 1, cause: 2, row: 6 },
    ]);
  });

  it("sums up a wait that is narrower than 26 px", () => {
    expect(
      layout([
        [0, 25.9, 0],
        [30, 5, 0],
      ]).map(({ count }) => count),
    ).toEqual([2]);
    expect(
      layout([
        [0, 26, 0],
        [30, 5, 0],
      ]).map(({ count }) => count),
    ).toEqual([1, 1]);
  });

  it("ends a stretch where the device works for 26 px", () => {
    const apart = (pause: number) =>
      layout([
        [0, 10, 0],
        [10 + pause, 10, 0],
      ]).map(({ count }) => count);
    expect([apart(25.9), apart(26)]).toEqual([[2], [1, 1]]);
  });

  it("is wide or narrow by the scale of the window", () => {
    const scale = linearScale({ start: ns(0), end: ns(1000) }, px(100));
    const boxes = layoutWaits(waitsOf(WAITS), scale);
    // At a tenth of a pixel per ns, all five are short: 73 of the 120 ns, in 12 px. The first cause has
    // 26 + 5, the last 30.
    expect(boxes).toEqual([{ left: 0, width: 12, ns: 73, count: 5, gaps: 5, cause: 0, row: 2 }]);
  });

  it("shows the waits that reach into the window, and none that only touch it", () => {
    expect(layout(WAITS, 26, 90).map(({ left, ns: time }) => [left, time])).toEqual([
      [4, 15],
      [54, 2],
    ]);
    expect(layout(WAITS, 25, 91).map(({ left, ns: time }) => [left, time])).toEqual([
      [-25, 26],
      [5, 15],
      [55, 2],
      [65, 30],
    ]);
  });

  it("has no boxes where the device never waits", () => {
    expect(layout(WAITS, 200, 300)).toEqual([]);
  });
});

it("finds the positions of the waits in a span", () => {
  // Positions 0 and 1 belong to the other lane.
  const waits = waitsOf(WAITS);
  expect(positionsIn(waits, 0, 1000)).toEqual([2, 7]);
  expect(positionsIn(waits, 26, 80)).toEqual([3, 5]);
  expect(positionsIn(waits, 50, 80)).toEqual([5, 5]);
});

it("takes the time in which a device is busy as a part of that in which it is known to work or wait", () => {
  const waits = waitsOf(WAITS);
  const busy = waits.index.ofLane[0]?.[0] ?? null;
  // It is busy for 5 + 5, and waits for 26 + 5 + 10 + 2 + 30; nothing is known of it from 120 on.
  expect(busyRatio(waits.index, busy, waits, 0, 0, 1000)).toBeCloseTo(10 / 83);
  expect(busyRatio(waits.index, busy, waits, 0, 200, 300)).toBe(0);
  expect(busyRatio(waits.index, busy, null, 0, 0, 1000)).toBe(1);
  // From 12 on: busy for 3, and waiting for 14 + 5 + 10 + 2 + 30.
  expect(busyRatio(waits.index, busy, waits, 12, 0, 1000)).toBeCloseTo(3 / 64);
});

describe("sumWaits", () => {
  const waits = waitsOf(WAITS);

  it("sums waits up by cause, longest first", () => {
    expect(sumWaits(waits, 0, 1000)).toEqual([
      { cause: 0, ns: 31, count: 2 },
      { cause: 2, ns: 30, count: 1 },
      { cause: 1, ns: 12, count: 2 },
    ]);
  });

  it("cuts waits at both edges of the span", () => {
    // 6 of the first wait, and 5 of the last.
    expect(sumWaits(waits, 20, 95)).toEqual([
      { cause: 1, ns: 12, count: 2 },
      { cause: 0, ns: 11, count: 2 },
      { cause: 2, ns: 5, count: 1 },
    ]);
  });

  it("leaves out causes without time in the span", () => {
    expect(sumWaits(waits, 41, 50)).toEqual([{ cause: 1, ns: 9, count: 1 }]);
    expect(sumWaits(waits, 50, 80)).toEqual([]);
  });
});

describe("a gap that the host's states cut into pieces", () => {
  // One gap from 0 to 20 in four pieces of two causes, and one from 50 to 60.
  const PIECES: readonly Wait[] = [
    [0, 5, 0, 2],
    [5, 5, 1, 1],
    [10, 5, 0, 0],
    [15, 5, 1, 0],
    [50, 10, 0, 2],
  ];
  const waits = waitsOf(PIECES);

  it("is one gap, and one of each of its causes", () => {
    expect(gapsIn(waits, 0, 100)).toBe(2);
    expect(sumWaits(waits, 0, 100)).toEqual([
      { cause: 0, ns: 20, count: 2 },
      { cause: 1, ns: 10, count: 1 },
    ]);
    expect(layout(PIECES, 0, 1000).map(({ count, gaps }) => [count, gaps])).toEqual([
      [4, 1],
      [1, 1],
    ]);
  });

  it("is counted in each box that has a part of it", () => {
    // A pixel is 0.1 ns, so that each piece is wide enough for a box of its own.
    const boxes = layoutWaits(waits, linearScale({ start: ns(0), end: ns(20) }, px(200)));
    expect(boxes.map(({ gaps }) => gaps)).toEqual([1, 1, 1, 1]);
  });

  it("is counted where only its end lies in the span", () => {
    expect(gapsIn(waits, 12, 40)).toBe(1);
    expect(sumWaits(waits, 12, 40)).toEqual([
      { cause: 1, ns: 5, count: 1 },
      { cause: 0, ns: 3, count: 1 },
    ]);
    expect(gapsIn(waits, 20, 50)).toBe(0);
  });
});
