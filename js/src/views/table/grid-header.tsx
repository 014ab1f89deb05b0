/** The header row: the titles and definitions of the columns, and how the rows are sorted. */

import type { SortDirection } from "@tanstack/table-core";
import { focusable } from "../common/focusable";
import type { GridColumn } from "./grid-columns";
import { type GridTableColumn, gridColumnOf } from "./grid-table";

interface GridHeaderProps {
  readonly columns: readonly GridTableColumn[];
}

export function GridHeader({ columns }: GridHeaderProps) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: part of a virtual grid.
    // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus.
    <div class="tp-row tp-head" role="row" aria-rowindex={1}>
      {columns.map((column, index) => (
        <HeaderCell key={column.id} column={column} place={index + 1} />
      ))}
    </div>
  );
}

interface HeaderCellProps {
  readonly column: GridTableColumn;
  readonly place: number;
}

function HeaderCell({ column, place }: HeaderCellProps) {
  const shown = gridColumnOf(column);
  const sorted = column.getIsSorted();
  return (
    // biome-ignore lint/a11y/useSemanticElements: part of a virtual grid.
    // biome-ignore lint/a11y/useFocusableInteractive: its button has the focus.
    <div
      role="columnheader"
      class={cellClass(shown)}
      aria-colindex={place}
      aria-sort={ariaSort(sorted)}
      data-tp-column={column.id}
    >
      <button
        type="button"
        title={tooltip(shown)}
        onClick={() => column.toggleSorting()}
        {...focusable()}
      >
        {shown.title}
        <span class="tp-arrow" aria-hidden="true">
          {arrow(sorted)}
        </span>
      </button>
    </div>
  );
}

export function cellClass(column: GridColumn): string {
  const kind = column.isNumeric ? "tp-number" : "tp-text";
  const minor = column.header.minor ? " tp-minor" : "";
  return `tp-cell ${kind}${column.isLead ? " tp-lead" : ""}${minor}`;
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
function tooltip({ title, header }: GridColumn): string {
  return header.definition === "" ? title : `${title}\n${header.definition}`;
}
