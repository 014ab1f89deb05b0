/** The header row: the titles and definitions of the columns, and how the rows are sorted. */

import type { Signal } from "@preact/signals";
import type { SortDirection } from "@tanstack/table-core";
import { screenScale } from "../../draw/screen-scale";
import { Button } from "../common/button";
import type { GridColumn } from "./grid-columns";
import { type GridTableColumn, gridColumnOf } from "./grid-table";

interface GridHeaderProps {
  readonly columns: readonly GridTableColumn[];
  readonly widths: Signal<ReadonlyMap<string, number>>;
  readonly togglePin: (id: string) => void;
  readonly lefts: ReadonlyMap<string, number>;
}

export function GridHeader({ columns, ...shared }: GridHeaderProps) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: part of a virtual grid.
    // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus.
    <div class="tp-row tp-head" role="row" aria-rowindex={1}>
      {columns.map((column, index) => (
        <HeaderCell key={column.id} column={column} place={index + 1} {...shared} />
      ))}
    </div>
  );
}

interface HeaderCellProps extends Omit<GridHeaderProps, "columns"> {
  readonly column: GridTableColumn;
  readonly place: number;
}

function HeaderCell({ column, place, widths, togglePin, lefts }: HeaderCellProps) {
  const shown = gridColumnOf(column);
  const left = lefts.get(column.id);
  const sorted = column.getIsSorted();
  return (
    // biome-ignore lint/a11y/useSemanticElements: part of a virtual grid.
    // biome-ignore lint/a11y/useFocusableInteractive: its button has the focus.
    <div
      role="columnheader"
      class={cellClass(shown, left)}
      style={left === undefined ? undefined : { left: `${left}px` }}
      aria-colindex={place}
      aria-sort={ariaSort(sorted)}
      data-tp-column={column.id}
    >
      <Button
        title={tooltip(shown)}
        onClick={(event) => {
          if (event.shiftKey && !shown.isLead) togglePin(column.id);
          else column.toggleSorting();
        }}
        onKey={(event) => {
          if (event.key === "p" && !shown.isLead) togglePin(column.id);
          resizeByKey(event, column.id, widths);
        }}
      >
        {shown.title}
        <span class="tp-arrow" aria-hidden="true">
          {arrow(sorted)}
        </span>
      </Button>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: widths matter to those who see them. */}
      <span
        class="tp-grip"
        onPointerDown={(event) => resize(event, column.id, widths)}
        onDblClick={() => {
          const next = new Map(widths.value);
          next.delete(column.id);
          widths.value = next;
        }}
      />
    </div>
  );
}

const LEAST_PX = 48;
const KEY_STEP_PX = 24;

/** Shift with an arrow key makes the column of the focused title narrower or wider. */
function resizeByKey(
  event: KeyboardEvent,
  id: string,
  widths: Signal<ReadonlyMap<string, number>>,
): void {
  const step =
    event.key === "ArrowRight" ? KEY_STEP_PX : event.key === "ArrowLeft" ? -KEY_STEP_PX : 0;
  const cell = (event.currentTarget as HTMLElement).parentElement;
  if (step === 0 || !event.shiftKey || cell === null) return;
  event.preventDefault();
  widths.value = new Map(widths.value).set(id, Math.max(LEAST_PX, cell.offsetWidth + step));
}

/** Drags the right edge of a column; a double click goes back to the width that fits. */
function resize(
  event: PointerEvent,
  id: string,
  widths: Signal<ReadonlyMap<string, number>>,
): void {
  const grip = event.currentTarget as HTMLElement;
  const cell = grip.parentElement;
  if (cell === null) return;
  event.preventDefault();
  event.stopPropagation();
  const scale = screenScale(cell);
  const extra = cell.offsetWidth - event.clientX / scale;
  const abort = new AbortController();
  const { signal } = abort;
  grip.setPointerCapture(event.pointerId);
  const move = ({ clientX }: PointerEvent) => {
    widths.value = new Map(widths.value).set(id, Math.max(LEAST_PX, clientX / scale + extra));
  };
  grip.addEventListener("pointermove", move, { signal });
  for (const end of ["pointerup", "pointercancel"]) {
    grip.addEventListener(end, () => abort.abort(), { signal });
  }
}

/** `left` is where a pinned column stays. */
export function cellClass(column: GridColumn, left?: number): string {
  const kind = column.isNumeric ? "tp-number" : "tp-text";
  const minor = column.header.is_minor ? " tp-minor" : "";
  return `tp-cell ${kind}${column.isLead ? " tp-lead" : ""}${left === undefined ? "" : " tp-pinned"}${minor}`;
}

function ariaSort(sorted: SortDirection | false): "ascending" | "descending" | "none" {
  if (sorted === false) return "none";
  return sorted === "desc" ? "descending" : "ascending";
}

function arrow(sorted: SortDirection | false): string {
  if (sorted === false) return "";
  return sorted === "desc" ? "▾" : "▴";
}

/** The full title and the definition, shown on hover. */
function tooltip({ title, header, isLead }: GridColumn): string {
  const pinning = isLead ? "" : "Shift+click or P: keep this column beside the names, or not.";
  return [title, header.definition, pinning].filter((part) => part !== "").join("\n");
}
