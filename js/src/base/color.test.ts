import { expect, it } from "vitest";
import { alphaOf, contrast, mix, parseColor, textOn } from "./color";

it("reads hex, short hex and rgb", () => {
  expect(parseColor("#4477aa")).toEqual([68, 119, 170]);
  expect(parseColor("#fff")).toEqual([255, 255, 255]);
  expect(parseColor("rgb(1, 2, 3)")).toEqual([1, 2, 3]);
});

it("returns null for transparent or unknown colors", () => {
  expect(parseColor("rgba(0, 0, 0, 0)")).toBeNull();
  expect(parseColor("white")).toBeNull();
});

it("gives black on white the contrast 21", () => {
  expect(contrast([0, 0, 0], [255, 255, 255])).toBeCloseTo(21, 5);
});

it("writes dark text on light fills and light text on dark ones", () => {
  expect(textOn([224, 139, 58])[0]).toBeLessThan(50);
  expect(textOn([20, 40, 80])).toEqual([255, 255, 255]);
});

it("mixes a quarter of the other colour", () => {
  expect(mix([0, 0, 0], [100, 200, 40], 0.25)).toEqual([25, 50, 10]);
});

it("says how opaque a computed color is", () => {
  expect(["rgb(1, 2, 3)", "rgba(1, 2, 3, 0.25)", "rgba(0, 0, 0, 0)"].map(alphaOf)).toEqual([
    1, 0.25, 0,
  ]);
});
