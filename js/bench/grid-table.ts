/** Measures how long a large table takes to open, sort and filter, beside the library's own row models. */

import { signal } from "@preact/signals";
import {
  columnFilteringFeature,
  constructTable,
  createFilteredRowModel,
  createSortedRowModel,
  filterFn_includesString,
  type SortingState,
  tableFeatures,
} from "@tanstack/table-core";
import { assert } from "../src/base/assert";
import { createGridTable, type GridTable } from "../src/views/table/grid-table";
import type { Column, Frame } from "../src/wire/frame";
import { columnHeader, tableHeader } from "../test/headers";

declare const gc: () => void;
declare const process: { memoryUsage(): { readonly heapUsed: number } };

const ROWS = [10_000, 100_000];
const RUNS = 9;
const view = tableHeader("ops", {
  columns: [columnHeader("name", "code"), columnHeader("self_ns", "ns")],
});

/** Numbers that are all different and half as many names as rows, both mixed. */
function frameOf(rows: number): Frame {
  const words = Array.from({ length: rows / 2 }, (_, key) => `aten::op_${(key * 7_919) % rows}`);
  const keys = Int32Array.from({ length: rows }, (_, row) => (row * 13) % words.length);
  const values = Float64Array.from({ length: rows }, (_, row) => (row * 7_919) % rows);
  const columns = new Map<string, Column>([
    ["name", { kind: "text", keys, words }],
    ["self_ns", { kind: "number", values }],
  ]);
  return { rows, columns };
}

function ours(frame: Frame): GridTable {
  const state = { sorting: signal<SortingState>([]), query: signal("") };
  return createGridTable(view, frame, state);
}

/** The same table with the row models of the library, which compare numbers by the row. */
function stock(frame: Frame): GridTable {
  const { options } = ours(frame);
  return constructTable({
    ...options,
    features: tableFeatures({
      ...options.features,
      columnFilteringFeature,
      filteredRowModel: createFilteredRowModel(),
      sortedRowModel: createSortedRowModel(),
    }),
    columns: options.columns.map((column) => ({
      ...column,
      sortUndefined: false as const,
      sortFn: byNumber(column.meta?.cells),
    })),
    globalFilterFn: filterFn_includesString,
  });
}

function byNumber(cells: Column | undefined) {
  const values = cells?.kind === "number" ? cells.values : [];
  return (a: { readonly index: number }, b: { readonly index: number }) =>
    (values[a.index] ?? 0) - (values[b.index] ?? 0);
}

/** Milliseconds of the middle run. */
function median(run: (times: number) => void): string {
  const milliseconds = Array.from({ length: RUNS }, (_, times) => {
    const began = performance.now();
    run(times);
    return performance.now() - began;
  });
  return (milliseconds.toSorted((a, b) => a - b)[RUNS >> 1] ?? 0).toFixed(1).padStart(7);
}

function heapMegabytes(open: () => GridTable): string {
  gc();
  const before = process.memoryUsage().heapUsed;
  const table = open();
  gc();
  const grown = process.memoryUsage().heapUsed - before;
  // Asked after the measurement, so that the table is still there.
  assert(table.getRowModel().rows.length > 0, "the table is empty");
  return (grown / 1e6).toFixed(1).padStart(6);
}

function measure(what: string, make: (frame: Frame) => GridTable, frame: Frame): void {
  const open = () => {
    const table = make(frame);
    table.getRowModel();
    return table;
  };
  const table = open();
  const opening = median(open);
  const sorting = median((times) => {
    table.setSorting([{ id: "self_ns", desc: times % 2 === 0 }]);
    table.getRowModel();
  });
  const filtering = median((times) => {
    table.setGlobalFilter(times % 2 === 0 ? "aten" : "op_1");
    table.getRowModel();
  });
  const times = `open ${opening} ms  sort ${sorting} ms  filter ${filtering} ms`;
  console.log(`  ${what.padEnd(8)} ${times}  heap ${heapMegabytes(open)} MB`);
}

for (const rows of ROWS) {
  const frame = frameOf(rows);
  console.log(`${rows} rows`);
  measure("ours", ours, frame);
  measure("library", stock, frame);
}
