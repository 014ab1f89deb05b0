// @vitest-project logic
import { describe, expect, it } from "vitest";
import { mergeRuns } from "./merge-runs";

const TIME = [0, 10, 20, 5, 10, 30, 1];

describe("mergeRuns", () => {
  it("puts the rows of three runs into the order of time", () => {
    const runs = [Int32Array.of(0, 1, 2), Int32Array.of(3, 4, 5), Int32Array.of(6)];
    expect(Array.from(mergeRuns(runs, TIME))).toEqual([0, 6, 3, 1, 4, 2, 5]);
  });

  it("gives one run as it is, and nothing for none", () => {
    const run = Int32Array.of(3, 4);
    expect(mergeRuns([run], TIME)).toBe(run);
    expect(mergeRuns([], TIME)).toHaveLength(0);
  });
});
