/** The line of the notebook's cell below which a report stands, where the front end shows the cell on the same page. */

// Of JupyterLab and Notebook 7, whose editors are those of CodeMirror.
const CELL = ".jp-Cell";
const LINES = ".jp-InputArea-editor .cm-line";
// What an editor puts in the place of lines that it has not laid out.
const GAP = ".jp-InputArea-editor .cm-gap";
const SHOWN_MS = 1_500;

/** Returns the line of the cell around `element` with this number and text, or null. */
export function cellLine(element: Element, line: number, text: string): HTMLElement | null {
  const cell = element.closest(CELL);
  if (cell === null || cell.querySelector(GAP) !== null) return null;
  const found = cell.querySelectorAll<HTMLElement>(LINES)[line - 1];
  return found !== undefined && found.textContent?.trim() === text.trim() ? found : null;
}

/** Puts the cursor at a line of a cell, and marks it for a moment. */
export function goToCellLine(line: HTMLElement, color: string): void {
  line.scrollIntoView({ block: "center" });
  line.closest<HTMLElement>("[contenteditable]")?.focus({ preventScroll: true });
  line.ownerDocument.getSelection()?.collapse(line, 0);
  line.animate([{ backgroundColor: color }, { backgroundColor: "transparent" }], SHOWN_MS);
}
