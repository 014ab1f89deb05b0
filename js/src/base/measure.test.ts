import { describe, expect, it } from "vitest";
import { MOST_LEVEL, measureRangeText, measureText } from "./measure";

const POWER = { low: 0, high: 400, unit: "W", least: 0, most: 400 };

describe("measureText", () => {
  it("writes the value of a level in its unit", () => {
    expect(measureText(POWER, MOST_LEVEL)).toBe("400 W");
    expect(measureText(POWER, 0)).toBe("0 W");
    expect(measureText(POWER, Math.round(MOST_LEVEL / 4))).toBe("100 W");
  });

  it("keeps whole numbers whole, however coarse a level is", () => {
    const queue = { ...POWER, high: 7, unit: "" };
    const texts = [1, 3, 6].map((value) =>
      measureText(queue, Math.round((value / 7) * MOST_LEVEL)),
    );
    expect(texts).toEqual(["1", "3", "6"]);
  });

  it("writes values below zero", () => {
    expect(measureText({ ...POWER, low: -8, unit: "" }, 0)).toBe("−8");
  });
});

describe("measureRangeText", () => {
  it("writes a unit that both have once", () => {
    expect(measureRangeText({ ...POWER, least: 88.1, most: 376 })).toBe("88.1 – 376 W");
    expect(measureRangeText({ ...POWER, unit: "" })).toBe("0 – 400");
  });

  it("writes both units where they differ", () => {
    const size = { ...POWER, unit: "bytes", least: 500_000, most: 2e9 };
    expect(measureRangeText(size)).toBe("488 KiB – 1.86 GiB");
  });

  it("writes one value where there is no other", () => {
    expect(measureRangeText({ ...POWER, least: 400 })).toBe("400 W");
  });
});
