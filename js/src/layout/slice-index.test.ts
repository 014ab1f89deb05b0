import { describe, expect, it } from "vitest";
import {
  buildSliceIndex,
  coveredIn,
  durationAt,
  firstEnding,
  firstStarting,
  hasSlices,
} from "./slice-index";

type Slice = readonly [lane: number, depth: number, start: number, dur: number];

function indexOf(slices: readonly Slice[], lanes = 1) {
  const column = (at: 0 | 1 | 2 | 3) => Float64Array.from(slices, (slice) => slice[at]);
  return buildSliceIndex(
    { lane: column(0), depth: column(1), start_ns: column(2), dur_ns: column(3) },
    lanes,
  );
}

/** The row of a lane and depth. */
function rowOf(index: ReturnType<typeof indexOf>, lane = 0, depth = 0) {
  const row = index.ofLane[lane]?.find((each) => each.depth === depth);
  if (row === undefined) throw new Error(`lane ${lane} has no depth ${depth}`);
  return row;
}

// Lane 0 has two levels and a slice of another layer, lane 1 one level, lane 2 nothing.
const SLICES: readonly Slice[] = [
  [0, 0, 0, 100],
  [0, 1, 10, 20],
  [0, -1, 15, 5],
  [0, 1, 40, 30],
  [0, 0, 200, 50],
  [1, 0, 5, 10],
];
const index = indexOf(SLICES, 3);

describe("buildSliceIndex", () => {
  it("puts the slices of one lane and depth together, in order of time", () => {
    expect(Array.from(index.row)).toEqual([0, 4, 1, 3, 5]);
    expect(Array.from(index.start)).toEqual([0, 200, 10, 40, 5]);
    expect(index.rows).toEqual([
      { lane: 0, depth: 0, first: 0, last: 2 },
      { lane: 0, depth: 1, first: 2, last: 4 },
      { lane: 1, depth: 0, first: 4, last: 5 },
    ]);
  });

  it("leaves out slices that the layer hides", () => {
    // Row 2 has the depth -1.
    expect(Array.from(index.row)).not.toContain(2);
  });

  it("lists the rows of each lane by depth", () => {
    expect(index.ofLane.map((rows) => rows.map(({ depth }) => depth))).toEqual([[0, 1], [0], []]);
  });

  it("adds up durations over all rows", () => {
    expect(Array.from(index.before)).toEqual([0, 100, 150, 170, 200, 210]);
  });

  it("keeps the latest end so far, and begins anew with each row", () => {
    // The second slice ends at 30, within the first; the other depth does not know of the 100.
    const overlapping = indexOf([
      [0, 0, 0, 100],
      [0, 0, 10, 20],
      [0, 1, 20, 5],
      [0, 0, 90, 30],
    ]);
    expect(Array.from(overlapping.reach)).toEqual([100, 100, 120, 25]);
  });

  it("has no rows without slices", () => {
    const none = indexOf([], 2);
    expect([none.rows.length, none.ofLane.length, none.row.length]).toEqual([0, 2, 0]);
  });
});

describe("firstEnding", () => {
  it("finds the first slice that ends after a moment, not at it", () => {
    const row = rowOf(index);
    expect([99, 100, 249].map((time) => firstEnding(index, row, time))).toEqual([0, 1, 1]);
  });

  it("is the end of the row when all slices are over", () => {
    expect(firstEnding(index, rowOf(index), 250)).toBe(2);
    expect(firstEnding(index, rowOf(index, 0, 1), 70)).toBe(4);
  });

  it("finds a long slice behind which short ones have ended", () => {
    const overlapping = indexOf([
      [0, 0, 0, 100],
      [0, 0, 10, 20],
    ]);
    expect(firstEnding(overlapping, rowOf(overlapping), 50)).toBe(0);
  });
});

describe("firstStarting", () => {
  // 100 slices, at 0, 10, 20 and so on.
  const many = indexOf(Array.from({ length: 100 }, (_, at): Slice => [0, 0, at * 10, 5]));
  const row = rowOf(many);

  it("finds the first slice that starts at a moment or later", () => {
    expect([0, 1, 10, 985, 990].map((time) => firstStarting(many, row, time))).toEqual([
      0, 1, 1, 99, 99,
    ]);
  });

  it("is the end of the row when all slices have started", () => {
    expect(firstStarting(many, row, 991)).toBe(100);
  });

  it("begins to look at a given position", () => {
    expect(firstStarting(many, row, 0, 40)).toBe(40);
    expect(firstStarting(many, row, 401, 40)).toBe(41);
    expect(firstStarting(many, row, 990, 100)).toBe(100);
  });

  it("finds every start, however far away it is", () => {
    const found = Array.from({ length: 100 }, (_, at) => firstStarting(many, row, at * 10, 3));
    expect(found).toEqual(Array.from({ length: 100 }, (_, at) => Math.max(3, at)));
  });

  it("stays within its row", () => {
    // Position 4 is the end of the row; there the slice of lane 1 stands.
    expect(firstStarting(index, rowOf(index, 0, 1), 1000)).toBe(4);
  });
});

describe("hasSlices", () => {
  it("sees a slice that reaches into a span, but not one that only touches it", () => {
    expect(hasSlices(index, 0, 100, 200)).toBe(false);
    expect(hasSlices(index, 0, 99, 200)).toBe(true);
    expect(hasSlices(index, 0, 100, 201)).toBe(true);
  });

  it("looks at all depths of the lane", () => {
    const deep = indexOf([[0, 3, 50, 10]]);
    expect(hasSlices(deep, 0, 55, 56)).toBe(true);
  });

  it("sees none in an empty or unknown lane", () => {
    expect(hasSlices(index, 2, 0, 1000)).toBe(false);
    expect(hasSlices(index, 7, 0, 1000)).toBe(false);
  });
});

it("knows the duration of the slice at a position", () => {
  expect([0, 1, 2, 3, 4].map((at) => durationAt(index, at))).toEqual([100, 50, 20, 30, 10]);
});

describe("coveredIn", () => {
  const row = rowOf(index);

  it("adds up the slices of a span", () => {
    expect(coveredIn(index, row, 0, 1000)).toBe(150);
  });

  it("cuts slices at both edges", () => {
    // 50 of the first slice, and 25 of the second.
    expect(coveredIn(index, row, 50, 225)).toBe(75);
  });

  it("is the whole span inside of one slice, and nothing in a gap", () => {
    expect(coveredIn(index, row, 20, 30)).toBe(10);
    expect(coveredIn(index, row, 100, 200)).toBe(0);
    expect(coveredIn(index, row, 250, 300)).toBe(0);
  });
});
