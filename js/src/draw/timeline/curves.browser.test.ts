import { beforeEach, describe, expect, it } from "vitest";
import { COLORS } from "../../../test/colors";
import { MOST_LEVEL } from "../../base/measure";
import { linearScale } from "../../base/scale";
import { ns, px } from "../../base/units";
import { curveOf } from "../../layout/curve";
import { buildSliceIndex } from "../../layout/slice-index";
import { paintCounter, paintQueue, paintValue, yOfLevel } from "./curves";

const GUTTER = 20;
const TOP = 10;
const HEIGHT = 40;
const PERCENT = { low: 0, high: 100, unit: "%", least: 0, most: 100 };
// 40 % of the line on white, 34 % of muted, and 80 % of it.
const GROUND = [241, 241, 241, 255];
const AREA = [199, 199, 199, 255];
const QUEUE = [123, 123, 123, 255];

let context: CanvasRenderingContext2D;

beforeEach(() => {
  const canvas = document.createElement("canvas");
  canvas.width = 120;
  canvas.height = 60;
  context = canvas.getContext("2d", { willReadFrequently: true }) as CanvasRenderingContext2D;
});

/** Levels that hold for 10 ns each, in a window of 100 ns on 100 px. */
function made(levels: readonly number[], dur = 10) {
  const zeros = new Float64Array(levels.length);
  const start_ns = Float64Array.from(levels, (_, at) => at * dur);
  const dur_ns = new Float64Array(levels.length).fill(dur);
  const index = buildSliceIndex({ lane: zeros, depth: zeros, start_ns, dur_ns }, 1);
  const row = index.rows[0];
  if (row === undefined) throw new Error("there are no slices");
  const scale = linearScale({ start: ns(0), end: ns(100) }, px(100));
  const brush = { context, index, scale, gutter: GUTTER, width: 120, colors: COLORS };
  return { brush, row, curve: curveOf(index, row, Float64Array.from(levels)) };
}

function pixel(x: number, y: number): readonly number[] {
  return Array.from(context.getImageData(x, y, 1, 1).data);
}

/** How dark a pixel is, from 0 for white. */
function darkness(x: number, y: number): number {
  return 255 - (pixel(x, y)[0] ?? 255);
}

describe("paintCounter", () => {
  it("fills the area below a value, and leaves the ground above it", () => {
    const { brush, row, curve } = made([MOST_LEVEL / 2, MOST_LEVEL / 2, 0]);
    paintCounter(brush, row, curve, PERCENT, TOP, HEIGHT);
    // The value of 50 % stands in the middle of the lane, at 30.
    expect(pixel(GUTTER + 8, 42)).toEqual(AREA);
    expect(pixel(GUTTER + 8, 20)).toEqual(GROUND);
    // The third value is 0, and after it nothing is known.
    expect(pixel(GUTTER + 25, 42)).toEqual(GROUND);
    expect(pixel(GUTTER + 60, 42)).toEqual(GROUND);
  });

  it("draws a line at the value, and none at the ground of a value that is not 0", () => {
    const { brush, row, curve } = made([MOST_LEVEL / 2, MOST_LEVEL / 2]);
    paintCounter(brush, row, curve, PERCENT, TOP, HEIGHT);
    expect(darkness(GUTTER + 8, 30)).toBeGreaterThan(darkness(GUTTER + 8, 40) + 40);
    expect(yOfLevel(MOST_LEVEL / 2, TOP, HEIGHT)).toBe(30);
    expect(pixel(GUTTER + 8, 47)).toEqual(AREA);
  });

  it("draws values that share a pixel as a line from the least to the most", () => {
    const { brush, row, curve } = made([0, MOST_LEVEL, 0, MOST_LEVEL], 0.25);
    paintCounter(brush, row, curve, PERCENT, TOP, HEIGHT);
    const dark = [15, 25, 35, 45].map((y) => darkness(GUTTER, y));
    expect(Math.min(...dark)).toBeGreaterThan(60);
  });

  it("fills down to values below zero from the line of zero", () => {
    const { brush, row, curve } = made([0, MOST_LEVEL]);
    paintCounter(brush, row, curve, { ...PERCENT, low: -50, high: 50 }, TOP, HEIGHT);
    // Zero is in the middle: the first value is below it, the second above.
    expect([pixel(GUTTER + 5, 40), pixel(GUTTER + 5, 20)]).toEqual([AREA, GROUND]);
    expect([pixel(GUTTER + 15, 40), pixel(GUTTER + 15, 20)]).toEqual([GROUND, AREA]);
  });

  it("has no hairlines between values", () => {
    const levels = Array.from({ length: 33 }, () => MOST_LEVEL / 2);
    const { brush, row, curve } = made(levels, 3.03);
    paintCounter(brush, row, curve, PERCENT, TOP, HEIGHT);
    const seen = Array.from({ length: 90 }, (_, x) => pixel(GUTTER + 2 + x, 42).join());
    expect(new Set(seen)).toEqual(new Set([AREA.join()]));
  });
});

it("draws a queue as blocks as high as its longest", () => {
  const { brush, row, curve } = made([1, 4, 2]);
  paintQueue(brush, row, curve, 4, TOP, HEIGHT);
  expect(pixel(GUTTER + 5, 45)).toEqual(QUEUE);
  expect(pixel(GUTTER + 5, 35)[3]).toBe(0);
  expect(pixel(GUTTER + 15, 30)).toEqual(QUEUE);
});

it("writes the value under the pointer right of it, and left of it at the edge", () => {
  const { brush } = made([0]);
  paintValue(brush, "5 %", 30, 30);
  expect(darkness(41, 30)).toBeGreaterThan(200);
  expect(darkness(25, 30)).toBe(255);
  paintValue(brush, "5 %", 118, 10);
  expect(darkness(108, 6)).toBeGreaterThan(200);
});
