/** Describes a table row in words for the footer. */

import { formatNs, formatValue, isNumeric } from "../../base/format";
import type { FooterItem } from "../../state/store";
import { type Frame, keyOf, numberAt, stringAt } from "../../wire/frame";
import type { ColumnHeader, DeviceTime, TableHeader } from "../../wire/header";
import type { ReportContext } from "./context";

// More facts than this do not fit beside a name.
const MOST_FACTS = 5;

/** The name of a row, its phase and its main numbers as text. */
export function describeRow(view: TableHeader, frame: Frame, row: number, steps = 1): FooterItem {
  const lead = leadColumn(view.columns);
  const phase = view.columns.find((column) => column.unit === "phase");
  return {
    name: lead === undefined ? `Row ${row + 1}` : cellText(lead, frame, row),
    isCode: lead?.unit === "code",
    phase: phase === undefined ? "" : stringAt(frame, phase.name, row),
    facts: factsOf(view, frame, row, steps),
  };
}

/** The column that names a row: code first, else any text, else the first. */
export function leadColumn(columns: readonly ColumnHeader[]): ColumnHeader | undefined {
  return (
    columns.find((column) => column.unit === "code") ??
    columns.find((column) => column.unit === "text") ??
    columns[0]
  );
}

function cellText(column: ColumnHeader, frame: Frame, row: number): string {
  const number = numberAt(frame, column.name, row);
  if (Number.isNaN(number)) return stringAt(frame, column.name, row);
  return `${column.title} ${formatValue(number, column.unit)}`;
}

function factsOf(view: TableHeader, frame: Frame, row: number, steps: number): readonly string[] {
  const numeric = view.columns.filter((column) => isNumeric(column.unit) && !column.is_minor);
  const known = numeric.filter((column) => numberAt(frame, column.name, row));
  return known.slice(0, MOST_FACTS).map((column) => {
    const value = numberAt(frame, column.name, row) / divisorOf(column, steps);
    const text = formatValue(value, column.unit);
    if (isLine(column)) return `line ${value}`;
    return column.unit === "count" ? counted(column, text) : titled(column, text);
  });
}

/** Whether the numbers of a column are those of lines, which are written as in editors: 2705, not 2,705. */
export function isLine({ name }: ColumnHeader): boolean {
  return name.endsWith("line");
}

/** Whether the texts of a column are paths of files, whose end says most. */
export function isFile({ name, unit }: ColumnHeader): boolean {
  return name.endsWith("file") && unit === "text";
}

/** "3 calls", "1 call". */
function counted({ title }: ColumnHeader, text: string): string {
  const noun = title.toLowerCase();
  return `${text} ${text === "1" ? noun.replace(/s$/, "") : noun}`;
}

/** "Self CPU 38.3 ms"; a title that is only a unit is left out. */
function titled(column: ColumnHeader, text: string): string {
  return column.title === "%" ? text : `${column.title} ${text}`;
}

/** The first row of a name in the tables of a report, the shown view first; null when there is none. */
export function findName(
  report: ReportContext,
  name: string,
): { readonly view: TableHeader; readonly item: FooterItem } | null {
  for (const view of tablesByNearness(report)) {
    const state = report.source.frame(view).value;
    if (state.kind !== "ready") continue;
    const row = rowOfName(view, state.frame, name);
    if (row >= 0) return { view, item: describeRow(view, state.frame, row, stepsShown(report)) };
  }
  return null;
}

/** By how many steps sums are divided. */
export function stepsShown({ source, store }: ReportContext): number {
  return store.isPerStep.value && store.range.value === null ? source.header.steps : 1;
}

/** By what the numbers of a column are divided: a sum by the steps that it is of, each to `steps` of them. */
export function divisorOf({ is_sum, share }: ColumnHeader, steps: number): number {
  return is_sum ? Math.max(steps * share, 1) : 1;
}

/** Tables with names, the shown one first. Nothing is pulled here. */
function tablesByNearness(report: ReportContext): readonly TableHeader[] {
  const shown = report.store.view.value;
  const tables = report.source.header.views
    .filter((view) => view.shape === "table")
    .filter((view) => report.source.isAtHand(view) && nameColumn(view) !== undefined);
  return tables.toSorted((a, b) => Number(b.name === shown) - Number(a.name === shown));
}

/** The column whose words can be selected and searched for in other views. */
export function nameColumn(view: TableHeader): ColumnHeader | undefined {
  return view.columns.find((column) => column.name === "name" && column.unit === "code");
}

/** First row of a name, -1 when there is none. */
export function rowOfName(view: TableHeader, frame: Frame, name: string): number {
  const column = frame.columns.get("name");
  if (column?.kind !== "text") return -1;
  const key = keyOf(column, name);
  if (key < 0) return -1;
  const isAside = asideRows(view, frame);
  let row = column.keys.indexOf(key);
  while (row >= 0 && isAside[row] === 1) row = column.keys.indexOf(key, row + 1);
  return row;
}

/** 1 for rows that repeat others to explain the row around them. */
export function asideRows({ outline }: TableHeader, frame: Frame): ArrayLike<number> {
  const column = frame.columns.get(outline?.aside ?? "");
  return column?.kind === "number" ? column.values : [];
}

/** 1 for rows that have no name of their own, such as work outside of recorded ops. */
export function restRows({ rest }: TableHeader, frame: Frame): ArrayLike<number> {
  const column = frame.columns.get(rest ?? "");
  return column?.kind === "number" ? column.values : [];
}

// Parts of device time that are less than this share of it are not told.
const LEAST_SHARE = 0.001;

/** Of what summed device time consists: "43.3 ms busy + 2.34 ms outside of steps"; "" if it is the busy time. */
export function describeDevice(device: DeviceTime | null, steps: number): string {
  if (device === null) return "";
  const { busy_ns, overlap_ns, outside_ns, devices } = device;
  const least = (busy_ns + overlap_ns + outside_ns) * LEAST_SHARE;
  const parts: readonly (readonly [number, string])[] = [
    [busy_ns, devices > 1 ? `busy on ${devices} devices` : "busy"],
    [overlap_ns, "on other streams at the same time"],
    [outside_ns, device.has_steps ? "outside of steps" : "before the first op"],
  ];
  const shown = parts.filter(([ns]) => ns > least);
  if (shown.length < 2) return "";
  return `device time: ${shown.map(([ns, what]) => `${formatNs(ns / steps)} ${what}`).join(" + ")}`;
}
