import { describe, expect, it } from "vitest";
import { tilesOf } from "./treemap";

describe("tilesOf", () => {
  it("gives every size an area in proportion, and fills the box", () => {
    const tiles = tilesOf([6, 1, 3, 2], 40, 30);
    const areas = new Map(tiles.map(({ index, width, height }) => [index, width * height]));
    for (const [index, size] of [6, 1, 3, 2].entries()) {
      expect(areas.get(index)).toBeCloseTo((size / 12) * 1200, 6);
    }
  });

  it("keeps tiles in the box and apart", () => {
    const tiles = tilesOf([5, 4, 3, 2, 1], 100, 50);
    for (const [at, one] of tiles.entries()) {
      expect(one.left + one.width).toBeLessThanOrEqual(100.000001);
      expect(one.top + one.height).toBeLessThanOrEqual(50.000001);
      for (const other of tiles.slice(at + 1)) {
        const isApart =
          one.left + one.width <= other.left + 1e-6 ||
          other.left + other.width <= one.left + 1e-6 ||
          one.top + one.height <= other.top + 1e-6 ||
          other.top + other.height <= one.top + 1e-6;
        expect(isApart).toBe(true);
      }
    }
  });

  it("leaves a gap between the tiles, and none at the edges", () => {
    // 102 = 50 + 2 + 50.
    expect(tilesOf([1, 1], 102, 50, 2)).toEqual([
      { index: 0, left: 0, top: 0, width: 50, height: 50 },
      { index: 1, left: 52, top: 0, width: 50, height: 50 },
    ]);
  });

  it("has no tile for nothing, and none without room", () => {
    expect(tilesOf([0, -1], 10, 10)).toEqual([]);
    expect(tilesOf([1], 0, 10)).toEqual([]);
    expect(tilesOf([0, 7], 10, 10).map(({ index }) => index)).toEqual([1]);
  });
});
