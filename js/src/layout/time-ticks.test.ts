import { describe, expect, it } from "vitest";
import { tickLabel, tickStep, ticksIn } from "./time-ticks";

describe("tickStep", () => {
  it("takes the smallest round number of which few enough fit", () => {
    expect([tickStep(100, 10), tickStep(101, 10)]).toEqual([10, 20]);
    expect([tickStep(200, 10), tickStep(201, 10)]).toEqual([20, 50]);
    expect([tickStep(500, 10), tickStep(501, 10)]).toEqual([50, 100]);
  });

  it("is a power of ten for a power of ten", () => {
    const powers = Array.from({ length: 13 }, (_, power) => 10 ** power);
    expect(powers.map((power) => tickStep(power, 1))).toEqual(powers);
  });

  it("is never shorter than a nanosecond", () => {
    expect(tickStep(3, 10)).toBe(1);
  });

  it("is at least the whole span where there is no room", () => {
    expect([tickStep(100, 0), tickStep(100, 0.2)]).toEqual([100, 100]);
  });
});

describe("ticksIn", () => {
  it("counts whole steps from the origin, edges included", () => {
    expect(ticksIn(0, 30, 0, 10)).toEqual([0, 10, 20, 30]);
    expect(ticksIn(1, 29, 0, 10)).toEqual([10, 20]);
  });

  it("counts from an origin that is no round number, to both sides of it", () => {
    expect(ticksIn(-10, 20, 3, 10)).toEqual([-7, 3, 13]);
  });

  it("has no ticks where none fits", () => {
    expect(ticksIn(11, 19, 0, 10)).toEqual([]);
  });

  it("gives up where there would be more than 1,001", () => {
    expect(ticksIn(0, 1000, 0, 1)).toHaveLength(1001);
    expect(ticksIn(0, 1001, 0, 1)).toEqual([]);
  });
});

describe("tickLabel", () => {
  it("takes the unit of the largest tick", () => {
    expect(tickLabel(1, 999)(40)).toBe("40 ns");
    expect(tickLabel(1e3, 1e3)(2e3)).toBe("2 µs");
    expect(tickLabel(1e5, 999_999)(2e5)).toBe("200 µs");
    expect(tickLabel(1e6, 1e6)(2e6)).toBe("2 ms");
    expect(tickLabel(1e9, 1e9)(2e9)).toBe("2 s");
  });

  it("has as many decimals as the step needs", () => {
    expect(tickLabel(5e6, 40e6)(5e6)).toBe("5 ms");
    // 0.2, 0.01 and 0.005 of a millisecond.
    expect(tickLabel(2e5, 40e6)(40e6)).toBe("40.0 ms");
    expect(tickLabel(1e4, 40e6)(40.01e6)).toBe("40.01 ms");
    expect(tickLabel(5e3, 40e6)(40.005e6)).toBe("40.005 ms");
    expect(tickLabel(25e7, 1e9)(75e7)).toBe("0.75 s");
  });

  it("keeps the unit for all ticks of an axis", () => {
    const label = tickLabel(5e5, 2e6);
    expect([0, 5e5, 2e6].map(label)).toEqual(["0.0 ms", "0.5 ms", "2.0 ms"]);
  });

  it("writes microseconds of a second in full", () => {
    expect(tickLabel(1e3, 2e9)(1e9 + 1e3)).toBe("1.000001 s");
  });

  it("writes a true minus for times before the origin", () => {
    expect(tickLabel(5e6, 40e6)(-5e6)).toBe("−5 ms");
  });
});
