import { describe, expect, it } from "vitest";
import { MERGED_ROW } from "../base/boxes";
import { linearScale } from "../base/scale";
import { ns, px } from "../base/units";
import { buildSliceIndex, countIn, coveredIn } from "./slice-index";
import { layoutSlices, SliceBoxes, sliceAt } from "./slice-layout";
import { buildWaits, layoutWaits, sumWaits } from "./waits";

type Slice = readonly [start: number, dur: number, merged: number];

const BUCKET = 100;

/** One row of slices, of which those that stand for several were merged within 100 ns. */
function rowOf(slices: readonly Slice[]) {
  const zeros = new Float64Array(slices.length);
  const start_ns = Float64Array.from(slices, ([start]) => start);
  const dur_ns = Float64Array.from(slices, ([, dur]) => dur);
  const merged = Int32Array.from(slices, ([, , count]) => count);
  const columns = { lane: zeros, depth: zeros, start_ns, dur_ns, merged, bucket: BUCKET };
  const index = buildSliceIndex(columns, 1);
  const row = index.rows[0];
  if (row === undefined) throw new Error("there are no slices");
  return { index, row };
}

function layout(slices: readonly Slice[], widthPx: number, end: number) {
  const { index, row } = rowOf(slices);
  const boxes = new SliceBoxes();
  layoutSlices(
    index,
    row,
    linearScale({ start: ns(0), end: ns(end) }, px(widthPx)),
    boxes,
    () => 0,
  );
  return Array.from({ length: boxes.count }, (_, box) => ({
    left: boxes.left[box],
    width: boxes.width[box],
    row: boxes.row[box],
    cover: Number((boxes.cover[box] ?? 0).toFixed(3)),
  }));
}

describe("merged slices", () => {
  it("are counted by how many they stand for", () => {
    const { index } = rowOf([
      [0, 30, 5],
      [100, 200, 1],
      [310, 20, 7],
    ]);
    expect([countIn(index, 0, 3), countIn(index, 1, 2)]).toEqual([13, 1]);
  });

  it("are a merged box also when only one of them begins in a pixel", () => {
    // A pixel is 100 ns long: 30 of them are two of six parts.
    expect(layout([[0, 30, 5]], 10, 1000)).toEqual([
      { left: 0, width: 1, row: MERGED_ROW, cover: 0.333 },
    ]);
  });

  it("are as long as they lie and as high as they cover where the picture is finer than they are", () => {
    // A pixel is 10 ns long. They lie from 20 to the end of their 100 ns, and cover 40 ns of that.
    expect(layout([[20, 40, 5]], 100, 1000)).toEqual([
      { left: 2, width: 8, row: MERGED_ROW, cover: 0.5 },
    ]);
  });

  it("end where the next slice begins", () => {
    expect(
      layout(
        [
          [20, 15, 2],
          [50, 200, 1],
        ],
        100,
        1000,
      ),
    ).toEqual([
      { left: 2, width: 3, row: MERGED_ROW, cover: 0.5 },
      { left: 5, width: 20, row: 1, cover: 1 },
    ]);
  });

  it("are under the pointer in all the time in which they lie", () => {
    const { index, row } = rowOf([[20, 40, 5]]);
    expect([10, 25, 90, 110].map((at) => sliceAt(index, row, at, 0))).toEqual([-1, 0, 0, -1]);
  });

  it("cover no more of a span than they take", () => {
    const { index, row } = rowOf([
      [20, 40, 5],
      [100, 60, 9],
    ]);
    expect(coveredIn(index, row, 0, 200)).toBe(100);
    // Where they are cut, where each of them is is not known.
    expect(coveredIn(index, row, 90, 200)).toBe(60);
  });
});

describe("merged waits", () => {
  const made = () => {
    const { index, row } = rowOf([
      [0, 30, 5],
      [100, 400, 1],
      [510, 20, 7],
    ]);
    // Of 5 waits 4 gaps begin in the first, of 7 only 2 in the last: the others are more causes of the same.
    const gaps = [4, 1, 2];
    const ofCause = [4, 1, 3];
    const gapsOf = (at: number) => ({ gaps: gaps[at] ?? 0, ofCause: ofCause[at] ?? 0 });
    return buildWaits(index, row, 1, () => 0, gapsOf);
  };

  it("say of how many waits a stretch is made, and how many gaps begin in it", () => {
    const boxes = layoutWaits(made(), linearScale({ start: ns(0), end: ns(1000) }, px(100)));
    expect(boxes.map(({ count, gaps, ns: time }) => [count, gaps, time])).toEqual([
      [5, 4, 30],
      [1, 1, 400],
      [7, 2, 20],
    ]);
  });

  it("are summed with their numbers", () => {
    expect(sumWaits(made(), 0, 1000)).toEqual([{ cause: 0, ns: 450, count: 8 }]);
  });
});
