import { describe, expect, it } from "vitest";
import { firstWhere } from "./search";

describe("the first position at which a condition holds", () => {
  const sorted = [1, 3, 3, 7];
  const firstAtLeast = (value: number) =>
    firstWhere(0, sorted.length, (at) => (sorted[at] ?? 0) >= value);

  it("is the first of equal values", () => {
    expect(firstAtLeast(3)).toBe(1);
  });

  it("is the end when nothing holds, and the beginning when all does", () => {
    expect([firstAtLeast(8), firstAtLeast(0)]).toEqual([4, 0]);
  });

  it("stays inside its bounds", () => {
    expect(firstWhere(2, 3, () => true)).toBe(2);
    expect(firstWhere(2, 3, () => false)).toBe(3);
  });
});
