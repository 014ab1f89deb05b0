import { expect, it } from "vitest";
import { largestOf } from "./largest";

const same = (item: number) => item;

it("returns the largest, the largest first", () => {
  expect(largestOf([3, 9, 1, 7], 2, same)).toEqual([9, 7]);
});

it("returns all when there are fewer", () => {
  expect(largestOf([1, 2], 5, same)).toEqual([2, 1]);
});

it("keeps the first of equal ones", () => {
  expect(largestOf([10, 11, 12], 2, () => 1)).toEqual([10, 11]);
});
