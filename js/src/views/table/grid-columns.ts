/** The columns of a table: which are shown, how wide, and how their numbers are written. */

import {
  type ColumnFormat,
  columnFormat,
  decimalsIn,
  isNumeric,
  isText,
  tailOf,
} from "../../base/format";
import {
  type Column,
  type Frame,
  type NumberColumn,
  type Numbers,
  stringAt,
  type TextColumn,
  wordAt,
} from "../../wire/frame";
import type { ColumnHeader, TableHeader } from "../../wire/header";
import { divisorOf, isFile, isLine, leadColumn, restRows } from "../common/describe";

export interface GridColumn {
  readonly header: ColumnHeader;
  readonly cells: Column;
  /** The text over the column: title and unit. */
  readonly title: string;
  readonly isLead: boolean;
  /** Shown as a dot next to the name; still searched and sorted. */
  readonly isDot: boolean;
  readonly isNumeric: boolean;
  readonly widthPx: number;
  /** The width that shows all text, up to a limit; minor columns are hidden to get it. */
  readonly wishPx: number;
  /** The largest magnitude of rows with a name, which is the length of a full bar. */
  readonly largest: number;
  /** Numbers are shown divided by this. */
  readonly divisor: number;
  /** The column that the rows are sorted by at first; the last to go where there is no room. */
  readonly isMain: boolean;
  /** Says nothing in any row; hidden unless it is chosen. */
  readonly isIdle: boolean;
  /** How wide the numbers are beside the bars. */
  readonly digitsPx: number;
  /** The most decimals of its numbers. */
  readonly decimals: number;
  readonly text: (row: number) => string;
  /** 1 for rows that have no name of their own. */
  readonly rest: ArrayLike<number>;
}

const LEAD_MIN_PX = 160;
const TREE_LEAD_MIN_PX = 210;
// Of a name beside what it was, and what it is.
const LEAD_CHANGED_PX = 120;
// Of a name that stands beside its place.
const LEAD_BESIDE_PX = 130;
// Minor columns are hidden before names get narrower than this.
const LEAD_WISH_PX = 290;
const SOURCE_WISH_PX = 480;
// Room for the indents of a tree.
const INDENTS_PX = 70;
const DOT_PX = 18;
const CHAR_PX = 7.4;
const LESS_CHARS = 0.5;
// The title of the sorted column is bold.
const TITLE_CHAR_PX = 8.2;
const CELL_PAD_PX = 24;
const ARROW_PX = 12;
const OWN_UNIT = /\bFLOPs?(?=$|\/)|\bBytes(?=\/)/;
const TEXT_MAX_PX = 260;
const TEXT_MIN_PX = 100;
// The shortest track of a bar, and its distance from the number.
const CHANGE_TRACK_PX = 150;
const TRACK_PX = 72;
const TRACK_GAP_PX = 10;
const MEASURED_ROWS = 200;

/**
 * All columns of a table. In a table with names, the phase is a dot next to the name. Sums are divided by `steps`.
 */
export function gridColumns(view: TableHeader, frame: Frame, steps = 1): readonly GridColumn[] {
  const lead = leadColumn(view.columns);
  const rest = restRows(view, frame);
  const found = view.columns.flatMap((header) => {
    const cells = frame.columns.get(header.name);
    const divisor = divisorOf(header, steps);
    const largest = cells?.kind === "number" ? largestOf(cells.values) : 0;
    return cells === undefined ? [] : [{ header, cells, divisor, largest }];
  });
  return found.map(({ header, cells, divisor, largest }) => {
    const isLead = header === lead;
    const isDot = header.unit === "phase" && !isLead;
    // Times stand in one unit, and so do sizes, where all can be read in it.
    const beside = found
      .filter((other) => other.header.unit === header.unit)
      .map((other) => other.largest / other.divisor);
    const looks =
      cells.kind === "text"
        ? textLooks(header, cells, isLead, view.outline !== null, noteOf(view, frame))
        : {
            ...numberLooks(header, cells, divisor, Math.max(...beside)),
            largest: largestOf(cells.values, isScaled(header) ? rest : []),
          };
    const isMain = header.name === view.sort_by;
    const isIdle = !isLead && !isMain && isEmpty(header, cells, largest);
    return { header, cells, isLead, isDot, divisor, isMain, isIdle, rest, ...looks };
  });
}

function isEmpty({ unit }: ColumnHeader, cells: Column, largest: number): boolean {
  if (cells.kind === "text") return !cells.words.some((word) => word !== "");
  return unit !== "step" && largest === 0;
}

/** The remark beside the name of a row. */
function noteOf({ note }: TableHeader, frame: Frame): (row: number) => string {
  return (row) => (note === null ? "" : stringAt(frame, note, row));
}

type Looks = Pick<
  GridColumn,
  "title" | "isNumeric" | "widthPx" | "wishPx" | "largest" | "digitsPx" | "decimals" | "text"
>;

function textLooks(
  header: ColumnHeader,
  cells: TextColumn,
  isLead: boolean,
  isTree: boolean,
  note: (row: number) => string,
): Looks {
  const text = (row: number) => wordAt(cells, row);
  const whole = isLead ? (row: number) => text(row) + note(row) : text;
  const extraPx = isLead ? DOT_PX + (isTree ? INDENTS_PX : 0) : 0;
  const wholePx = textWidth(header, cells.keys.length, whole) + extraPx;
  const widthPx = Math.min(
    isLead ? (isTree ? TREE_LEAD_MIN_PX : LEAD_MIN_PX) : TEXT_MAX_PX,
    wholePx,
  );
  const mostPx = header.is_verbatim ? SOURCE_WISH_PX : LEAD_WISH_PX;
  const wishPx = isLead ? Math.min(mostPx, wholePx) : widthPx;
  const none = { largest: 0, digitsPx: 0, decimals: 0 };
  return { title: header.title, isNumeric: false, widthPx, wishPx, ...none, text };
}

function numberLooks(
  header: ColumnHeader,
  { values }: NumberColumn,
  divisor: number,
  beside: number,
): Looks {
  const largest = largestOf(values);
  // Lines are numbered as in editors: 2705, not 2,705.
  const unit = isLine(header) ? "step" : header.unit;
  const format = columnFormat(unit, largest / divisor, beside);
  const text = (row: number) => format.format((values[row] ?? Number.NaN) / divisor);
  const title = titleWithUnit(header.title, format);
  const { chars, decimals } = extentOf(values, format, divisor);
  const digitsPx = chars * CHAR_PX;
  const widthPx = numberWidth(header, title, digitsPx);
  const looks = { title, isNumeric: isRight(header), widthPx, wishPx: widthPx };
  return { ...looks, largest, digitsPx, decimals, text };
}

/**
 * The most characters and decimals of a number, with its point below the others; rounding can make some longer than the
 * largest, and signs are wider than digits.
 */
function extentOf(values: Numbers, { format }: ColumnFormat, divisor: number) {
  const shown = Array.from(values.slice(0, MEASURED_ROWS), (value) => format(value / divisor));
  const decimals = shown.reduce((most, text) => Math.max(most, decimalsIn(text)), 0);
  const lengths = shown.map(
    (text) =>
      text.length +
      tailOf(text, decimals).length +
      LESS_CHARS * (text.match(/[<>−]/g)?.length ?? 0),
  );
  const largest = format(-largestOf(values) / divisor).length - 1;
  return { decimals, chars: Math.max(1, largest, ...lengths) };
}

function isRight(header: ColumnHeader): boolean {
  return isNumeric(header.unit) || header.unit === "step";
}

function titleWithUnit(title: string, { suffix }: ColumnFormat): string {
  // "Backward GFLOP" rather than "Backward FLOPs GFLOP", and "GFLOP/s" rather than "FLOP/s GFLOP".
  if (OWN_UNIT.test(title)) return title.replace(OWN_UNIT, suffix);
  return suffix === "" || title.endsWith(suffix) ? title : `${title} ${suffix}`;
}

/** Whether bars are on the scale of the rows with names; those with parts add up to the whole over all rows. */
function isScaled({ parts }: ColumnHeader): boolean {
  return parts.length === 0;
}

function largestOf(values: Numbers, rest: ArrayLike<number> = []): number {
  let largest = 0;
  for (const [row, value] of values.entries()) {
    const size = Math.abs(value);
    if (size > largest && rest[row] !== 1) largest = size;
  }
  return largest;
}

function numberWidth(header: ColumnHeader, title: string, digitsPx: number): number {
  const titlePx = title.length * TITLE_CHAR_PX + ARROW_PX;
  const cellPx = header.is_change
    ? digitsPx + CHANGE_TRACK_PX + TRACK_GAP_PX
    : header.has_bar
      ? digitsPx + TRACK_PX + TRACK_GAP_PX
      : digitsPx;
  return Math.max(titlePx, cellPx) + CELL_PAD_PX;
}

function textWidth(header: ColumnHeader, rows: number, text: (row: number) => string): number {
  let longest = header.title.length + 2;
  for (let row = 0; row < Math.min(rows, MEASURED_ROWS); row += 1) {
    longest = Math.max(longest, text(row).length);
  }
  return (longest + 1) * CHAR_PX + CELL_PAD_PX; // words such as "compute" are wider than their characters
}

/**
 * The columns that fit into a width. Minor ones are hidden first, starting with the last, so that names get their room;
 * then numbers without bars; then names and places are cut to their least widths, and only then bars go. Those that were
 * chosen by hand stay, and those that were hidden by hand go. The column that the rows are `sorted` by says most, else
 * the first one with bars, so it is never hidden.
 */
export function fittingColumns(
  columns: readonly GridColumn[],
  widthPx: number,
  chosen: ReadonlyMap<string, boolean> = new Map(),
  sorted = "",
): readonly GridColumn[] {
  const shown = columns.filter(
    (column) =>
      !column.isDot &&
      (column.isLead ||
        (chosen.get(column.header.name) ?? (!column.isIdle || column.header.name === sorted))),
  );
  const first =
    shown.find(({ header, isLead }) => header.name === sorted && !isLead) ??
    shown.find(({ isMain }) => isMain) ??
    shown.find(({ header }) => header.has_bar);
  const canGo = (column: GridColumn) =>
    !column.isLead && column !== first && chosen.get(column.header.name) !== true;
  const roomy = withoutLast(
    shown,
    (each) => canGo(each) && each.header.is_minor,
    (rest) => wishedPx(rest) <= widthPx,
  );
  // Places that stand ahead of the names are cut before they go; but files say less than the text of lines.
  const isCode = shown.some(({ header, isLead }) => isLead && header.is_verbatim);
  const isPlace = ({ header }: GridColumn) => isCode && isFile(header);
  const lead = shown.findIndex(({ isLead }) => isLead);
  const placed = withoutLast(
    roomy,
    (each) => canGo(each) && !each.header.has_bar && (shown.indexOf(each) > lead || isPlace(each)),
    (rest) => rest.reduce((sum, column) => sum + closePx(column, rest), 0) <= widthPx,
  );
  const behind = withoutLast(
    placed,
    (each) => canGo(each) && shown.indexOf(each) > lead,
    (rest) => neededPx(rest) <= widthPx,
  );
  return withoutLast(behind, canGo, (rest) => neededPx(rest) <= widthPx);
}

/** Leaves out the last column that can go, again and again, until the rest fits. */
function withoutLast(
  columns: readonly GridColumn[],
  canGo: (column: GridColumn) => boolean,
  fits: (rest: readonly GridColumn[]) => boolean,
): readonly GridColumn[] {
  let rest = columns;
  while (!fits(rest)) {
    const last = rest.findLast(canGo);
    if (last === undefined) return rest;
    rest = rest.filter((column) => column !== last);
  }
  return rest;
}

function wishedPx(columns: readonly GridColumn[]): number {
  return columns.reduce((sum, column) => sum + column.wishPx, 0);
}

/** Under this width a table scrolls sideways. */
export function neededPx(columns: readonly GridColumn[]): number {
  return columns.reduce((sum, column) => sum + leastPx(column, columns), 0);
}

/** The width of a column before any is hidden: names and bars give way to what was before a change, and what is after it. */
function closePx(column: GridColumn, columns: readonly GridColumn[]): number {
  return columns.some(({ header }) => header.is_change) ? leastPx(column, columns) : column.widthPx;
}

/** The least width of a column: texts are cut before a column is hidden, such as files, and lines beside them. */
export function leastPx(column: GridColumn, columns: readonly GridColumn[]): number {
  const { header, isNumeric, isLead, widthPx } = column;
  if (header.is_change) {
    const barless = widthPx - CHANGE_TRACK_PX - TRACK_GAP_PX;
    return Math.max(barless, column.title.length * TITLE_CHAR_PX + ARROW_PX + CELL_PAD_PX);
  }
  if (isLead && columns.some((each) => each.header.is_change))
    return Math.min(widthPx, LEAD_CHANGED_PX);
  if (isNumeric || (isLead && column === columns[0])) return widthPx;
  return Math.min(widthPx, isLead ? LEAD_BESIDE_PX : TEXT_MIN_PX);
}

/** The columns that the filter searches. */
export function isSearched(header: ColumnHeader): boolean {
  return isText(header.unit);
}

/** The column whose bars have the hues of the phases: the one that is sorted by, else the main one, else the first. */
export function hueColumn({ columns, sort_by: main }: TableHeader, sorted: string): string {
  const bars = columns.filter(({ has_bar }) => has_bar).map(({ name }) => name);
  return [sorted, main ?? ""].find((name) => bars.includes(name)) ?? bars[0] ?? "";
}

/** The length of a row's bar, 0–1: that of a difference whatever its sign, and none of another negative number. */
export function barRatio({ header, cells, largest, rest }: GridColumn, row: number): number {
  if (!header.has_bar || largest === 0 || cells.kind === "text") return 0;
  if (rest[row] === 1 && isScaled(header)) return 0;
  const value = cells.values[row] ?? Number.NaN;
  const length = header.is_change ? Math.abs(value) : Math.max(value, 0);
  return Number.isNaN(length) ? 0 : length / largest;
}
