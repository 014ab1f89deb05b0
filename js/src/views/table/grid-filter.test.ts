// @vitest-project logic
import { describe, expect, it } from "vitest";
import { columnHeader, tableHeader } from "../../../test/headers";
import type { Column, Frame } from "../../wire/frame";
import type { ColumnHeader } from "../../wire/header";
import { gridColumns } from "./grid-columns";
import { compileFilter, parseNumber, tokensOf } from "./grid-filter";

function text(...texts: readonly string[]): Column {
  const words = [...new Set(texts)];
  return { kind: "text", words, keys: Int32Array.from(texts, (each) => words.indexOf(each)) };
}

function numbers(...values: readonly number[]): Column {
  return { kind: "number", values: Float64Array.of(...values) };
}

const COLUMNS: readonly (readonly [ColumnHeader, Column])[] = [
  [
    columnHeader("name", "code", { title: "Op" }),
    text("aten::mm", "aten::add", "c10d::allreduce_", "DataLoader next"),
  ],
  [columnHeader("phase", "phase", { title: "Phase" }), text("forward", "backward", "data", "data")],
  [columnHeader("calls", "count", { title: "Calls", is_sum: true }), numbers(3, 10, 1, 2)],
  [
    columnHeader("self_cpu_ns", "ns", { title: "Self CPU", is_sum: true }),
    numbers(2e6, 5e6, 1e6, Number.NaN),
  ],
  [
    columnHeader("self_device_ns", "ns", { title: "Self device", is_sum: true }),
    numbers(9e6, 0, 4e3, 0),
  ],
  [
    columnHeader("self_cpu_ratio", "ratio", { title: "Of all ops %" }),
    numbers(0.25, 0.625, 0.125, 0),
  ],
  [columnHeader("peak_bytes", "bytes", { title: "Peak inside" }), numbers(4 * 2 ** 20, 2e9, 0, 0)],
];

/** The rows that a query leaves. */
function left(query: string, steps = 1): readonly number[] {
  const view = tableHeader("ops", { columns: COLUMNS.map(([header]) => header) });
  const frame: Frame = {
    rows: 4,
    columns: new Map(COLUMNS.map(([{ name }, column]) => [name, column])),
  };
  const test = compileFilter(query, gridColumns(view, frame, steps));
  return [0, 1, 2, 3].filter((row) => test?.(row) ?? true);
}

describe("tokensOf", () => {
  it("splits a query at spaces", () => {
    expect(tokensOf("  mm   self>1ms ")).toEqual(["mm", "self>1ms"]);
    expect(tokensOf("   ")).toEqual([]);
  });

  it("keeps words in quotes together", () => {
    expect(tokensOf('"DataLoader next" mm')).toEqual(["DataLoader next", "mm"]);
  });

  it("keeps what a quoted condition is about", () => {
    expect(tokensOf('op:"DataLoader next" -phase:"a b"')).toEqual([
      "op:DataLoader next",
      "-phase:a b",
    ]);
  });
});

describe("a filter of words", () => {
  it("is none for an empty query", () => {
    expect(compileFilter("  ", [])).toBeNull();
  });

  it("finds words in any text, without regard to case", () => {
    expect(left("ATEN")).toEqual([0, 1]);
    expect(left("data")).toEqual([2, 3]);
  });

  it("needs all words to be found", () => {
    expect(left("data next")).toEqual([3]);
    expect(left("aten data")).toEqual([]);
  });

  it("leaves out what a word with a minus finds", () => {
    expect(left("-aten")).toEqual([2, 3]);
    expect(left("aten -mm")).toEqual([1]);
  });

  it("takes a minus alone as a word", () => {
    expect(left("-")).toEqual([]);
  });

  it("does not look at numbers", () => {
    // The name c10d has a 10; the calls of aten::add are 10.
    expect(left("10")).toEqual([2]);
  });

  it("takes the colons of a name for part of the name", () => {
    expect(left("aten::mm")).toEqual([0]);
    expect(left("-c10d::allreduce_")).toEqual([0, 1, 3]);
  });

  it("takes a condition on no column for a word", () => {
    expect(left("nothing>5")).toEqual([]);
    expect(left("self>soon")).toEqual([]);
  });
});

describe("a condition on a number", () => {
  it("compares in the unit of the query, on both sides of the limit", () => {
    expect(left("self>1ms")).toEqual([0, 1]);
    expect(left("self>=1ms")).toEqual([0, 1, 2]);
    expect(left("self<2ms")).toEqual([2]);
    expect(left("self<=2000us")).toEqual([0, 2]);
  });

  it("takes milliseconds, mebibytes and percents where there is no unit", () => {
    expect(left("self>1.5")).toEqual([0, 1]);
    expect(left("peak>4")).toEqual([1]);
    expect(left("peak>=4")).toEqual([0, 1]);
    expect(left("ratio>25")).toEqual([1]);
    expect(left("ratio>=25")).toEqual([0, 1]);
    expect(left("calls>2")).toEqual([0, 1]);
  });

  it("never holds for an unknown value, and without it always", () => {
    expect(left("self<=9s")).not.toContain(3);
    expect(left("-self<=9s")).toEqual([3]);
  });

  it("leaves out what meets a condition with a minus", () => {
    expect(left("-calls>2")).toEqual([2, 3]);
  });

  it("finds the numbers that look equal", () => {
    // 4 µs, and 4,001 ns is 4.00 µs as well.
    expect(left("device=4us")).toEqual([2]);
    expect(left("device=4.001us")).toEqual([2]);
    expect(left("device=4.01us")).toEqual([]);
  });

  it("compares what a row shows: the part of one step", () => {
    // Over two steps, 5 ms are 2.5 ms per step, 10 calls are 5.
    expect(left("self>2ms", 2)).toEqual([1]);
    expect(left("calls>=5", 2)).toEqual([1]);
  });

  it("does not divide what is no sum", () => {
    expect(left("peak>=4", 2)).toEqual([0, 1]);
  });

  it("meets all conditions and words of a query", () => {
    expect(left("aten calls>5 phase:back")).toEqual([1]);
  });
});

describe("a condition on text", () => {
  it("looks only at the text of its column", () => {
    expect(left("phase:data")).toEqual([2, 3]);
    expect(left("op:data")).toEqual([3]);
    expect(left('op:"loader next"')).toEqual([3]);
  });

  it("leaves out what it finds with a minus", () => {
    expect(left("-phase:data")).toEqual([0, 1]);
  });

  it("calls the first column by its title or by name", () => {
    expect(left("name:mm")).toEqual([0]);
    expect(left("op:mm")).toEqual([0]);
  });
});

describe("the column of a condition", () => {
  it("is found by how its title begins, by its name, or by a part of them", () => {
    expect(left("call>5")).toEqual([1]);
    expect(left("self_device_ns>1ms")).toEqual([0]);
    expect(left("device>1ms")).toEqual([0]);
    expect(left("inside>1gb")).toEqual([1]);
  });

  it("is found by what people call it", () => {
    expect(left("gpu>1ms")).toEqual([0]);
    expect(left("selfgpu>1ms")).toEqual([0]);
    expect(left("host>4ms")).toEqual([1]);
  });
});

describe("parseNumber", () => {
  it("reads numbers with units", () => {
    expect(parseNumber("1.5ms", "ns")).toBe(1.5e6);
    expect(parseNumber("20 µs", "ns")).toBe(2e4);
    expect(parseNumber("20us", "ns")).toBe(2e4);
    expect(parseNumber("2S", "ns")).toBe(2e9);
    expect(parseNumber("3GB", "bytes")).toBe(3e9);
    expect(parseNumber("1.5 GiB", "bytes")).toBe(1.5 * 2 ** 30);
    expect(parseNumber("512b", "bytes")).toBe(512);
    expect(parseNumber("2 TFLOP", "flop")).toBe(2e12);
    expect(parseNumber("5%", "ratio")).toBe(0.05);
    expect(parseNumber("2k", "count")).toBe(2000);
  });

  it("reads separators of thousands and a sign", () => {
    expect(parseNumber("1,234", "count")).toBe(1234);
    expect(parseNumber("-3", "count")).toBe(-3);
  });

  it("takes a number without a unit for what people mean by it", () => {
    expect(parseNumber("3", "ns")).toBe(3e6);
    expect(parseNumber("3", "bytes")).toBe(3 * 2 ** 20);
    expect(parseNumber("3", "flop")).toBe(3e9);
    expect(parseNumber("3", "ratio")).toBe(0.03);
    expect(parseNumber("3", "count")).toBe(3);
  });

  it("is null for what is no number", () => {
    for (const each of ["", "ms", "1.2.3", "5 parsecs", "1 2"]) {
      expect(parseNumber(each, "ns")).toBeNull();
    }
  });
});
