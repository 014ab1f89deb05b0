import { describe, expect, it } from "vitest";
import { encodeFrame } from "../../test/encode";
import { decodeFrame } from "../wire/decode";
import type { Frame } from "../wire/frame";
import { codeItems, codeRows } from "./code-lines";

type Line = readonly [number, string, number, string?];

function frameOf(
  lines: readonly Line[],
  more: { readonly folds?: readonly number[]; readonly asides?: readonly number[] } = {},
): Frame {
  const decoded = decodeFrame(
    encodeFrame([
      ["file", lines.map(([, , , file]) => file ?? "In [4]")],
      ["line", Float64Array.from(lines, ([line]) => line)],
      ["source", lines.map(([, text]) => text)],
      ["cpu_ns", Float64Array.from(lines, ([, , time]) => time)],
      ["is_aside", Int32Array.from(lines, (_, row) => Number(more.asides?.includes(row) ?? false))],
      ["is_fold", Int32Array.from(lines, (_, row) => Number(more.folds?.includes(row) ?? false))],
    ]),
  );
  if (!decoded.ok) throw new Error(decoded.message);
  return decoded.value;
}

/** `count` lines from line `first` on; those in `times` take some time. */
function cell(count: number, times: Readonly<Record<number, number>>, first = 1): Line[] {
  return Array.from({ length: count }, (_, at) => [first + at, "    x", times[first + at] ?? 0]);
}

const NONE: ReadonlySet<number> = new Set();

/** Shown lines by their numbers, and what is left out by its count. */
function shown(frame: Frame, kept = NONE, isSorted = false): readonly (number | string)[] {
  return codeItems(frame, "cpu_ns", kept, isSorted).map((item) =>
    item.kind === "rest"
      ? `${item.count} at ${item.row}`
      : ((frame.columns.get("line") as { readonly values: Float64Array }).values[item.row] ??
        Number.NaN),
  );
}

describe("the lines that the overview shows", () => {
  it("are all lines of a short cell, in their order", () => {
    expect(shown(frameOf(cell(4, { 2: 5, 3: 9 })))).toEqual([1, 2, 3, 4]);
  });

  it("are of a long cell the hot ones with the loop that they stand in", () => {
    const lines = cell(40, { 20: 90, 33: 9.5 });
    lines[4] = [5, "for x in data:", 0];
    // Line 33 is in the loop of line 5, too; lines 34 to 40 take nothing.
    expect(shown(frameOf(lines))).toEqual(["4 at 0", 5, "14 at 5", 20, "12 at 20", 33, "7 at 33"]);
  });

  it("keep the lines between two of them where they are few", () => {
    const lines = cell(40, { 20: 50, 23: 50, 27: 50 });
    expect(shown(frameOf(lines))).toEqual(["19 at 0", 20, 21, 22, 23, "3 at 23", 27, "13 at 27"]);
  });

  it("count what is left out, with its share of the time", () => {
    const lines = cell(20, { 1: 990, 19: 6, 20: 4 });
    const [, rest] = codeItems(frameOf(lines), "cpu_ns", NONE, false);
    expect(rest).toEqual({ kind: "rest", row: 18, count: 19, ratio: 0.01 });
  });

  it("are at most twelve of the cell and eight of other files, the hottest", () => {
    const even = Object.fromEntries(Array.from({ length: 10 }, (_, at) => [at * 5 + 1, 100 - at]));
    const own = cell(60, { ...even, 51: 80, 55: 79, 59: 78, 60: 77 });
    const other = cell(50, even).map(([line, text, time]): Line => [line, text, time, "a.py"]);
    const found = codeItems(frameOf([...own, ...other]), "cpu_ns", NONE, false);
    const rows = found.filter(({ kind }) => kind === "line").map(({ row }) => row);
    expect(rows.filter((row) => row < 60)).toHaveLength(12);
    expect(rows.filter((row) => row >= 60)).toEqual([60, 65, 70, 75, 80, 85, 90, 95]);
  });

  it("include those in which something is to change, however cold", () => {
    expect(shown(frameOf(cell(30, { 1: 9 })), new Set([29]))).toEqual([1, "28 at 1", 30]);
  });

  it("are the hottest functions where they stand in the order of their time", () => {
    const lines = Array.from({ length: 10 }, (_, at): Line => [at, "f", at, `${at}.py`]);
    expect(shown(frameOf(lines), NONE, true)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, "2 at 1"]);
  });

  it("end with what belongs to no line, and skip rows that fold others", () => {
    const frame = frameOf(
      [
        [1, "x", 5],
        [Number.NaN, "lines 2–5", 0],
        [2, "y", 0],
        [Number.NaN, "out", 3],
      ],
      {
        folds: [1],
      },
    );
    expect(codeItems(frame, "cpu_ns", NONE, false).map(({ row }) => row)).toEqual([0, 2, 3]);
    expect(codeRows(frame)).toEqual([0, 2]);
  });

  it("have the hottest functions that they call below them, whose time does not count again", () => {
    const functions = Array.from({ length: 8 }, (_, at): Line => [at + 1, "f", 8 - at, "b.py"]);
    const head: Line = [Number.NaN, "functions", 0];
    const frame = frameOf([...cell(2, { 2: 9 }), head, ...functions], {
      asides: functions.map((_, at) => at + 3),
    });
    expect(shown(frame)).toEqual([1, 2, 1, 2, 3, 4, 5, "3 at 8"]);
    expect(codeItems(frame, "cpu_ns", NONE, false).at(-1)).toMatchObject({
      kind: "rest",
      ratio: 0,
    });
  });

  it("are none where no line took any time", () => {
    expect(codeItems(frameOf(cell(3, {})), "cpu_ns", NONE, false)).toEqual([]);
  });
});
