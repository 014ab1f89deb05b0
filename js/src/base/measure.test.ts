import { describe, expect, it } from "vitest";
import { MOST_LEVEL, measureRangeText, measureText } from "./measure";

const POWER = { low: 0, high: 400, unit: "W" };

describe("measureText", () => {
  it("writes the value of a level in its unit", () => {
    expect(measureText(POWER, MOST_LEVEL)).toBe("400 W");
    expect(measureText(POWER, 0)).toBe("0 W");
    expect(measureText(POWER, Math.round(MOST_LEVEL / 4))).toBe("100 W");
  });

  it("keeps whole numbers whole, however coarse a level is", () => {
    const queue = { low: 0, high: 7, unit: "" };
    const texts = [1, 3, 6].map((value) =>
      measureText(queue, Math.round((value / 7) * MOST_LEVEL)),
    );
    expect(texts).toEqual(["1", "3", "6"]);
  });

  it("writes values below zero", () => {
    expect(measureText({ low: -8, high: 8, unit: "" }, 0)).toBe("−8");
  });
});

describe("measureRangeText", () => {
  it("writes a unit that both have once", () => {
    expect(measureRangeText(POWER, 0, MOST_LEVEL)).toBe("0 – 400 W");
    expect(measureRangeText({ ...POWER, unit: "" }, 0, MOST_LEVEL)).toBe("0 – 400");
  });

  it("writes both units where they differ", () => {
    const size = { low: 0, high: 2e9, unit: "bytes" };
    expect(measureRangeText(size, Math.round(MOST_LEVEL / 4000), MOST_LEVEL)).toBe(
      "500 kB – 2.00 GB",
    );
  });

  it("writes one value where there is no other", () => {
    expect(measureRangeText(POWER, MOST_LEVEL, MOST_LEVEL)).toBe("400 W");
  });
});
