import { afterEach, describe, expect, it } from "vitest";
import { cellLine } from "./cell-line";

afterEach(() => document.body.replaceChildren());

function divOf(className: string, ...children: readonly (Node | string)[]): HTMLElement {
  const made = document.createElement("div");
  made.className = className;
  made.append(...children);
  return made;
}

/** A cell of a notebook with its editor, and the place of a report below it. */
function cellOf(lines: readonly string[], ...gaps: readonly Node[]): Element {
  const report = document.createElement("p");
  const editor = divOf(
    "jp-InputArea-editor",
    ...gaps,
    ...lines.map((line) => divOf("cm-line", line)),
  );
  document.body.replaceChildren(divOf("jp-Cell", editor, report));
  return report;
}

describe("the line of a cell", () => {
  it("is the one with the number and the text of the recorded line", () => {
    const report = cellOf(["%%torchprof", "for x in data:", "    step(x)"]);
    expect(cellLine(report, 3, "    step(x)")?.textContent).toBe("    step(x)");
  });

  it("is not known where the cell was changed, is shown in part, or is elsewhere", () => {
    expect(cellLine(cellOf(["%%torchprof", "other()"]), 2, "step(x)")).toBeNull();
    expect(cellLine(cellOf(["step(x)"]), 2, "step(x)")).toBeNull();
    expect(cellLine(cellOf(["step(x)"], divOf("cm-gap")), 1, "step(x)")).toBeNull();
    expect(cellLine(document.body, 1, "")).toBeNull();
  });
});
