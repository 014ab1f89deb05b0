/** Rows of a table as text for a spreadsheet. */

import type { GridColumn } from "./grid-columns";

// What a spreadsheet would take for a formula, as in `exporters/csv.py`.
const FORMULA = /^[=+\-@\t\r\n\0＝＋－＠]/;

/** Comma-separated values: titles with units, and numbers in full. Text that looks like a formula gets an apostrophe. */
export function csvOf(columns: readonly GridColumn[], rows: readonly number[]): string {
  const head = columns.map(({ header }) => quoted(withUnit(header.name, header.unit)));
  const lines = rows.map((row) => columns.map((column) => quoted(rawValue(column, row))).join(","));
  return `${[head.join(","), ...lines].join("\r\n")}\r\n`;
}

/** What the page shows, with tabs between the cells. */
export function textOfRows(columns: readonly GridColumn[], rows: readonly number[]): string {
  const lines = rows.map((row) =>
    columns.map((column) => column.text(row).replace(/[\t\n\r]/g, " ")),
  );
  return [columns.map(({ title }) => title), ...lines].map((cells) => cells.join("\t")).join("\n");
}

function withUnit(name: string, unit: string): string {
  return unit === "ns" || unit === "bytes"
    ? name.endsWith(`_${unit}`)
      ? name
      : `${name} ${unit}`
    : name;
}

function rawValue({ cells }: GridColumn, row: number): string {
  if (cells.kind === "text") {
    const text = cells.words[cells.keys[row] ?? -1] ?? "";
    return FORMULA.test(text) ? `'${text}` : text;
  }
  const value = cells.values[row] ?? Number.NaN;
  return Number.isNaN(value) ? "" : String(value);
}

function quoted(text: string): string {
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Puts text on the clipboard; false where the page may not. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyWithSelection(text);
  }
}

/** The old way, for frames without permission to write to the clipboard. */
function copyWithSelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.style.position = "fixed";
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  return isDone;
}
