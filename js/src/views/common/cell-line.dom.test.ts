import { afterEach, describe, expect, it } from "vitest";
import { cellLine } from "./cell-line";

afterEach(() => document.body.replaceChildren());

/** A cell of a notebook with its editor, and the place of a report below it. */
function cellOf(lines: readonly string[], gap = ""): Element {
  const texts = lines.map((line) => `<div class="cm-line">${line}</div>`).join("");
  document.body.innerHTML = `<div class="jp-Cell"><div class="jp-InputArea-editor">${gap}${texts}</div><p></p></div>`;
  return document.body.querySelector("p") as Element;
}

describe("the line of a cell", () => {
  it("is the one with the number and the text of the recorded line", () => {
    const report = cellOf(["%%torchprof", "for x in data:", "    step(x)"]);
    expect(cellLine(report, 3, "    step(x)")?.textContent).toBe("    step(x)");
  });

  it("is not known where the cell was changed, is shown in part, or is elsewhere", () => {
    expect(cellLine(cellOf(["%%torchprof", "other()"]), 2, "step(x)")).toBeNull();
    expect(cellLine(cellOf(["step(x)"]), 2, "step(x)")).toBeNull();
    expect(cellLine(cellOf(["step(x)"], '<div class="cm-gap"></div>'), 1, "step(x)")).toBeNull();
    expect(cellLine(document.body, 1, "")).toBeNull();
  });
});
