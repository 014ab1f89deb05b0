import { expect, it } from "vitest";
import { discsOf, freest, logAxis, logPx, logTicks, nearest } from "./log-plane";

it("holds all values, and puts each at its power of ten", () => {
  const axis = logAxis([10, 1000], 200);
  expect(axis.from).toBeLessThan(1);
  expect(axis.to).toBeGreaterThan(3);
  const middle = logPx(axis, 100);
  expect(middle - logPx(axis, 10)).toBeCloseTo(logPx(axis, 1000) - middle);
});

it("cuts what lies beyond its ends, and puts what has no logarithm at its beginning", () => {
  const axis = { from: 0, to: 2, px: 100 };
  expect([0, -5, 0.001, 1, 10, 1e9].map((value) => logPx(axis, value))).toEqual([
    0, 0, 0, 0, 50, 100,
  ]);
});

it("has an axis for a single value, and for none", () => {
  expect(logAxis([5], 10).to).toBeGreaterThan(logAxis([5], 10).from);
  expect(logAxis([], 10)).toEqual({ from: 0, to: 1, px: 10 });
});

it("names whole powers of ten, fewer where there is no room", () => {
  expect(logTicks({ from: -0.5, to: 3, px: 400 }, 50)).toEqual([1, 10, 100, 1000]);
  expect(logTicks({ from: 0, to: 4, px: 100 }, 50)).toEqual([1, 100, 10000]);
});

it("finds the point at a place, the last drawn of several, and none far away", () => {
  const points = [
    { x: 10, y: 10, radius: 9 },
    { x: 10, y: 10, radius: 3 },
    { x: 50, y: 10, radius: 3 },
  ];
  expect(nearest(points, 10, 11, 4)).toBe(1);
  expect(nearest(points, 55, 10, 4)).toBe(2);
  expect(nearest(points, 100, 100, 4)).toBe(-1);
});

it("puts a text at the first place where it covers no disc, else at the first of all", () => {
  const label = { x: 50, y: 20, angle: 0, px: 60 };
  const places = [label, { ...label, y: 40 }, { ...label, y: 60 }];
  expect(freest(places, [])).toBe(places[0]);
  // Of the text from 20 to 80, the ends are at 26 and 74, each 6 high above and below its middle.
  expect(freest(places, [{ x: 76, y: 20, radius: 4 }])).toBe(places[1]);
  expect(freest(places, [{ x: 90, y: 20, radius: 4 }])).toBe(places[0]);
  const all = [20, 40, 60].map((y) => ({ x: 50, y, radius: 4 }));
  expect(freest(places, all)).toBe(places[0]);
});

it("covers a text with discs along its angle", () => {
  const discs = discsOf({ x: 10, y: 20, angle: Math.PI / 2, px: 24 });
  expect(discs.map(({ x, y }) => [Math.round(x), Math.round(y)])).toEqual([
    [10, 14],
    [10, 26],
  ]);
});
