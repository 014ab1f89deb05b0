// @vitest-project logic
import { describe, expect, it } from "vitest";
import { columnHeader, tableHeader } from "../../../test/headers";
import type { Frame } from "../../wire/frame";
import { countLeft, countRows, outlineOf, treeOf, withToggled } from "./grid-outline";

const IDS = ["model", "model/layers", "model/layers/0", "model/head"];
const ABOVE = ["", "model", "model/layers", "model"];

function text(words: readonly string[]) {
  const distinct = [...new Set(words)];
  return {
    kind: "text" as const,
    words: distinct,
    keys: Int32Array.from(words, (w) => distinct.indexOf(w)),
  };
}

const FRAME = {
  rows: IDS.length,
  columns: new Map([
    ["id", text(IDS)],
    ["above", text(ABOVE)],
  ]),
} as unknown as Frame;

interface Options {
  readonly toggled?: readonly string[];
  readonly order?: readonly number[];
  readonly matches?: readonly number[];
  readonly closed?: readonly number[];
}

function treeWith(closed: readonly number[] = [], extra: string | null = null) {
  const outline = {
    id: "id",
    parent: "above",
    open_levels: 0,
    closed: "closed",
    aside: null,
    extra,
  };
  const view = tableHeader("modules", { columns: [columnHeader("id", "code")], outline });
  const values = Uint8Array.from(IDS, (_, row) => Number(closed.includes(row)));
  const columns = new Map([...FRAME.columns, ["closed", { kind: "number" as const, values }]]);
  const made = treeOf(view, { ...FRAME, columns });
  if (made === null) throw new Error("no tree");
  return made;
}

function tree(openLevels: number, { toggled = [], order, matches, closed }: Options = {}) {
  const found = outlineOf({
    tree: treeWith(closed),
    openLevels,
    toggled: new Set(toggled),
    order: order ?? IDS.map((_, row) => row),
    matches:
      matches === undefined
        ? null
        : Uint8Array.from(IDS, (_, row) => Number(matches.includes(row))),
  });
  expect(found.order.map((row) => found.placeOf(row))).toEqual(found.order.map((_, at) => at));
  return Array.from(found.order, (row) => `${"  ".repeat(found.at(row).depth)}${IDS[row]}`);
}

describe("rows as a tree", () => {
  it("shows the rows up to the levels that are open at first", () => {
    expect(tree(0)).toEqual(["model"]);
    expect(tree(1)).toEqual(["model", "  model/layers", "  model/head"]);
    expect(tree(9)).toEqual(["model", "  model/layers", "    model/layers/0", "  model/head"]);
  });

  it("keeps rows closed that are marked so, until they are toggled", () => {
    expect(tree(9, { closed: [1] })).toEqual(["model", "  model/layers", "  model/head"]);
    const opened = tree(9, { closed: [1], toggled: ["model/layers"] });
    expect(opened).toEqual(["model", "  model/layers", "    model/layers/0", "  model/head"]);
  });

  it("opens and closes the rows that were toggled", () => {
    expect(tree(1, { toggled: ["model/layers"] })).toEqual([
      "model",
      "  model/layers",
      "    model/layers/0",
      "  model/head",
    ]);
    expect(tree(9, { toggled: ["model"] })).toEqual(["model"]);
  });

  it("is none for a table without an outline", () => {
    expect(treeOf(tableHeader("ops", {}), FRAME)).toBeNull();
  });

  it("puts siblings into the order of the table and keeps them in what they are in", () => {
    expect(tree(9, { order: [3, 2, 1, 0] })).toEqual([
      "model",
      "  model/head",
      "  model/layers",
      "    model/layers/0",
    ]);
  });

  it("shows what is around a row that the filter leaves, open", () => {
    expect(tree(0, { matches: [2] })).toEqual(["model", "  model/layers", "    model/layers/0"]);
  });

  it("keeps what is in a row that the filter leaves", () => {
    expect(tree(9, { matches: [1] })).toEqual(["model", "  model/layers", "    model/layers/0"]);
  });

  it("counts the rows that are in no other, or all but those that stand for others", () => {
    const rows = IDS.map((_, row) => row);
    expect(countRows(treeWith([1]), rows, [])).toBe(1);
    expect(countRows(treeWith([1], "closed"), rows, [])).toBe(3);
    // What has no name of its own is no row that counts, in a tree and in a list.
    expect(countRows(treeWith([1], "closed"), rows, [0, 0, 0, 1])).toBe(2);
    expect(countRows(null, rows, [0, 0, 0, 1])).toBe(3);
    // The filter leaves the two below the row that stands for others, and shows those around them.
    const made = treeWith([1], "closed");
    const matches = Uint8Array.of(0, 1, 1, 1);
    const found = outlineOf({
      tree: made,
      openLevels: 0,
      toggled: new Set(),
      order: rows,
      matches,
    });
    expect(countLeft(made, found, [])).toBe(2);
    expect(countLeft(treeWith(), { ...found, matches: null }, [])).toBe(1);
  });

  it("toggles an id twice back to where it was", () => {
    const once = withToggled(new Set(), "a");
    expect([...once]).toEqual(["a"]);
    expect([...withToggled(once, "a")]).toEqual([]);
  });
});
