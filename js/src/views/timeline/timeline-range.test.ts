import { expect, it } from "vitest";
import { inGaps } from "./timeline-range";

const waits = (gaps: number, ...counts: number[]) =>
  counts.map((count) => ({ lane: 0, cause: "Python", count, ns: 5, gaps }));

it("says that gaps with several causes count at each of them", () => {
  expect(inGaps(waits(5, 3, 4))).toBe(", in 5 gaps, some with several causes");
  expect(inGaps(waits(5, 3, 2))).toBe(", in 5 gaps");
});

it("does not count a single gap, or none", () => {
  expect(inGaps(waits(1, 1, 1))).toBe("");
  expect(inGaps([])).toBe("");
});
