/** What do the columns mean, and which one orders the rows? */

import type { Sort } from "../state/store";
import type { ColumnHeader } from "../wire/header";
import { focusable } from "./focusable";
import type { GridColumn } from "./grid-columns";

interface GridHeaderProps {
  readonly columns: readonly GridColumn[];
  readonly sort: Sort | null;
  readonly onSort: (header: ColumnHeader) => void;
}

export function GridHeader({ columns, sort, onSort }: GridHeaderProps) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: part of a virtual grid.
    // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus.
    <div class="tp-row tp-head" role="row" aria-rowindex={1}>
      {columns.map((column, index) => (
        // biome-ignore lint/a11y/useSemanticElements: part of a virtual grid.
        // biome-ignore lint/a11y/useFocusableInteractive: its button has the focus.
        <div
          key={column.header.name}
          role="columnheader"
          class={cellClass(column)}
          aria-colindex={index + 1}
          aria-sort={ariaSort(column, sort)}
          data-tp-column={column.header.name}
        >
          <button
            type="button"
            title={tooltip(column)}
            onClick={() => onSort(column.header)}
            {...focusable()}
          >
            {column.title}
            <span class="tp-arrow" aria-hidden="true">
              {arrow(column, sort)}
            </span>
          </button>
        </div>
      ))}
    </div>
  );
}

export function cellClass(column: GridColumn): string {
  const kind = column.isNumeric ? "tp-number" : "tp-text";
  const minor = column.header.minor ? " tp-minor" : "";
  return `tp-cell ${kind}${column.isLead ? " tp-lead" : ""}${minor}`;
}

function ariaSort(column: GridColumn, sort: Sort | null): "ascending" | "descending" | "none" {
  if (sort?.column !== column.header.name) return "none";
  return sort.isDescending ? "descending" : "ascending";
}

function arrow(column: GridColumn, sort: Sort | null): string {
  if (sort?.column !== column.header.name) return "";
  return sort.isDescending ? "▾" : "▴";
}

/** The whole title and the definition, one hover away. */
function tooltip({ title, header }: GridColumn): string {
  return header.definition === "" ? title : `${title}\n${header.definition}`;
}
