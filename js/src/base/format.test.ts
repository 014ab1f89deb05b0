import { describe, expect, it } from "vitest";
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
  unbroken,
} from "./format";

describe("formatNs", () => {
  it.each([
    [0, "0"],
    [7, "7 ns"],
    [1_500, "1.50 µs"],
    [38_314_159, "38.3 ms"],
    [222_400_000, "222 ms"],
    [1_504_000_000, "1.50 s"],
    [-2_000_000, "−2.00 ms"],
  ])("writes %d ns as %s", (value, text) => {
    expect(formatNs(value)).toBe(text);
  });

  it("takes the next unit when rounding reaches it", () => {
    expect(formatNs(999_600)).toBe("1.00 ms");
  });

  it("writes an unknown value as a dash", () => {
    expect(formatNs(Number.NaN)).toBe("–");
  });
});

describe("formatBytes", () => {
  it.each([
    [512, "512 B"],
    [1_000, "1.00 kB"],
    [312_000_000, "312 MB"],
    [2_090_000_000, "2.09 GB"],
  ])("writes %d bytes in decimal units as %s", (value, text) => {
    expect(formatBytes(value)).toBe(text);
  });
});

it.each([
  [0, "0"],
  [512, "512 FLOP"],
  [276_824_064, "277 MFLOP"],
  [8_388_608_000, "8.39 GFLOP"],
  [1_099_511_627_776, "1.10 TFLOP"],
  [2_500_000_000_000_000, "2.50 PFLOP"],
])("writes %d floating-point operations as %s", (value, text) => {
  expect(formatValue(value, "flop")).toBe(text);
});

it.each([
  [312.46, "W", "312.5 W"],
  [1410, "MHz", "1,410 MHz"],
  [54, "C", "54 °C"],
  [98.994, "%", "98.99 %"],
  [7_050_000, "", "7.05 M"],
  [19_000_000_000, "", "19.0 G"],
  [2_100_000_000, "bytes/s", "2.10 GB/s"],
  [2_100_000_000, "B", "2.10 GB"],
  [-12.5, "mV", "−12.5 mV"],
  [0.00021, "s", "0.00021 s"],
  [0, "", "0"],
  [1e300, "J", "1.00e+300 J"],
])("writes a value of %d in %s, as a file has it, as %s", (value, unit, text) => {
  expect(formatMeasure(value, unit)).toBe(text);
});

it("groups the digits of counts", () => {
  expect(formatCount(40_573)).toBe("40,573");
});

it("keeps two decimals of a mean count", () => {
  expect(formatCount(2.5)).toBe("2.50");
});

it("writes a ratio in percent", () => {
  expect(formatRatio(0.213)).toBe("21.3 %");
});

it("writes the number of a step without grouping", () => {
  expect(formatValue(12_345, "step")).toBe("12345");
});

it("says one op, two ops and two matches", () => {
  expect([plural(1, "op"), plural(2, "op"), plural(2, "match")]).toEqual([
    "1 op",
    "2 ops",
    "2 matches",
  ]);
});

describe("columnFormat", () => {
  it("takes one unit for a column from its largest value, which shows four digits", () => {
    const { suffix, format } = columnFormat("ns", 308_290_000);
    expect([suffix, format(308_290_000), format(52_050_000)]).toEqual(["ms", "308.3", "52.1"]);
  });

  it("takes one unit for a column of floating-point operations", () => {
    const { suffix, format } = columnFormat("flop", 36_507_222_016);
    expect([suffix, format(36_507_222_016), format(412_000_000)]).toEqual([
      "GFLOP",
      "36.51",
      "0.41",
    ]);
  });

  it("shows whole numbers where the largest has four digits before the point", () => {
    const { suffix, format } = columnFormat("bytes", 2_739_400_000_000_000);
    expect([suffix, format(2_739_400_000_000_000)]).toEqual(["TB", "2,739"]);
  });

  it("shows three decimals where the largest is below ten", () => {
    const { suffix, format } = columnFormat("ns", 3_254_290);
    expect([suffix, format(3_254_290), format(542_190)]).toEqual(["ms", "3.254", "0.542"]);
  });

  it("does not show a small number as zero", () => {
    expect(columnFormat("ns", 308_290_000).format(1_000)).toBe("<0.1");
    expect(columnFormat("ns", 93_990_000).format(1_000)).toBe("<0.01");
  });

  it("shows a true zero as zero", () => {
    expect(columnFormat("ns", 308_290_000).format(0)).toBe("0");
  });

  it("writes negative bytes with a minus", () => {
    expect(columnFormat("bytes", 24_000_000).format(-12_500_000)).toBe("−12.50");
  });

  it("takes the unit of the columns beside it where its numbers can be read in it", () => {
    const short = columnFormat("ns", 304_300, 2_327_000);
    expect([short.suffix, short.format(304_300), short.format(29_800)]).toEqual([
      "ms",
      "0.304",
      "0.030",
    ]);
    expect(columnFormat("ns", 27_000, 2_327_000).suffix).toBe("µs");
    expect(columnFormat("ns", 2_327_000, 304_300).suffix).toBe("ms");
  });

  it("writes ratios as percent with the sign in the header", () => {
    const { suffix, format } = columnFormat("ratio", 1);
    expect([suffix, format(0.535)]).toEqual(["%", "53.5"]);
  });
});

describe("unbroken", () => {
  it("keeps numbers with their units, and breaks elsewhere", () => {
    expect(unbroken("30 % of 1.60 ms, 12 steps")).toBe("30\u00a0% of 1.60\u00a0ms, 12 steps");
  });
});

describe("axisNumbers", () => {
  it("leaves out the zeros that all numbers end with", () => {
    const { format } = columnFormat("bytes", 4e6);
    expect(axisNumbers([0, 5e5, 1e6, 4e6], format)).toEqual(["0", "0.5", "1.0", "4.0"]);
    expect(axisNumbers([0, 1e6, 4e6], format)).toEqual(["0", "1", "4"]);
  });

  it("keeps the thousands apart", () => {
    const { format } = columnFormat("ns", 1.5e12);
    expect(axisNumbers([0, 5e11, 1.5e12], format)).toEqual(["0", "500", "1,500"]);
  });
});
