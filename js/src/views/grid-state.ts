/** What does a table know while it is shown: its rows, its columns, its active row? */

import { type Signal, useComputed, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { revealIn, type Sort, select } from "../state/store";
import { stringAt } from "../wire/frame";
import type { ColumnHeader, ViewHeader } from "../wire/header";
import type { ReportContext, ViewProps } from "./context";
import { nameColumn, rowOfName } from "./describe";
import { fittingColumns, type GridColumn, gridColumns } from "./grid-columns";
import { moveFor } from "./grid-keys";
import { createGridModel, nextSort } from "./grid-model";
import { useVirtualRows, type VirtualRows } from "./virtual-rows";

// Until the box is measured: the width of a usual cell.
const FIRST_WIDTH_PX = 1000;

export interface GridState {
  readonly scroller: RefObject<HTMLDivElement | null>;
  readonly query: Signal<string>;
  readonly sort: Sort | null;
  /** Row numbers of the frame in the order shown. */
  readonly rows: Uint32Array;
  /** Places of the rows that are in the page. */
  readonly visible: readonly number[];
  readonly columns: readonly GridColumn[];
  /** The place of the active row, -1 for none. */
  readonly current: number;
  choose(position: number): void;
  sortBy(header: ColumnHeader): void;
  onKey(event: KeyboardEvent): void;
}

/** The state of one table. Sort, filter and scroll outlive it in the store. */
export function useGrid(props: ViewProps): GridState {
  const { report, view, frame } = props;
  const query = report.store.search(view.name);
  const kept = report.store.table(view.name);
  const scroller = useRef<HTMLDivElement>(null);
  const activeRow = useSignal(-1);
  const model = useMemo(() => createGridModel(view, frame), [view, frame]);
  const sort = kept.sort.value === undefined ? firstSort(view) : kept.sort.value;
  const rows = useMemo(() => model.rows(query.value, sort), [model, query.value, sort]);
  const columns = useColumns(props, scroller);
  const virtual = useVirtualRows(scroller, rows.length, kept.scrollTop);
  const current = currentPlace(rows, props, activeRow.value);
  const choose = (position: number) => {
    const row = rows[position];
    if (row === undefined) return;
    activeRow.value = row;
    selectRow(props, row);
    virtual.scrollTo(position);
  };
  useRevealed(props, rows, query, virtual);
  return {
    scroller,
    query,
    sort,
    rows,
    visible: virtual.items(),
    columns,
    current,
    choose,
    sortBy: (header) => {
      kept.sort.value = nextSort(sort, header);
    },
    onKey: (event) => {
      // Keys on a button in the header are the button's.
      if (event.target !== event.currentTarget) return;
      if (event.key === "Enter") findInTree(report, view);
      if (event.key === "Escape") report.store.selection.value = null;
      const next = moveFor(event, current, rows.length, virtual.pageRows());
      if (next === null) return;
      event.preventDefault();
      choose(next);
    },
  };
}

function firstSort(view: ViewHeader): Sort | null {
  return view.sort === null ? null : { column: view.sort, isDescending: true };
}

/** The columns that fit into the scrolling box, whatever width it has. */
function useColumns(
  { view, frame }: ViewProps,
  scroller: RefObject<HTMLDivElement | null>,
): readonly GridColumn[] {
  const widthPx = useSignal(FIRST_WIDTH_PX);
  const all = useMemo(() => gridColumns(view, frame), [view, frame]);
  useLayoutEffect(() => {
    const target = scroller.current;
    if (target === null) return;
    const measure = () => {
      widthPx.value = target.clientWidth || FIRST_WIDTH_PX;
    };
    const observer = new ResizeObserver(measure);
    observer.observe(target);
    measure();
    return () => observer.disconnect();
  }, []);
  return useComputed(() => fittingColumns(all, widthPx.value)).value;
}

/** Goes to the row that another view asked for; a filter must not hide it. */
function useRevealed(
  props: ViewProps,
  rows: Uint32Array,
  query: Signal<string>,
  virtual: VirtualRows,
): void {
  const { store } = props.report;
  const wish = store.reveal.value;
  useEffect(() => {
    if (wish?.view !== props.view.name) return;
    const position = placeOfName(rows, props, wish.name);
    if (position < 0 && query.value !== "") {
      query.value = "";
      return;
    }
    store.reveal.value = null;
    virtual.scrollTo(position);
  }, [wish, rows]);
}

/** The active row while it is of the selected name; else the first row of that name. */
function currentPlace(rows: Uint32Array, props: ViewProps, activeRow: number): number {
  const { report, view, frame } = props;
  const column = nameColumn(view);
  if (column === undefined) return rows.indexOf(activeRow);
  const name = report.store.selection.value?.name;
  if (activeRow >= 0 && stringAt(frame, column.name, activeRow) === name) {
    return rows.indexOf(activeRow);
  }
  return placeOfName(rows, props, name);
}

/** The place of a name among the rows shown, -1 when it is not there. */
function placeOfName(
  rows: Uint32Array,
  { view, frame }: ViewProps,
  name: string | undefined,
): number {
  if (name === undefined || nameColumn(view) === undefined) return -1;
  const row = rowOfName(frame, name);
  return row < 0 ? -1 : rows.indexOf(row);
}

function selectRow({ report, view, frame }: ViewProps, row: number): void {
  const column = nameColumn(view);
  if (column === undefined) return;
  select(report.store, stringAt(frame, column.name, row), stringAt(frame, "kind", row));
}

/** All rows of the selected name are marked; in a table without names only the active one. */
export function isSelected(
  { report, view, frame }: ViewProps,
  row: number,
  isCurrent: boolean,
): boolean {
  const column = nameColumn(view);
  if (column === undefined) return isCurrent;
  return stringAt(frame, column.name, row) === report.store.selection.value?.name;
}

/** Shows the selected name in the first flame graph of the report. */
export function findInTree(report: ReportContext, view: ViewHeader): void {
  const name = report.store.selection.value?.name;
  const tree = report.source.header.views.find((each) => each.shape === "tree" && !each.empty);
  if (name === undefined || tree === undefined || nameColumn(view) === undefined) return;
  revealIn(report.store, tree.name, name);
}
