import { describe, expect, it } from "vitest";
import { Levels } from "./levels";

/** Zeros with some larger numbers among them. */
function numbers(length: number, larger: Readonly<Record<number, number>>) {
  const values = new Float64Array(length);
  for (const [at, value] of Object.entries(larger)) values[Number(at)] = value;
  return new Levels(values);
}

// 2,000 numbers are 63 blocks of 32, and these are two blocks.
const LONG = numbers(2000, { 40: 5, 41: 9, 1500: 7, 1999: 6 });

describe("nextAtLeast", () => {
  it("finds the next number that is large enough", () => {
    expect(LONG.nextAtLeast(0, 5)).toBe(40);
    expect(LONG.nextAtLeast(41, 5)).toBe(41);
    expect(LONG.nextAtLeast(42, 5)).toBe(1500);
  });

  it("takes a number that is just as large, and passes over one below", () => {
    expect(LONG.nextAtLeast(0, 9)).toBe(41);
    expect(LONG.nextAtLeast(42, 7)).toBe(1500);
    expect(LONG.nextAtLeast(42, 7.1)).toBe(2000);
  });

  it("finds the last number", () => {
    expect(LONG.nextAtLeast(1501, 5)).toBe(1999);
    expect(LONG.nextAtLeast(1999, 6)).toBe(1999);
  });

  it("is the length of the list when there is none", () => {
    expect(LONG.nextAtLeast(0, 10)).toBe(2000);
    expect(LONG.nextAtLeast(2000, 0)).toBe(2000);
    expect(new Levels(new Float64Array()).nextAtLeast(0, 1)).toBe(0);
  });

  it("finds numbers on both sides of the edge of a block", () => {
    const edges = numbers(100, { 31: 1, 32: 2, 63: 3, 64: 4 });
    expect([1, 2, 3, 4].map((least) => edges.nextAtLeast(0, least))).toEqual([31, 32, 63, 64]);
  });

  it("finds numbers below zero", () => {
    const values = Float64Array.from({ length: 70 }, (_, at) => -at - 1);
    expect(new Levels(values.reverse()).nextAtLeast(0, -10)).toBe(60);
  });

  it.each([32, 33, 1024, 1025])("finds the last of %i numbers", (length) => {
    expect(numbers(length, { [length - 1]: 1 }).nextAtLeast(0, 1)).toBe(length - 1);
  });
});

describe("largestIn", () => {
  it("is the largest number of a stretch", () => {
    expect(LONG.largestIn(0, 2000)).toBe(9);
    expect(LONG.largestIn(42, 2000)).toBe(7);
    expect(LONG.largestIn(1501, 2000)).toBe(6);
  });

  it("includes the first position and excludes the last", () => {
    expect(LONG.largestIn(41, 42)).toBe(9);
    expect(LONG.largestIn(40, 41)).toBe(5);
    expect(LONG.largestIn(42, 1500)).toBe(0);
  });

  it("sees whole blocks as well as what is left at their ends", () => {
    // From 30 to 70: two numbers, the block from 32 to 64, and six numbers.
    const stretch = (larger: Readonly<Record<number, number>>) =>
      numbers(100, { 29: 9, 70: 9, ...larger }).largestIn(30, 70);
    expect([stretch({ 30: 1 }), stretch({ 50: 2 }), stretch({ 69: 3 })]).toEqual([1, 2, 3]);
  });

  it("is below every number for an empty stretch", () => {
    expect(LONG.largestIn(5, 5)).toBe(-Infinity);
  });

  it.each([31, 32, 33, 1024, 1025])("is the largest of all %i numbers", (length) => {
    expect(numbers(length, { 3: 8 }).largestIn(0, length)).toBe(8);
  });
});
