import { describe, expect, it } from "vitest";
import { linearScale } from "../base/scale";
import { ns, px } from "../base/units";
import { curveOf, layoutCurve, rangeIn, rangeOf } from "./curve";
import { buildSliceIndex } from "./slice-index";

/** Values that hold for `dur` each, one after the other from 0. */
function curve(values: readonly number[], dur: number) {
  const zeros = new Float64Array(values.length);
  const start_ns = Float64Array.from(values, (_, at) => at * dur);
  const dur_ns = new Float64Array(values.length).fill(dur);
  const index = buildSliceIndex({ lane: zeros, depth: zeros, start_ns, dur_ns }, 1);
  const row = index.rows[0];
  if (row === undefined) throw new Error("there are no slices");
  return { index, row, made: curveOf(index, row, Float64Array.from(values)) };
}

function layout(
  values: readonly number[],
  dur: number,
  start: number,
  end: number,
  widthPx: number,
) {
  const { index, row, made } = curve(values, dur);
  const scale = linearScale({ start: ns(start), end: ns(end) }, px(widthPx));
  return layoutCurve(index, row, scale, made);
}

describe("layoutCurve", () => {
  it("has a piece for each value that is at least a pixel wide", () => {
    expect(layout([3, 1, 2], 100, 0, 300, 30)).toEqual([
      { left: 0, width: 10, least: 3, most: 3 },
      { left: 10, width: 10, least: 1, most: 1 },
      { left: 20, width: 10, least: 2, most: 2 },
    ]);
  });

  it("has the least and the most of the values that share a pixel", () => {
    // A pixel is 100 ns: the first four values begin in one, the other four in the next.
    expect(layout([5, -2, 9, 4, 1, 1, 7, 1], 25, 0, 200, 2)).toEqual([
      { left: 0, width: 1, least: -2, most: 9 },
      { left: 1, width: 1, least: 1, most: 7 },
    ]);
  });

  it("begins with the value that holds when the window begins, left of it", () => {
    expect(layout([3, 1, 2], 100, 150, 250, 10)).toEqual([
      { left: -5, width: 10, least: 1, most: 1 },
      { left: 5, width: 10, least: 2, most: 2 },
    ]);
  });

  it("costs pixels, not values", () => {
    const values = Array.from({ length: 100_000 }, (_, at) => at % 7);
    const pieces = layout(values, 10, 0, 1_000_000, 800);
    expect(pieces.length).toBeLessThanOrEqual(800);
    expect(pieces.every(({ least, most }) => least === 0 && most === 6)).toBe(true);
  });

  it("is empty where nothing of the curve is in the window", () => {
    expect(layout([3, 1], 100, 500, 600, 10)).toEqual([]);
  });
});

it("finds the range of a curve between two places, and in a window", () => {
  const { index, row, made } = curve([3, -1, 2], 100);
  expect(rangeOf(made, 0, 3)).toEqual({ least: -1, most: 3 });
  expect(rangeIn(index, row, { start: 210, end: 290 }, made)).toEqual({ least: 2, most: 2 });
  expect(rangeIn(index, row, { start: 150, end: 290 }, made)).toEqual({ least: -1, most: 2 });
  expect(rangeIn(index, row, { start: 400, end: 500 }, made)).toBeNull();
});
