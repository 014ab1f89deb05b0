import { describe, expect, it } from "vitest";
import text from "../../../tests/golden/numbers.json?raw";
import {
  axisNumbers,
  columnFormat,
  formatBytes,
  formatCount,
  formatMeasure,
  formatNs,
  formatRatio,
  formatValue,
  plural,
  roundSteps,
  tailOf,
  type Unit,
  unbroken,
} from "./format";

// A text stands for a number that JSON lacks, such as "NaN".
const golden = JSON.parse(text) as {
  alone: [Unit, number | string, string][];
  columns: [Unit, number, number, string, [number | string, string][]][];
  counted: [number, string, string][];
  grid: [Unit, number, string, string][];
};

describe("the numbers of the golden file", () => {
  it.each(golden.alone)("writes in %s the value %s as %s", (unit, value, expected) => {
    expect(formatValue(Number(value), unit)).toBe(expected);
  });

  it.each(golden.columns)(
    "writes a column of %s up to %s, beside %s, in '%s'",
    (unit, largest, beside, suffix, cells) => {
      const column = columnFormat(unit, largest, beside);
      expect(column.suffix).toBe(suffix);
      expect(cells.map(([value]) => column.format(Number(value)))).toEqual(
        cells.map(([, expected]) => expected),
      );
    },
  );

  it.each(golden.counted)("writes %d and the noun %s as '%s'", (count, noun, expected) => {
    expect(plural(count, noun)).toBe(expected);
  });

  it("are written alike over the whole grid, alone and in a column", () => {
    const made = golden.grid.map(([unit, value]) => {
      const { suffix, format } = columnFormat(unit, Math.abs(value));
      return [unit, value, formatValue(value, unit), `${format(value)} ${suffix}`.trimEnd()];
    });
    expect(made).toEqual(golden.grid);
  });

  it("have a function for each common unit", () => {
    const texts = [
      formatNs(1.005e6),
      formatBytes(2_088_508_416),
      formatRatio(0.213),
      formatCount(40_573),
    ];
    expect(texts).toEqual(["1.01 ms", "1.95 GiB", "21.3 %", "40,573"]);
  });
});

it.each([
  [312.46, "W", "312.5 W"],
  [1410, "MHz", "1,410 MHz"],
  [54, "C", "54 °C"],
  [98.994, "%", "98.99 %"],
  [7_050_000, "", "7.05 M"],
  [19_000_000_000, "", "19 G"],
  [2_100_000_000, "bytes/s", "2.10 GB/s"],
  // 2,100,000,000 / 1024^3 is 1.9558.
  [2_100_000_000, "B", "1.96 GiB"],
  [-12.5, "mV", "−12.5 mV"],
  [0.00021, "s", "0.00021 s"],
  [0, "", "0"],
  [1e300, "J", "1.00e+300 J"],
])("writes a value of %d in %s, as a file has it, as %s", (value, unit, text) => {
  expect(formatMeasure(value, unit)).toBe(text);
});

describe("unbroken", () => {
  it("keeps numbers with their units, and breaks elsewhere", () => {
    expect(unbroken("30 % of 1.60 ms, 12 steps")).toBe("30\u00a0% of 1.60\u00a0ms, 12 steps");
  });
});

it("puts ticks of memory at round numbers of the unit of the axis, however much of it there is", () => {
  const gib = 2 ** 30;
  const steps = roundSteps("bytes", 2.9 * gib);
  expect(steps.filter((step) => step >= gib / 10 && step <= 5 * gib)).toEqual(
    [0.1, 0.2, 0.5, 1, 2, 5].map((size) => size * gib),
  );
  // Below a GiB in MiB, and no part of a byte.
  expect(roundSteps("bytes", 0.99 * gib)).toContain(200 * 2 ** 20);
  expect(roundSteps("bytes", 0.99 * gib)).not.toContain(0.1 * gib);
  expect(roundSteps("bytes", 60)[0]).toBe(1);
});

describe("axisNumbers", () => {
  const textsOf = (ticks: readonly number[]) => axisNumbers("ns", ticks).texts;

  it("leaves out the zeros that all numbers end with", () => {
    expect(textsOf([0, 5e5, 1e6, 4e6])).toEqual(["0", "0.5", "1.0", "4.0"]);
    expect(textsOf([0, 1e6, 4e6])).toEqual(["0", "1", "4"]);
  });

  it("keeps the thousands apart", () => {
    expect(textsOf([0, 5e11, 1.5e12])).toEqual(["0", "500", "1,500"]);
  });

  it("has the decimals that each tick needs, in the unit of the largest", () => {
    const quarter = 256 * 2 ** 20;
    expect(axisNumbers("bytes", [0, quarter, 2 * quarter, 3 * quarter, 4 * quarter])).toEqual({
      suffix: "GiB",
      texts: ["0", "0.25", "0.50", "0.75", "1.00"],
    });
    expect(axisNumbers("bytes", [0, quarter])).toEqual({ suffix: "MiB", texts: ["0", "256"] });
  });
});

it.each([
  ["0", 2, ".00"],
  ["–", 1, ".0"],
  ["12.5", 2, "0"],
  ["<0.01", 2, ""],
  ["40,573", 0, ""],
  ["", 2, ""],
])("adds to %s in a column with %d decimals '%s', which is not seen", (text, decimals, tail) => {
  expect(tailOf(text, decimals)).toBe(tail);
});
