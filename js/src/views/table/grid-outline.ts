/** Rows that open and close: which are shown, how deep they are, and which of them hold others. */

import type { Frame } from "../../wire/frame";
import { stringAt } from "../../wire/frame";
import type { TableHeader } from "../../wire/header";

export interface OutlineRow {
  readonly depth: number;
  readonly holds: boolean;
  readonly isOpen: boolean;
}

/** The rows of a table as a tree. `shown` is false for rows inside a closed one. */
export interface Outline {
  readonly rows: readonly OutlineRow[];
  readonly shown: (row: number) => boolean;
  readonly idOf: (row: number) => string;
}

/** The tree of a table whose rows name the row around them; null for other tables. */
export function outlineOf(
  view: TableHeader,
  frame: Frame,
  toggled: ReadonlySet<string>,
): Outline | null {
  const { outline } = view;
  if (outline === null) return null;
  const ids = Array.from({ length: frame.rows }, (_, row) => stringAt(frame, outline.id, row));
  const rowOf = new Map(ids.map((id, row) => [id, row]));
  const above = ids.map((_, row) => rowOf.get(stringAt(frame, outline.parent, row)) ?? -1);
  const holds = new Set(above);
  const rows: OutlineRow[] = [];
  const isShown: boolean[] = [];
  ids.forEach((id, row) => {
    const parent = above[row] ?? -1;
    // Rows stand after the row around them, so a parent that comes later is none.
    const around = parent < row ? rows[parent] : undefined;
    const depth = around === undefined ? 0 : around.depth + 1;
    rows.push({
      depth,
      holds: holds.has(row),
      isOpen: depth < outline.open_levels !== toggled.has(id),
    });
    isShown.push(around === undefined || (around.isOpen && (isShown[parent] ?? true)));
  });
  return {
    rows,
    shown: (row) => isShown[row] ?? true,
    idOf: (row) => ids[row] ?? "",
  };
}

/** The set with an id added, or removed if it was there. */
export function withToggled(toggled: ReadonlySet<string>, id: string): Set<string> {
  const next = new Set(toggled);
  if (!next.delete(id)) next.add(id);
  return next;
}
