/** Which lines of the source say most: the hottest with what is around them. The rest is counted. */

import { type Frame, numberAt, rowsOf, stringAt } from "../wire/frame";

/** A line by its row in the frame, or lines that are left out, with the row of the hottest and their share of the time. */
export type CodeItem =
  | { readonly kind: "line"; readonly row: number }
  | {
      readonly kind: "rest";
      readonly row: number;
      readonly count: number;
      readonly ratio: number;
    };

// Cells of so many lines are shown as they are.
const MOST_WHOLE = 16;
// Of longer ones, and of what stands elsewhere, the hottest lines with those around them.
const MOST_LINES = 12;
const MOST_ELSEWHERE = 8;
const MOST_FUNCTIONS = 5;
// Lines between shown ones that take no more room than to say that they are left out.
const LEAST_REST = 3;
// Lines with less of the time are not worth a look.
const LEAST_RATIO = 0.01;

/** How long a row takes, by the column that decides. */
type TimeAt = (row: number) => number;

const lineAt = (frame: Frame, row: number) => numberAt(frame, "line", row);

/**
 * The lines to show by the column `time`, in the order of the source, or with `isSorted` the hottest first; then what
 * belongs to no line, and the functions that the lines call. Those in `kept` are always there. Nothing where no line took any time.
 */
export function codeItems(
  frame: Frame,
  time: string,
  kept: ReadonlySet<number>,
  isSorted: boolean,
): readonly CodeItem[] {
  const timeAt: TimeAt = (row) => numberAt(frame, time, row) || 0;
  const rows = rowsOf(frame).filter((row) => !isAside(frame, row));
  const whole = rows.reduce((sum, row) => sum + timeAt(row), 0);
  const lines = codeRows(frame);
  if (!lines.some((row) => timeAt(row) > 0)) return [];
  const leastNs = whole * LEAST_RATIO;
  const ordered = isSorted ? hottestFirst(timeAt, lines) : lines;
  const shown = isSorted
    ? new Set([...ordered.slice(0, MOST_ELSEWHERE), ...kept])
    : new Set([...chosenIn(frame, timeAt, lines, leastNs), ...kept]);
  const outside = rows.filter((row) => Number.isNaN(lineAt(frame, row)) && timeAt(row) > 0);
  return [
    ...withRests(timeAt, ordered, shown, whole),
    ...outside.map((row): CodeItem => ({ kind: "line", row })),
    ...calledFunctions(frame, timeAt),
  ];
}

/** The rows of lines; not those that repeat or fold others, or stand for what belongs to no line. */
export function codeRows(frame: Frame): readonly number[] {
  return rowsOf(frame).filter((row) => !isAside(frame, row) && !Number.isNaN(lineAt(frame, row)));
}

/** The hottest functions that the lines call; their time is in the lines. */
function calledFunctions(frame: Frame, timeAt: TimeAt): readonly CodeItem[] {
  const rows = rowsOf(frame).filter((row) => isFunction(frame, row));
  const shown = new Set(hottestFirst(timeAt, rows).slice(0, MOST_FUNCTIONS));
  return withRests(timeAt, rows, shown, Number.POSITIVE_INFINITY);
}

/** Whether a row stands for a function that lines call. */
export function isFunction(frame: Frame, row: number): boolean {
  return numberAt(frame, "is_aside", row) === 1;
}

/** Whether a row repeats or folds others. */
function isAside(frame: Frame, row: number): boolean {
  return numberAt(frame, "is_fold", row) === 1 || isFunction(frame, row);
}

function hottestFirst(timeAt: TimeAt, rows: readonly number[]): readonly number[] {
  return rows.toSorted((a, b) => timeAt(b) - timeAt(a));
}

/** The hottest lines of the cell, which stands first, and of what is elsewhere. */
function chosenIn(
  frame: Frame,
  timeAt: TimeAt,
  lines: readonly number[],
  leastNs: number,
): readonly number[] {
  const cell = stringAt(frame, "file", lines[0] ?? -1);
  const own = lines.filter((row) => stringAt(frame, "file", row) === cell);
  const elsewhere = lines.filter((row) => stringAt(frame, "file", row) !== cell);
  const first = own.length <= MOST_WHOLE ? own : hottestIn(frame, timeAt, own, MOST_LINES, leastNs);
  return [...first, ...hottestIn(frame, timeAt, elsewhere, MOST_ELSEWHERE, leastNs)];
}

/** The hottest lines with those that they stand in, such as a loop, and short gaps between them. */
function hottestIn(
  frame: Frame,
  timeAt: TimeAt,
  lines: readonly number[],
  most: number,
  leastNs: number,
): readonly number[] {
  const placeOf = new Map(lines.map((row, place) => [row, place]));
  const shown = new Set<number>();
  for (const row of hottestFirst(timeAt, lines)) {
    const around = enclosing(frame, lines, placeOf.get(row) ?? 0);
    const more = [row, ...around].filter((each) => !shown.has(each));
    if (timeAt(row) < leastNs || shown.size + more.length > most) break;
    for (const each of more) shown.add(each);
  }
  const places = [...shown].map((row) => placeOf.get(row) ?? 0).toSorted((a, b) => a - b);
  const all = places.flatMap((last, at) => [
    ...gapBetween(frame, lines, places[at - 1] ?? last, last),
    last,
  ]);
  return all.map((place) => lines[place] ?? -1);
}

/** The lines before a line that it stands in, by their indents. */
function enclosing(frame: Frame, lines: readonly number[], place: number): readonly number[] {
  const found: number[] = [];
  let indent = indentAt(frame, lines[place]);
  for (let at = place - 1; indent > 0 && follows(frame, lines, at); at -= 1) {
    const own = indentAt(frame, lines[at]);
    if (own >= indent) continue;
    indent = own;
    found.push(lines[at] ?? -1);
  }
  return found;
}

/** How far a line is indented; an empty one stands in all lines. */
function indentAt(frame: Frame, row = -1): number {
  const indent = stringAt(frame, "source", row).search(/\S/);
  return indent < 0 ? Number.POSITIVE_INFINITY : indent;
}

/** Whether the next of the lines follows a line in its file. */
function follows(frame: Frame, lines: readonly number[], place: number): boolean {
  const [row = -1, next = -1] = [lines[place], lines[place + 1]];
  const isSame = stringAt(frame, "file", row) === stringAt(frame, "file", next);
  return isSame && lineAt(frame, next) - lineAt(frame, row) === 1;
}

/** The places of the lines between two shown ones, where they are so few that they can be shown, too. */
function gapBetween(
  frame: Frame,
  lines: readonly number[],
  first: number,
  last: number,
): readonly number[] {
  if (last - first > LEAST_REST) return [];
  const places = Array.from({ length: last - first }, (_, at) => first + at);
  return places.every((place) => follows(frame, lines, place)) ? places : [];
}

/** The shown lines, and between them what is left out. */
function withRests(
  timeAt: TimeAt,
  lines: readonly number[],
  shown: ReadonlySet<number>,
  whole: number,
): readonly CodeItem[] {
  const items: CodeItem[] = [];
  let left: number[] = [];
  for (const row of [...lines, -1]) {
    if (row >= 0 && !shown.has(row)) {
      left.push(row);
      continue;
    }
    const [only = -1] = left;
    // A line takes no more room than to say that it is left out.
    if (left.length === 1) items.push({ kind: "line", row: only });
    else if (left.length > 1) items.push(restOf(timeAt, left, whole));
    left = [];
    if (row >= 0) items.push({ kind: "line", row });
  }
  return items;
}

function restOf(timeAt: TimeAt, rows: readonly number[], whole: number): CodeItem {
  const time = rows.reduce((sum, row) => sum + timeAt(row), 0);
  const row = hottestFirst(timeAt, rows)[0] ?? -1;
  return { kind: "rest", row, count: rows.length, ratio: time / whole };
}
