import { describe, expect, it } from "vitest";
import { columnHeader, tableHeader } from "../../../test/headers";
import type { Column, Frame } from "../../wire/frame";
import type { ColumnHeader } from "../../wire/header";
import { barRatio, fittingColumns, gridColumns, hueColumn } from "./grid-columns";

const NAMES: Column = { kind: "text", words: ["mm", "add"], keys: Int32Array.of(0, 1) };

function columnsOf(
  values: Readonly<Record<string, readonly number[]>>,
  change: Partial<ColumnHeader> = {},
) {
  const names = Object.keys(values);
  const headers = names.map((name) => columnHeader(name, "ns", { title: name, ...change }));
  const view = tableHeader("ops", {
    columns: [columnHeader("name", "code", { title: "Op" }), ...headers],
    sort_by: names[0] ?? null,
  });
  const frame: Frame = {
    rows: 2,
    columns: new Map<string, Column>([
      ["name", NAMES],
      ...names.map((name): [string, Column] => [
        name,
        { kind: "number", values: Float64Array.from(values[name] ?? []) },
      ]),
    ]),
  };
  return gridColumns(view, frame);
}

function titles(columns: ReturnType<typeof columnsOf>) {
  return columns.map(({ title }) => title);
}

describe("the columns of a table", () => {
  it("have one unit for times beside each other", () => {
    const columns = columnsOf({ self: [304_300, 29_800], total: [2_327_000, 0] });
    expect(titles(columns)).toEqual(["Op", "self ms", "total ms"]);
    expect([columns[1]?.text(0), columns[1]?.text(1)]).toEqual(["0.304", "0.030"]);
  });

  it("keep their own unit where numbers would not be readable in that of the others", () => {
    expect(titles(columnsOf({ total: [2_327_000, 0], mean: [900, 4] }))).toEqual([
      "Op",
      "total ms",
      "mean ns",
    ]);
  });
});

describe("the columns that are shown", () => {
  it("are not those of which nothing was recorded, unless they are chosen", () => {
    const columns = columnsOf({ self: [5, 1], backward: [0, 0], wait: [Number.NaN, 0] });
    expect(titles([...fittingColumns(columns, 2_000)])).toEqual(["Op", "self ns"]);
    const chosen = new Map([["backward", true]]);
    expect(fittingColumns(columns, 2_000, chosen).map(({ header }) => header.name)).toEqual([
      "name",
      "self",
      "backward",
    ]);
  });

  it("always are the name and the column of the order, however narrow", () => {
    const columns = columnsOf({ device: [5, 1], cpu: [4, 2], total: [4, 3] }, { has_bar: true });
    expect(fittingColumns(columns, 100).map(({ header }) => header.name)).toEqual([
      "name",
      "device",
    ]);
  });

  it("are the name and the column that the rows are sorted by, if that is another", () => {
    const columns = columnsOf({ device: [5, 1], cpu: [4, 2], total: [4, 3] }, { has_bar: true });
    expect(
      fittingColumns(columns, 100, new Map(), "total").map(({ header }) => header.name),
    ).toEqual(["name", "total"]);
    expect(
      fittingColumns(columns, 100, new Map(), "name").map(({ header }) => header.name),
    ).toEqual(["name", "device"]);
  });

  it("lose numbers without bars before they lose bars", () => {
    const bars = columnsOf({ device: [5, 1], cpu: [4, 2] }, { has_bar: true });
    const numbers = columnsOf({ calls: [5, 1], mean: [4, 2] });
    const [name, device, cpu] = bars;
    const [, calls, mean] = numbers;
    if (!name || !device || !cpu || !calls || !mean) throw new Error("no columns");
    const columns = [name, device, calls, { ...mean, isMain: false }, cpu];
    const widthPx = name.widthPx + device.widthPx + cpu.widthPx + 10;
    expect(
      fittingColumns(
        columns.map((each) => ({ ...each, isMain: each === device })),
        widthPx,
      ).map(({ header }) => header.name),
    ).toEqual(["name", "device", "cpu"]);
  });

  it("keep what was before and after a change, whose bar gives way", () => {
    const columns = columnsOf({
      delta_ns: [-65e6, 1e6],
      before_ns: [114e6, 1],
      after_ns: [48e6, 2],
    });
    const change = columns.map((each) =>
      each.header.name === "delta_ns"
        ? { ...each, header: { ...each.header, is_change: true }, widthPx: each.widthPx + 130 }
        : each,
    );
    const names = (widthPx: number) =>
      fittingColumns(change, widthPx).map(({ header }) => header.name);
    expect(names(480)).toEqual(["name", "delta_ns", "before_ns", "after_ns"]);
    expect(names(300)).toEqual(["name", "delta_ns"]);
  });

  it("are the lines of code rather than their file, where both have no room", () => {
    const [, time] = columnsOf({ cpu_ns: [5, 1] });
    const view = tableHeader("source", {
      columns: [
        columnHeader("file", "text", { title: "File" }),
        columnHeader("source", "code", { title: "Source", is_verbatim: true }),
      ],
      sort_by: null,
    });
    const long: Column = { ...NAMES, words: ["x = ".repeat(20), "y"] };
    const frame: Frame = {
      rows: 2,
      columns: new Map([
        ["file", NAMES],
        ["source", long],
      ]),
    };
    if (time === undefined) throw new Error("no column");
    const columns = [...gridColumns(view, frame), time];
    const names = (widthPx: number) =>
      fittingColumns(columns, widthPx).map(({ header }) => header.name);
    expect(names(1_000)).toEqual(["file", "source", "cpu_ns"]);
    expect(names(320)).toEqual(["source", "cpu_ns"]);
  });

  it("keep a column of zeros that the rows are ordered by", () => {
    const columns = columnsOf({ self: [0, 0] });
    expect(fittingColumns(columns, 2_000)).toHaveLength(2);
  });
});

describe("the column with the hues of the phases", () => {
  const view = tableHeader("ops", {
    columns: [
      columnHeader("calls", "count"),
      columnHeader("cpu_ns", "ns", { has_bar: true }),
      columnHeader("device_ns", "ns", { has_bar: true }),
      columnHeader("flops", "flop", { has_bar: true }),
    ],
    sort_by: "device_ns",
  });

  it("is the one that is sorted by, whichever others are there", () => {
    expect(["cpu_ns", "device_ns", "flops"].map((name) => hueColumn(view, name))).toEqual([
      "cpu_ns",
      "device_ns",
      "flops",
    ]);
  });

  it("is the main one where no column with bars is sorted by", () => {
    expect([hueColumn(view, "calls"), hueColumn(view, "")]).toEqual(["device_ns", "device_ns"]);
    expect(hueColumn({ ...view, sort_by: null }, "")).toBe("cpu_ns");
    expect(hueColumn({ ...view, columns: [] }, "")).toBe("");
  });
});

describe("the length of a bar", () => {
  const bytes = Float64Array.of(20, -40, Number.NaN);
  const frame: Frame = {
    rows: 3,
    columns: new Map([["bytes", { kind: "number", values: bytes }]]),
  };

  function ratios(more: Partial<ColumnHeader>): readonly number[] {
    const view = tableHeader("lines", { columns: [columnHeader("bytes", "bytes", more)] });
    const [column] = gridColumns(view, frame);
    return column === undefined ? [] : [0, 1, 2].map((row) => barRatio(column, row));
  }

  it("is none for what was freed, as bars start at zero", () => {
    expect(ratios({ has_bar: true })).toEqual([0.5, 0, 0]);
  });

  it("of what has no name is on the scale of the others, or has its own where the parts of all add up", () => {
    const frame: Frame = {
      rows: 2,
      columns: new Map<string, Column>([
        ["self", { kind: "number", values: Float64Array.of(4, 8) }],
        ["is_rest", { kind: "number", values: Float64Array.of(0, 1) }],
      ]),
    };
    const ratios = (parts: ColumnHeader["parts"]) => {
      const columns = [columnHeader("self", "ns", { has_bar: true, parts })];
      const [column] = gridColumns(tableHeader("source", { columns, rest: "is_rest" }), frame);
      return [0, 1].map((row) => column && barRatio(column, row));
    };
    expect(ratios([])).toEqual([1, 0]);
    expect(ratios([{ column: "self", phase: "" }])).toEqual([0.5, 1]);
  });

  it("is that of a difference, whatever its sign", () => {
    expect(ratios({ has_bar: true, is_change: true })).toEqual([0.5, 1, 0]);
  });
});
