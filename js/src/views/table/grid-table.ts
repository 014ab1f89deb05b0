/** A view as TanStack's table: its columns, its state, and the rows it shows, in order. */

import type { Signal } from "@preact/signals";
import {
  type Column,
  type ColumnDef,
  type ColumnVisibilityState,
  columnVisibilityFeature,
  constructTable,
  globalFilteringFeature,
  metaHelper,
  type Row,
  rowSortingFeature,
  type SortingState,
  type Table,
  tableFeatures,
} from "@tanstack/table-core";
import { assert } from "../../base/assert";
import { atomOf, signalReactivity } from "../../state/signal-atoms";
import { type Frame, wordAt } from "../../wire/frame";
import type { TableHeader } from "../../wire/header";
import { fittingColumns, type GridColumn, gridColumns, isSearched } from "./grid-columns";
import { filteredRowModel, sortedRowModel } from "./grid-row-models";

// The width of a usual cell, used until the box is measured.
export const FIRST_WIDTH_PX = 1000;

const features = tableFeatures({
  coreReactivityFeature: signalReactivity,
  columnMeta: metaHelper<GridColumn>(),
  columnVisibilityFeature,
  // Global filtering asks for it. No column has a filter of its own, and the real one costs each
  // row two objects: 97 instead of 58 MB for 100,000 rows.
  columnFilteringFeature: {},
  globalFilteringFeature,
  filteredRowModel,
  rowSortingFeature,
  sortedRowModel,
});

export type GridTable = Table<typeof features, Frame>;
export type GridTableColumn = Column<typeof features, Frame>;
export type GridTableRow = Row<typeof features, Frame>;

/** The state that a table keeps in the store of the report, so that it outlives the view. */
export interface GridTableState {
  readonly sorting: Signal<SortingState>;
  readonly query: Signal<string>;
}

/** How the columns are shown. */
export interface GridLook {
  /** Sums are divided by this. */
  readonly steps: number;
  /** Columns that were shown or hidden by hand. */
  readonly chosen: ReadonlyMap<string, boolean>;
}

const PLAIN_LOOK: GridLook = { steps: 1, chosen: new Map() };

/** The table of a view. A row is an index into the frame, so all rows have the frame as their data. */
export function createGridTable(
  view: TableHeader,
  frame: Frame,
  state: GridTableState,
  look: GridLook = PLAIN_LOOK,
): GridTable {
  const columns = gridColumns(view, frame, look.steps);
  return constructTable({
    features,
    columns: columns.map(columnDef),
    data: new Array<Frame>(frame.rows).fill(frame),
    atoms: { sorting: atomOf(state.sorting), globalFilter: atomOf(state.query) },
    initialState: {
      columnVisibility: visibilityAt(
        columns,
        FIRST_WIDTH_PX,
        look.chosen,
        sortedBy(state.sorting.peek()),
      ),
    },
    // Rows that came in an order of their own can get it back.
    enableSortingRemoval: view.outline !== null || view.is_sparse,
    enableMultiSort: false,
    getColumnCanGlobalFilter: () => true,
  });
}

function columnDef(column: GridColumn): ColumnDef<typeof features, Frame> {
  const { header, cells, title } = column;
  const isText = isSearched(header);
  return {
    id: header.name,
    header: title,
    meta: column,
    accessorFn: (_frame, row) => (cells.kind === "text" ? wordAt(cells, row) : cells.values[row]),
    enableGlobalFilter: isText,
    // Numbers begin with the largest, words with A.
    sortDescFirst: !isText,
  };
}

/** Hides the columns that do not fit into a width. */
export function fitColumns(
  table: GridTable,
  widthPx: number,
  chosen: ReadonlyMap<string, boolean>,
  sorting: SortingState,
): void {
  const columns = table.getAllLeafColumns().map(gridColumnOf);
  table.setColumnVisibility(visibilityAt(columns, widthPx, chosen, sortedBy(sorting)));
}

const sortedBy = (sorting: SortingState) => sorting[0]?.id ?? "";

function visibilityAt(
  columns: readonly GridColumn[],
  widthPx: number,
  chosen: ReadonlyMap<string, boolean>,
  sorted: string,
): ColumnVisibilityState {
  const fitting = new Set(fittingColumns(columns, widthPx, chosen, sorted));
  return Object.fromEntries(columns.map((column) => [column.header.name, fitting.has(column)]));
}

/** The properties of a column of the table. */
export function gridColumnOf(column: GridTableColumn): GridColumn {
  const { meta } = column.columnDef;
  assert(meta !== undefined, `the column ${column.id} was not made by columnDef`);
  return meta;
}
