/** Rows that open and close: which are shown and in which order, how deep they are, and which of them hold others. */

import type { Frame } from "../../wire/frame";
import { stringAt } from "../../wire/frame";
import type { TableHeader } from "../../wire/header";

export interface OutlineRow {
  readonly depth: number;
  readonly holds: boolean;
  readonly isOpen: boolean;
}

/** The rows of a table as a tree. */
export interface Outline {
  readonly rows: readonly OutlineRow[];
  /** The rows to show, in order. */
  readonly order: readonly number[];
  readonly idOf: (row: number) => string;
  /** The row around a row, -1 for none. */
  readonly above: (row: number) => number;
  /** Whether a row only stands for those in it, and is closed at first. */
  readonly isFold: (row: number) => boolean;
}

/** What does not change with the order and the filter. */
export interface OutlineTree {
  readonly ids: readonly string[];
  readonly above: readonly number[];
  readonly below: ReadonlyMap<number, readonly number[]>;
  /** 1 for rows that are closed at first, whatever their level. */
  readonly closed: ArrayLike<number>;
}

/** The tree of a table whose rows name the row around them; null for other tables. */
export function treeOf(view: TableHeader, frame: Frame): OutlineTree | null {
  const { outline } = view;
  if (outline === null) return null;
  const ids = Array.from({ length: frame.rows }, (_, row) => stringAt(frame, outline.id, row));
  const rowOf = new Map(ids.map((id, row) => [id, row]));
  const above = ids.map((_, row) => {
    const around = rowOf.get(stringAt(frame, outline.parent, row)) ?? -1;
    // Rows stand after the row around them, so a parent that comes later is none.
    return around < row ? around : -1;
  });
  const below = new Map<number, number[]>();
  above.forEach((around, row) => {
    const list = below.get(around);
    if (list === undefined) below.set(around, [row]);
    else list.push(row);
  });
  return { ids, above, below, closed: closedRows(outline.closed, frame) };
}

function closedRows(name: string | null, frame: Frame): ArrayLike<number> {
  const column = name === null ? undefined : frame.columns.get(name);
  return column?.kind === "number" ? column.values : [];
}

export interface OutlineInput {
  readonly tree: OutlineTree;
  readonly openLevels: number;
  readonly toggled: ReadonlySet<string>;
  /** All rows in the order of the table; siblings stand in it. */
  readonly order: readonly number[];
  /** The rows that the filter leaves; null without a filter. The rows around them are shown, too. */
  readonly matches: ReadonlySet<number> | null;
}

/** The rows to show: siblings in the order of the table, each followed by what is in it while it is open. */
export function outlineOf({ tree, openLevels, toggled, order, matches }: OutlineInput): Outline {
  const { ids, above, below, closed } = tree;
  const isKept = matches === null ? null : withThoseAround(matches, above);
  const place = new Int32Array(ids.length);
  order.forEach((row, position) => {
    place[row] = position;
  });
  const rows: OutlineRow[] = ids.map(() => ({ depth: 0, holds: false, isOpen: false }));
  const shown: number[] = [];
  const open = [{ list: inOrder(below.get(-1) ?? [], place), at: 0, depth: 0 }];
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    const row = top.list[top.at];
    top.at += 1;
    if (row === undefined) {
      open.pop();
      continue;
    }
    if (isKept !== null && !isKept.has(row)) continue;
    const inside = below.get(row) ?? [];
    // A row that does not match itself is there for what is in it.
    const isForced = matches !== null && !matches.has(row);
    const isOpenFirst = top.depth < openLevels && closed[row] !== 1;
    const isOpen = isForced || isOpenFirst !== toggled.has(ids[row] ?? "");
    rows[row] = { depth: top.depth, holds: inside.length > 0, isOpen };
    shown.push(row);
    if (inside.length > 0 && isOpen) {
      const list = inOrder(inside, place);
      // Below a row that matches, everything is shown.
      open.push({ list, at: 0, depth: top.depth + 1 });
    }
  }
  return {
    rows,
    order: shown,
    idOf: (row) => ids[row] ?? "",
    above: (row) => above[row] ?? -1,
    isFold: (row) => closed[row] === 1,
  };
}

function inOrder(rows: readonly number[], place: Int32Array): readonly number[] {
  return rows.toSorted((a, b) => (place[a] ?? 0) - (place[b] ?? 0));
}

/** The rows, those around them, and those in them. */
function withThoseAround(
  matches: ReadonlySet<number>,
  above: readonly number[],
): ReadonlySet<number> {
  const kept = new Set(matches);
  for (const row of matches) {
    for (let at = above[row] ?? -1; at >= 0 && !kept.has(at); at = above[at] ?? -1) kept.add(at);
  }
  above.forEach((around, row) => {
    if (around >= 0 && matches.has(around)) kept.add(row);
  });
  return kept;
}

/** The set with an id added, or removed if it was there. */
export function withToggled(toggled: ReadonlySet<string>, id: string): Set<string> {
  const next = new Set(toggled);
  if (!next.delete(id)) next.add(id);
  return next;
}
