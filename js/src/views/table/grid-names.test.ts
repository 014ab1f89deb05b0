import { describe, expect, it } from "vitest";
import { columnHeader, tableHeader } from "../../../test/headers";
import { CODE_CHAR_PX } from "../../base/names";
import type { Frame } from "../../wire/frame";
import { gridColumns } from "./grid-columns";
import { cutNames, isCut } from "./grid-names";

const WORDS = [
  "aten::convolution_backward",
  "autograd::engine::evaluate_function: MmBackward0",
  "MmBackward0",
];

function columnOf(isVerbatim = false) {
  const header = columnHeader("name", "code", { title: "Op", is_verbatim: isVerbatim });
  const view = tableHeader("ops", { columns: [header] });
  const keys = Int32Array.of(0, 1, 2);
  const frame: Frame = {
    rows: 3,
    columns: new Map([["name", { kind: "text" as const, words: WORDS, keys }]]),
  };
  const [column] = gridColumns(view, frame);
  if (column === undefined) throw new Error("no column");
  return column;
}

/** The names in a column of this many characters, beside its margins and the dot of a phase. */
function namesOf(chars: number, indentPx = -1): readonly string[] {
  const column = columnOf();
  const names = cutNames(new Map([["name", 38 + chars * CODE_CHAR_PX + 1]]), (name) => name);
  return WORDS.map((_, row) => names.text(column, row, indentPx));
}

describe("the names of a table", () => {
  it("are whole where they fit", () => {
    expect(namesOf(50)).toEqual(WORDS);
  });

  it("lose what all of them begin with first, and differ when they are cut", () => {
    expect(namesOf(20)).toEqual(["convolution_backward", "…MmBackward0", "MmBackward0"]);
    expect(namesOf(16)[0]).toBe("convoluti…ckward");
  });

  it("have less room in a row that is indented", () => {
    // The button takes 22 px and the indent 16: six characters less.
    expect(namesOf(26)[0]).toBe(WORDS[0]);
    expect(namesOf(26, 16)[0]).toBe("convolution_backward");
  });

  it("keep the end of the path of a file", () => {
    const header = columnHeader("file", "text", { title: "File" });
    const words = ["qwen2/modeling_qwen2.py"];
    const cells = { kind: "text" as const, words, keys: Int32Array.of(0) };
    const view = tableHeader("source", { columns: [header, columnHeader("source", "code")] });
    const frame: Frame = { rows: 1, columns: new Map([["file", cells]]) };
    const [column] = gridColumns(view, frame);
    if (column === undefined) throw new Error("no column");
    const cut = (chars: number) =>
      cutNames(new Map([["file", 20 + chars * CODE_CHAR_PX + 1]]), (name) => name).text(
        column,
        0,
        -1,
      );
    expect(isCut(column)).toBe(true);
    expect([cut(23), cut(20), cut(15)]).toEqual([
      "qwen2/modeling_qwen2.py",
      "…modeling_qwen2.py",
      "modeling…2.py",
    ]);
  });

  it("are not those of source code", () => {
    expect([isCut(columnOf()), isCut(columnOf(true))]).toEqual([true, false]);
  });
});
