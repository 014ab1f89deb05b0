import { describe, expect, it } from "vitest";
import { highestBySlot, topOfAreas } from "./series-lane";

describe("highestBySlot", () => {
  it("keeps the highest value of each slot", () => {
    expect(Array.from(highestBySlot([0, 1, 2, 10], [1, 9, 2, 3], 2))).toEqual([9, 3]);
  });

  it("holds a value until the next", () => {
    expect(Array.from(highestBySlot([0, 10], [5, 1], 5))).toEqual([5, 5, 5, 5, 5]);
    expect(Array.from(highestBySlot([0, 5, 10], [5, 1, 0], 5))).toEqual([5, 5, 5, 1, 1]);
  });

  it("takes unknown values for 0, and knows a series without points", () => {
    expect(Array.from(highestBySlot([0, 10], [null, null], 2))).toEqual([0, 0]);
    expect(Array.from(highestBySlot([], [], 2))).toEqual([0, 0]);
    expect(Array.from(highestBySlot([3], [7], 2))).toEqual([7, 0]);
  });
});

describe("topOfAreas", () => {
  it("is the highest area, whatever a line beside them reaches", () => {
    const bands = [
      { fill: "full", values: [5, 7] },
      { fill: "full", values: [3, null] },
      { fill: "none", values: [9, 9] },
    ];
    expect(topOfAreas(bands, 0)).toBe(5);
    expect(topOfAreas(bands, 1)).toBe(7);
    expect(topOfAreas(bands, 2)).toBe(0);
  });
});
