import { describe, expect, it } from "vitest";
import { dotScale } from "./change-dots";

describe("dotScale", () => {
  it("leaves room beside both ends and has round ticks", () => {
    const scale = dotScale(120, 180);
    // 6 % of 60 on each side.
    expect([scale.low, scale.high]).toEqual([116.4, 183.6]);
    expect(scale.ticks).toEqual([120, 140, 160, 180]);
  });

  it("puts a single value into the middle", () => {
    const { low, high } = dotScale(100, 100);
    expect((low + high) / 2).toBeCloseTo(100);
    expect(high).toBeGreaterThan(low);
  });

  it("never begins below 0", () => {
    expect(dotScale(0, 10).low).toBe(0);
  });
});
