/** The names in the cells of a table, cut to the widths that their columns have. */

import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo } from "preact/hooks";
import { CODE_CHAR_PX, shortenAll } from "../../base/names";
import type { ColumnHeader } from "../../wire/header";
import { isFile } from "../common/describe";
import type { GridColumn } from "./grid-columns";

// Until the column has a width.
const NAME_CHARS = 72;
const CELL_PAD_PX = 20;
// Letters of paths, which are not in the font of code, can be wider than usual ones.
const WIDE_CHARS = 1.1;
// The dot of the phase, and the button that opens a row.
const DOT_PX = 18;
const FOLD_PX = 22;

/** Names of one table by column; a name is also cut where different ones would read alike. */
export interface CutNames {
  /**
   * `indentPx` is how far a row of a tree is indented, -1 in a table that is none. `tagPx` is kept free for what stands
   * behind the name.
   */
  text(column: GridColumn, row: number, indentPx: number, tagPx?: number): string;
}

/** Whether names of a column are cut so that their end stays, as those of files; source code is not. */
export function isCut({ header, cells }: GridColumn): boolean {
  const isName = header.unit === "code" || isFile(header);
  return isName && !header.is_verbatim && cells.kind === "text";
}

/** Measures the columns whenever they or the table change their width. */
export function useCutNames(
  scroller: RefObject<HTMLDivElement | null>,
  columns: readonly GridColumn[],
  widths: ReadonlyMap<string, number>,
  titleOf: (name: string) => string,
): CutNames {
  const px = useSignal<ReadonlyMap<string, number>>(new Map());
  useLayoutEffect(() => {
    const target = scroller.current;
    if (target === null) return;
    const measure = () => {
      const next = headWidths(target);
      if (!isSame(px.peek(), next)) px.value = next;
    };
    const observer = new ResizeObserver(measure);
    observer.observe(target);
    measure();
    return () => observer.disconnect();
  }, [columns, widths]);
  const known = px.value;
  return useMemo(() => cutNames(known, titleOf), [columns, known]);
}

function headWidths(grid: HTMLElement): ReadonlyMap<string, number> {
  const heads = Array.from(grid.querySelectorAll<HTMLElement>("[data-tp-column]"));
  return new Map(
    heads
      .filter(({ clientWidth }) => clientWidth > 0)
      .map((head) => [head.getAttribute("data-tp-column") ?? "", head.clientWidth]),
  );
}

function isSame(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): boolean {
  return one.size === other.size && [...one].every(([name, px]) => other.get(name) === px);
}

/** Exported for tests: the names by the widths of their columns in pixels. */
export function cutNames(
  widths: ReadonlyMap<string, number>,
  titleOf: (name: string) => string,
): CutNames {
  const kept = new Map<string, readonly string[]>();
  const cut = (
    { header, cells, isLead }: GridColumn,
    indentPx: number,
    tagPx: number,
  ): readonly string[] => {
    const px = widths.get(header.name);
    const extraPx = isLead ? DOT_PX + tagPx + (indentPx < 0 ? 0 : FOLD_PX + indentPx) : 0;
    const room =
      px === undefined ? NAME_CHARS : Math.floor((px - CELL_PAD_PX - extraPx) / CODE_CHAR_PX);
    const key = `${header.name} ${room}`;
    const words = cells.kind === "text" ? cells.words : [];
    const made = kept.get(key) ?? shortenedIn(header, words.map(titleOf), room);
    kept.set(key, made);
    return made;
  };
  return {
    text: (column, row, indentPx, tagPx = 0) =>
      column.cells.kind === "text"
        ? (cut(column, indentPx, tagPx)[column.cells.keys[row] ?? -1] ?? "")
        : "",
  };
}

function shortenedIn(header: ColumnHeader, names: readonly string[], room: number) {
  if (!isFile(header)) return shortenAll(names, Math.max(room, 2));
  const cut = shortenAll(names, Math.max(Math.floor(room / WIDE_CHARS), 2));
  return names.map((name, at) => (name.length <= room ? name : (cut[at] ?? name)));
}
