// @vitest-project logic
import { describe, expect, it } from "vitest";
import { columnHeader, tableHeader } from "../../../test/headers";
import type { Frame } from "../../wire/frame";
import { outlineOf, withToggled } from "./grid-outline";

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

function tree(openLevels: number, toggled: readonly string[] = []) {
  const outline = { id: "id", parent: "above", open_levels: openLevels };
  const view = tableHeader("modules", { columns: [columnHeader("id", "code")], outline });
  const found = outlineOf(view, FRAME, new Set(toggled));
  return IDS.filter((_, row) => found?.shown(row)).map((id, _row) => {
    const row = IDS.indexOf(id);
    return `${"  ".repeat(found?.rows[row]?.depth ?? 0)}${id}`;
  });
}

describe("rows as a tree", () => {
  it("shows the rows up to the levels that are open at first", () => {
    expect(tree(0)).toEqual(["model"]);
    expect(tree(1)).toEqual(["model", "  model/layers", "  model/head"]);
    expect(tree(9)).toEqual(["model", "  model/layers", "    model/layers/0", "  model/head"]);
  });

  it("opens and closes the rows that were toggled", () => {
    expect(tree(1, ["model/layers"])).toEqual([
      "model",
      "  model/layers",
      "    model/layers/0",
      "  model/head",
    ]);
    expect(tree(9, ["model"])).toEqual(["model"]);
  });

  it("is none for a table without an outline", () => {
    expect(outlineOf(tableHeader("ops", {}), FRAME, new Set())).toBeNull();
  });

  it("toggles an id twice back to where it was", () => {
    const once = withToggled(new Set(), "a");
    expect([...once]).toEqual(["a"]);
    expect([...withToggled(once, "a")]).toEqual([]);
  });
});
