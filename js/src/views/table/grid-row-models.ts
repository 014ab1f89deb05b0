/** TanStack's row models on the columns of a frame: the rows to show, in order. */

import {
  type globalFilteringFeature,
  memo,
  type Row,
  type RowModel,
  type rowSortingFeature,
  type SortingState,
  type Table,
} from "@tanstack/table-core";
import type { Frame } from "../../wire/frame";
import type { GridColumn } from "./grid-columns";
import { compileFilter } from "./grid-filter";
import { orderedRows, withRestLast } from "./grid-order";

/** The part of a table that the row models use. */
interface Features {
  readonly columnMeta: GridColumn;
  readonly globalFilteringFeature: typeof globalFilteringFeature;
  readonly rowSortingFeature: typeof rowSortingFeature;
}

type GridTable = Table<Features, Frame>;
type GridModel = RowModel<Features, Frame>;
type Rows = GridModel["rows"];

/**
 * Replaces `createFilteredRowModel()`: checks the query once per word instead of once per row.
 * 100,000 rows take 25 ms instead of 345, 10,000 rows 2 ms instead of 20 (`npm run bench`, Node 20,
 * 2 shared cores).
 */
export function filteredRowModel(table: GridTable): () => GridModel {
  return memo({
    memoDeps: () => [table.getPreFilteredRowModel(), table.atoms.globalFilter.get()],
    fn: (model: GridModel, query: string) => {
      const columns = table.getAllLeafColumns().flatMap(({ columnDef }) => columnDef.meta ?? []);
      const test = compileFilter(query, columns);
      return test === null
        ? model
        : withRows(
            model,
            model.rows.filter(({ index }) => test(index)),
          );
    },
  });
}

/**
 * Replaces `createSortedRowModel()`, which calls a function per comparison: 100,000 rows take
 * 60 ms instead of 185, 10,000 rows 5 ms instead of 6. It sorts all rows and then drops those that
 * the filter dropped, so that typing sorts nothing.
 */
export function sortedRowModel(table: GridTable): () => GridModel {
  const sortedRows = memo({
    memoDeps: () => [table.getCoreRowModel(), table.atoms.sorting.get()],
    fn: ({ rows }: GridModel, sorting: SortingState) => sortRows(table, rows, sorting),
  });
  return memo({
    memoDeps: () => [table.getPreSortedRowModel(), sortedRows()],
    fn: (model: GridModel, sorted: Rows) => withRows(model, onlyOf(sorted, model.rows)),
  });
}

function sortRows(table: GridTable, rows: Rows, [sort]: SortingState): Rows {
  if (sort === undefined) return rows;
  const column = table.getColumn(sort.id)?.columnDef.meta;
  if (column === undefined) return rows;
  const sorted: Row<Features, Frame>[] = [];
  // A table of changes comes with those first that explain the change of the steps.
  if (column.header.is_change && column.isMain && sort.desc) return rows;
  const order = orderedRows(column.cells, sort.desc, column.header.is_change);
  for (const place of withRestLast(order, column.rest)) {
    const row = rows[place];
    if (row !== undefined) sorted.push(row);
  }
  return sorted;
}

function onlyOf(sorted: Rows, left: Rows): Rows {
  if (left.length === sorted.length) return sorted;
  const isLeft = new Uint8Array(sorted.length);
  for (const { index } of left) isLeft[index] = 1;
  return sorted.filter(({ index }) => isLeft[index] === 1);
}

function withRows(model: GridModel, rows: Rows): GridModel {
  return { ...model, rows, flatRows: rows };
}
