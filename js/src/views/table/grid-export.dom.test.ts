// @vitest-project logic
import { afterEach, describe, expect, it, vi } from "vitest";
import { columnHeader, tableHeader } from "../../../test/headers";
import type { Column, Frame } from "../../wire/frame";
import type { ColumnHeader } from "../../wire/header";
import { gridColumns } from "./grid-columns";
import { copyText, csvOf, textOfRows } from "./grid-export";

type Cells = readonly (readonly [ColumnHeader, readonly string[] | readonly number[]])[];

function columnOf(values: readonly string[] | readonly number[]): Column {
  if (typeof values[0] === "number") {
    return { kind: "number", values: Float64Array.from(values as readonly number[]) };
  }
  const texts = values as readonly string[];
  const words = [...new Set(texts)];
  return { kind: "text", words, keys: Int32Array.from(texts, (each) => words.indexOf(each)) };
}

function columnsOf(cells: Cells, steps = 1) {
  const view = tableHeader("ops", { columns: cells.map(([header]) => header) });
  const frame: Frame = {
    rows: cells[0]?.[1].length ?? 0,
    columns: new Map(cells.map(([{ name }, values]) => [name, columnOf(values)])),
  };
  return gridColumns(view, frame, steps);
}

/** What one text becomes in a file. */
function cellOf(text: string): string {
  const csv = csvOf(columnsOf([[columnHeader("name", "code"), [text]]]), [0]);
  return csv.slice("name\r\n".length, -"\r\n".length);
}

const OPS: Cells = [
  [columnHeader("name", "code", { title: "Op" }), ["aten::mm", "aten::add"]],
  [columnHeader("calls", "count", { title: "Calls" }), [1234, 5]],
  [columnHeader("self_cpu_ns", "ns", { title: "Self CPU" }), [1_500_000.5, Number.NaN]],
  [columnHeader("peak", "bytes", { title: "Peak" }), [2048, -512]],
];

describe("csvOf", () => {
  it("writes a line for each row in the given order, and numbers in full", () => {
    expect(csvOf(columnsOf(OPS), [1, 0])).toBe(
      [
        "name,calls,self_cpu_ns,peak bytes",
        "aten::add,5,,-512",
        "aten::mm,1234,1500000.5,2048",
        "",
      ].join("\r\n"),
    );
  });

  it("writes only the head for a table without rows", () => {
    expect(csvOf(columnsOf(OPS), [])).toBe("name,calls,self_cpu_ns,peak bytes\r\n");
  });

  it("adds a unit to a name that does not end with it", () => {
    const head = (name: string, unit: ColumnHeader["unit"]) =>
      csvOf(columnsOf([[columnHeader(name, unit), [1]]]), []).trim();
    expect([head("start", "ns"), head("start_ns", "ns")]).toEqual(["start ns", "start_ns"]);
    expect([head("size", "bytes"), head("share", "ratio")]).toEqual(["size bytes", "share"]);
  });

  it("puts quotes around what would break a line or a cell", () => {
    expect(cellOf("a,b")).toBe('"a,b"');
    expect(cellOf('say "x"')).toBe('"say ""x"""');
    expect(cellOf("a\nb")).toBe('"a\nb"');
    expect(cellOf("a;b c")).toBe("a;b c");
  });

  it("keeps a spreadsheet from taking text for a formula", () => {
    expect(["=1+1", "+1", "-1", "@sum", "\tx"].map(cellOf)).toEqual([
      "'=1+1",
      "'+1",
      "'-1",
      "'@sum",
      "'\tx",
    ]);
    expect(["\0=1", "＝1", "＋1", "－1", "＠a"].map(cellOf)).toEqual([
      "'\0=1",
      "'＝1",
      "'＋1",
      "'－1",
      "'＠a",
    ]);
    expect(cellOf("\n=1")).toBe('"\'\n=1"');
    expect(cellOf("=a,b")).toBe('"\'=a,b"');
    expect(cellOf("a=1")).toBe("a=1");
  });
});

describe("textOfRows", () => {
  it("writes what the page shows, with tabs between cells", () => {
    expect(textOfRows(columnsOf(OPS), [0, 1])).toBe(
      [
        "Op\tCalls\tSelf CPU ms\tPeak KiB",
        "aten::mm\t1,234\t1.500\t2.000",
        "aten::add\t5\t–\t−0.500",
      ].join("\n"),
    );
  });

  it("shows the part of one step where the page does", () => {
    const columns = columnsOf(
      [[columnHeader("self_cpu_ns", "ns", { title: "Self CPU", is_sum: true }), [6e6, 3e6]]],
      2,
    );
    expect(textOfRows(columns, [0])).toBe("Self CPU ms\n3.000");
  });

  it("keeps a cell in its place that has tabs or breaks", () => {
    const columns = columnsOf([[columnHeader("source", "code"), ["\tloss = a\r\n"]]]);
    expect(textOfRows(columns, [0])).toBe("source\n loss = a  ");
  });
});

describe("copyText", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    Reflect.deleteProperty(document, "execCommand");
  });

  function withClipboard(writeText: (text: string) => Promise<void>): void {
    vi.stubGlobal("navigator", { clipboard: { writeText } });
  }

  it("writes to the clipboard", async () => {
    const written: string[] = [];
    withClipboard(async (text) => void written.push(text));
    expect(await copyText("a\tb")).toBe(true);
    expect(written).toEqual(["a\tb"]);
  });

  it("copies a selection where the page may not write to the clipboard", async () => {
    withClipboard(() => Promise.reject(new Error("not allowed")));
    const copied: string[] = [];
    document.execCommand = (command) => {
      const area = document.querySelector("textarea");
      copied.push(`${command} ${area?.value}`);
      return true;
    };
    expect(await copyText("a\tb")).toBe(true);
    expect(copied).toEqual(["copy a\tb"]);
    expect(document.querySelector("textarea")).toBeNull();
  });

  it("is false where neither way works", async () => {
    withClipboard(() => Promise.reject(new Error("not allowed")));
    document.execCommand = () => false;
    expect(await copyText("a")).toBe(false);
  });
});
