import { expect, it } from "vitest";
import type { Column, Frame } from "../wire/frame";
import type { BarsHeader } from "../wire/header";
import { longestShown, type StepBar, stepBars } from "./step-bars";

const numbers = (...values: number[]) => ({
  kind: "number" as const,
  values: Float64Array.from(values),
});

const REASONS: Column = {
  kind: "text",
  keys: Int32Array.of(0, 1),
  words: ["", "not complete"],
};

const FRAME: Frame = {
  rows: 2,
  columns: new Map<string, Column>([
    ["number", numbers(4, 5)],
    ["left_out", REASONS],
    ["start_ns", numbers(0, 200)],
    ["complete", numbers(1, 0)],
    ["dur_ns", numbers(200, 100)],
    ["forward_ns", numbers(120, 60)],
    ["data_ns", numbers(0, 0)],
    ["python_ns", numbers(80, 40)],
    ["busy_ns", numbers(50, 100)],
  ]),
};

const BARS: BarsHeader = {
  number: "number",
  start: "start_ns",
  total: "dur_ns",
  complete: "complete",
  left_out: "left_out",
  parts: { forward: "forward_ns", data: "data_ns", python: "python_ns" },
  line: null,
  lost: null,
};

it("draws all bars on the scale of the longest step", () => {
  const ratios = stepBars(FRAME, BARS).map((bar) => bar.parts.map((part) => part.ratio));
  expect(ratios).toEqual([
    [0.6, 0.4],
    [0.3, 0.2],
  ]);
});

it("counts what is missing in a step where a column tells", () => {
  const lost = (bars: BarsHeader) => stepBars(FRAME, bars).map((bar) => bar.lost);
  expect(lost(BARS)).toEqual([0, 0]);
  expect(lost({ ...BARS, lost: "busy_ns" })).toEqual([50, 100]);
});

it("marks a partial step", () => {
  expect(stepBars(FRAME, BARS).map((bar) => bar.isComplete)).toEqual([true, false]);
});

it("says why a step does not count", () => {
  expect(stepBars(FRAME, BARS).map((bar) => bar.leftOut)).toEqual(["", "not complete"]);
});

it("leaves out phases that took no time", () => {
  expect(stepBars(FRAME, BARS)[0]?.parts.map((part) => part.phase)).toEqual(["forward", "python"]);
});

it("has no line for a device that was not recorded", () => {
  expect(stepBars(FRAME, BARS)[0]?.deviceRatio).toBeNull();
});

it("goes by the steps that count where another is far longer, and by all where none counts", () => {
  const bar = (dur_ns: number, leftOut = "") => ({ ...stepBars(FRAME, BARS)[0], dur_ns, leftOut });
  const longest = (...bars: ReturnType<typeof bar>[]) => longestShown(bars as StepBar[]);
  expect(longest(bar(10), bar(12), bar(90, "outlier"))).toBe(12);
  expect(longest(bar(10), bar(12), bar(13, "outlier"))).toBe(13);
  expect(longest(bar(90, "not complete"))).toBe(90);
});

it("draws the line of a device on the scale of the bars", () => {
  const bars = stepBars(FRAME, { ...BARS, line: "busy_ns" });
  expect(bars.map((bar) => bar.deviceRatio)).toEqual([0.25, 0.5]);
});

it("draws sleeping and waiting as one part with blocking calls", () => {
  const parts = { waiting: "forward_ns", python: "python_ns", idle: "busy_ns" };
  const [first] = stepBars(FRAME, { ...BARS, parts });
  expect(first?.parts.map(({ phase, dur_ns }) => [phase, dur_ns])).toEqual([
    ["waiting", 170],
    ["python", 80],
  ]);
});
