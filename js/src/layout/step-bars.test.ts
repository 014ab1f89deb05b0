import { expect, it } from "vitest";
import type { Frame } from "../wire/frame";
import { stepBars } from "./step-bars";

const numbers = (...values: number[]) => ({
  kind: "number" as const,
  values: Float64Array.from(values),
});

const FRAME: Frame = {
  rows: 2,
  columns: new Map([
    ["number", numbers(4, 5)],
    ["complete", numbers(1, 0)],
    ["dur_ns", numbers(200, 100)],
    ["forward_ns", numbers(120, 60)],
    ["other_ns", numbers(80, 40)],
  ]),
};

it("draws all bars on the scale of the longest step", () => {
  const ratios = stepBars(FRAME).map((bar) => bar.parts.map((part) => part.ratio));
  expect(ratios).toEqual([
    [0.6, 0.4],
    [0.3, 0.2],
  ]);
});

it("marks a cut step", () => {
  expect(stepBars(FRAME).map((bar) => bar.isComplete)).toEqual([true, false]);
});

it("leaves out phases that took no time", () => {
  expect(stepBars(FRAME)[0]?.parts.map((part) => part.phase)).toEqual(["forward", "other"]);
});

it("has no line for a device that was not recorded", () => {
  expect(stepBars(FRAME)[0]?.deviceRatio).toBeNull();
});
