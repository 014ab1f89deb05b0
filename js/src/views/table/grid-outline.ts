/** Rows that open and close: which are shown and in which order, how deep they are, and which of them hold others. */

import { type Frame, type TextColumn, textOf, wordAt } from "../../wire/frame";
import type { TableHeader } from "../../wire/header";

export interface OutlineRow {
  readonly depth: number;
  readonly holds: boolean;
  readonly isOpen: boolean;
}

/** The rows of a table as a tree. */
export interface Outline {
  /** The rows to show, in order. */
  readonly order: Int32Array;
  /** How a row stands in the tree. */
  readonly at: (row: number) => OutlineRow;
  /** The place of a row in the order, -1 when it is not shown. */
  readonly placeOf: (row: number) => number;
  readonly idOf: (row: number) => string;
  /** 1 for rows that the filter leaves; null without a filter. */
  readonly matches: Uint8Array | null;
}

/** What does not change with the order and the filter. */
export interface OutlineTree {
  readonly ids: TextColumn;
  /** The row around each row, -1 for none. */
  readonly above: Int32Array;
  /** How many rows are directly in each row. */
  readonly inside: Int32Array;
  /** 1 for rows that are closed at first, whatever their level. */
  readonly closed: ArrayLike<number>;
  /** 1 for rows that do not count, as they stand for others; null where those in no other row count. */
  readonly extra: ArrayLike<number> | null;
}

/** The tree of a table whose rows name the row around them; null for other tables. */
export function treeOf(view: TableHeader, frame: Frame): OutlineTree | null {
  const { outline } = view;
  if (outline === null) return null;
  const ids = textOf(frame, outline.id);
  const above = rowsAround(ids, textOf(frame, outline.parent));
  const inside = new Int32Array(above.length);
  for (const around of above) if (around >= 0) inside[around] = (inside[around] ?? 0) + 1;
  const extra = outline.extra === null ? null : flagged(outline.extra, frame);
  return { ids, above, inside, closed: flagged(outline.closed, frame), extra };
}

/** Rows stand after the row around them, so a parent that comes later is none. */
function rowsAround(ids: TextColumn, parents: TextColumn): Int32Array {
  const parentKey = new Map(parents.words.map((word, key) => [word, key]));
  const keyAsParent = Int32Array.from(ids.words, (word) => parentKey.get(word) ?? -1);
  const rowOfParent = new Int32Array(parents.words.length).fill(-1);
  const above = new Int32Array(ids.keys.length);
  for (let row = 0; row < above.length; row += 1) {
    above[row] = rowOfParent[parents.keys[row] ?? -1] ?? -1;
    const own = keyAsParent[ids.keys[row] ?? -1] ?? -1;
    if (own >= 0) rowOfParent[own] = row;
  }
  return above;
}

function flagged(name: string | null, frame: Frame): ArrayLike<number> {
  const column = name === null ? undefined : frame.columns.get(name);
  return column?.kind === "number" ? column.values : [];
}

export interface OutlineInput {
  readonly tree: OutlineTree;
  readonly openLevels: number;
  readonly toggled: ReadonlySet<string>;
  /** All rows in the order of the table; siblings stand in it. */
  readonly order: ArrayLike<number>;
  /** 1 for rows that the filter leaves; null without a filter. The rows around them are shown, too. */
  readonly matches: Uint8Array | null;
}

/** The rows to show: siblings in the order of the table, each followed by what is in it while it is open. */
export function outlineOf({ tree, openLevels, toggled, order, matches }: OutlineInput): Outline {
  const { ids, above, inside, closed } = tree;
  const rows = above.length;
  const isKept = matches === null ? null : withThoseAround(matches, above);
  const { start, child } = childrenInOrder(tree, order);
  const shown = new Int32Array(rows);
  const place = new Int32Array(rows).fill(-1);
  const depth = new Uint16Array(rows);
  const isOpen = new Uint8Array(rows);
  let count = 0;
  const open = [{ at: start[0] ?? 0, end: start[1] ?? 0 }];
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    if (top.at >= top.end) {
      open.pop();
      continue;
    }
    const row = child[top.at] ?? 0;
    top.at += 1;
    if (isKept !== null && isKept[row] !== 1) continue;
    const level = open.length - 1;
    // A row that does not match itself is there for what is in it.
    const isForced = matches !== null && matches[row] !== 1;
    const isOpenFirst = level < openLevels && closed[row] !== 1;
    const isToggled = toggled.size > 0 && toggled.has(wordAt(ids, row));
    depth[row] = level;
    isOpen[row] = Number(isForced || isOpenFirst !== isToggled);
    place[row] = count;
    shown[count] = row;
    count += 1;
    // Below a row that matches, everything is shown.
    if (isOpen[row] === 1) open.push({ at: start[row + 1] ?? 0, end: start[row + 2] ?? 0 });
  }
  return {
    order: shown.subarray(0, count),
    at: (row) => ({
      depth: depth[row] ?? 0,
      holds: (inside[row] ?? 0) > 0,
      isOpen: isOpen[row] === 1,
    }),
    placeOf: (row) => place[row] ?? -1,
    idOf: (row) => wordAt(ids, row),
    matches,
  };
}

/**
 * The rows directly in each row, in the order of the table: those in `row` begin at `start[row + 1]`, those in no row
 * at `start[0]`.
 */
function childrenInOrder({ above, inside }: OutlineTree, order: ArrayLike<number>) {
  const rows = above.length;
  const start = new Int32Array(rows + 2);
  let outermost = 0;
  for (const around of above) if (around < 0) outermost += 1;
  start[1] = outermost;
  for (let row = 0; row < rows; row += 1) {
    start[row + 2] = (start[row + 1] ?? 0) + (inside[row] ?? 0);
  }
  const next = start.slice();
  const child = new Int32Array(rows);
  for (let at = 0; at < order.length; at += 1) {
    const row = order[at] ?? 0;
    const list = (above[row] ?? -1) + 1;
    child[next[list] ?? 0] = row;
    next[list] = (next[list] ?? 0) + 1;
  }
  return { start, child };
}

/** 1 for the rows, those around them, and those directly in them. */
function withThoseAround(matches: Uint8Array, above: Int32Array): Uint8Array {
  const kept = matches.slice();
  for (let row = 0; row < above.length; row += 1) {
    if (matches[row] !== 1) continue;
    for (let at = above[row] ?? -1; at >= 0 && kept[at] !== 1; at = above[at] ?? -1) kept[at] = 1;
  }
  for (let row = 0; row < above.length; row += 1) {
    const around = above[row] ?? -1;
    if (around >= 0 && matches[around] === 1) kept[row] = 1;
  }
  return kept;
}

/** How many rows are left of those that count, open or not; those in no other row if one of theirs is. */
export function countLeft(
  tree: OutlineTree,
  { order, matches }: Outline,
  rest: ArrayLike<number>,
): number {
  if (tree.extra === null || matches === null) return countRows(tree, order, rest);
  return countRows(
    tree,
    allRowsOf(matches.length).filter((row) => matches[row] === 1),
    rest,
  );
}

export const allRowsOf = (rows: number) => Int32Array.from({ length: rows }, (_, row) => row);

/** How many of some rows count: those in no other row, or all but those that stand for others; none of the rest. */
export function countRows(
  tree: OutlineTree | null,
  rows: ArrayLike<number>,
  rest: ArrayLike<number>,
): number {
  let count = 0;
  for (let at = 0; at < rows.length; at += 1) {
    const row = rows[at] ?? 0;
    const counts = tree?.extra ? tree.extra[row] !== 1 : (tree?.above[row] ?? -1) < 0;
    if (counts && rest[row] !== 1) count += 1;
  }
  return count;
}

/** The set with an id added, or removed if it was there. */
export function withToggled(toggled: ReadonlySet<string>, id: string): Set<string> {
  const next = new Set(toggled);
  if (!next.delete(id)) next.add(id);
  return next;
}
