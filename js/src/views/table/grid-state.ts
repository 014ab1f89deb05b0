/** The state of a table while it is shown: its rows, its columns, its active row. */

import { type Signal, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { keptPer } from "../../base/kept";
import { revealIn, select, type TableState } from "../../state/store";
import { type Frame, numberAt, rowsOf, stringAt } from "../../wire/frame";
import type { TableHeader } from "../../wire/header";
import { firstTree, type ReportContext, type TableProps } from "../common/context";
import {
  asideRows,
  leadColumn,
  nameColumn,
  restRows,
  rowOfName,
  stepsShown,
} from "../common/describe";
import { compileFilter, type RowTest } from "./grid-filter";
import { moveFor } from "./grid-keys";
import { orderedRows, withRestLast } from "./grid-order";
import {
  allRowsOf,
  countLeft,
  countRows,
  type Outline,
  type OutlineRow,
  outlineOf,
  treeOf,
  withToggled,
} from "./grid-outline";
import { withPinsFirst } from "./grid-pins";
import {
  createGridTable,
  FIRST_WIDTH_PX,
  fitColumns,
  type GridTable,
  type GridTableColumn,
  type GridTableRow,
  gridColumnOf,
} from "./grid-table";
import { useVirtualRows, type VirtualRows } from "./virtual-rows";

export interface GridState {
  readonly scroller: RefObject<HTMLDivElement | null>;
  readonly query: Signal<string>;
  /** The rows in the order shown; the index of a row is its position in the frame. */
  readonly rows: readonly GridTableRow[];
  /** Positions of the rows that are in the page. */
  readonly visible: readonly number[];
  /** The columns for which there is room. */
  readonly columns: readonly GridTableColumn[];
  /** The position of the active row, -1 for none. */
  readonly current: number;
  /** The tree of the rows while they stand in their own order; otherwise null. */
  readonly outline: Outline | null;
  toggle(row: number): void;
  choose(position: number): void;
  /** Opens or closes a row that holds others; shows any other in the flame graph. */
  open(position: number): void;
  readonly table: GridTable;
  readonly counts: RowCounts;
  /** By how many steps the sums are divided. */
  readonly steps: number;
  onKey(event: KeyboardEvent): void;
}

/** How many rows there are, and how many the filter leaves, of those that count. */
export interface RowCounts {
  readonly whole: number;
  readonly left: number;
}

/** The state of one table. Sort, filter and scroll outlive it in the store. */
export function useGrid(props: TableProps): GridState {
  const { report, view, frame } = props;
  const query = report.store.search(view);
  const kept = report.store.table(view);
  const steps = stepsShown(report);
  const scroller = useRef<HTMLDivElement>(null);
  const activeRow = useSignal(-1);
  const table = tableOf(frame, view, kept, query, steps);
  const outline = useOutline(props, table, kept);
  const rows = useRows(table, outline);
  const placeOf = (row: number) =>
    outline === null ? placeOfRow(table, row) : outline.placeOf(row);
  const toggle = (row: number) => {
    if (outline?.at(row).holds !== true) return;
    kept.toggled.value = withToggled(kept.toggled.value, outline.idOf(row));
  };
  const counts = useCounts(props, outline, rows);
  const { isPrinted } = report.look.value;
  useFittingColumns(table, scroller, kept, isPrinted);
  const columns = useColumns(table, kept.pins.value);
  const virtual = useVirtualRows(scroller, rows.length, kept.scrollTop);
  const current = currentPlace(placeOf, props, activeRow.value);
  const choose = (position: number) => {
    const row = rows[position];
    if (row === undefined) return;
    activeRow.value = row.index;
    selectRow(props, row.index);
    virtual.scrollTo(position);
  };
  useRevealed(props, placeOf, query, virtual, choose);
  const open = (position: number) => {
    const row = rows[position];
    if (row !== undefined && outline?.at(row.index).holds === true) toggle(row.index);
    else findInTree(report, view);
  };
  return {
    table,
    steps,
    open,
    scroller,
    query,
    rows,
    visible: isPrinted ? printedRows(rows.length) : virtual.items(),
    columns,
    current,
    outline,
    counts,
    toggle,
    choose,
    onKey: (event) =>
      actOnKey(event, { rows, current, outline, toggle, choose, open }, virtual.pageRows()),
  };
}

type Keyed = Pick<GridState, "rows" | "current" | "outline" | "toggle" | "choose" | "open">;

function actOnKey(event: KeyboardEvent, grid: Keyed, pageRows: number): void {
  // A button in the header handles its own keys.
  if (event.target !== event.currentTarget) return;
  const { rows, current, outline } = grid;
  if (event.key === "Enter") grid.open(current);
  const row = rows[current]?.index ?? -1;
  if (opensOrCloses(event.key, outline?.at(row))) {
    event.preventDefault();
    grid.toggle(row);
  }
  const next = moveFor(event, current, rows.length, pageRows);
  if (next === null) return;
  event.preventDefault();
  grid.choose(next);
}

/** The table is built once for its rows; what it shows is in signals, which are kept longer. */
const tableOf = keptPer(
  (
    frame: Frame,
    view: TableHeader,
    { sorting, chosen }: TableState,
    query: Signal<string>,
    steps: number,
  ) => createGridTable(view, frame, { query, sorting }, { steps, chosen: chosen.peek() }),
);

const treeOfFrame = keptPer((frame: Frame, view: TableHeader) => treeOf(view, frame));

/** The tree of the rows in the order of the table; null for tables without one. */
function useOutline(
  { view, frame, report }: TableProps,
  table: GridTable,
  kept: TableState,
): Outline | null {
  const tree = treeOfFrame(frame, view);
  const toggled = kept.toggled.value;
  const [sort] = kept.sorting.value;
  const query = report.store.search(view).value;
  return useMemo(() => {
    if (tree === null || view.outline === null) return null;
    const cells = sort === undefined ? undefined : frame.columns.get(sort.id);
    const order =
      sort === undefined || cells === undefined
        ? allRows(frame)
        : withRestLast(orderedRows(cells, sort.desc), restRows(view, frame));
    const test = compileFilter(query, table.getAllLeafColumns().map(gridColumnOf));
    const matches = test === null ? null : matchingRows(frame, asideRows(view, frame), test);
    return outlineOf({ tree, openLevels: view.outline.open_levels, toggled, order, matches });
  }, [tree, toggled, sort, query, table, view]);
}

const allRows = keptPer((frame: Frame) => allRowsOf(frame.rows));

function matchingRows(frame: Frame, isAside: ArrayLike<number>, test: RowTest): Uint8Array {
  const matches = new Uint8Array(frame.rows);
  for (let row = 0; row < frame.rows; row += 1) {
    if (isAside[row] !== 1 && test(row)) matches[row] = 1;
  }
  return matches;
}

/** The rows in the order of their tree, or else as they are sorted. */
function useRows(table: GridTable, outline: Outline | null): readonly GridTableRow[] {
  const found = outline === null ? table.getRowModel().rows : null;
  const core = table.getCoreRowModel().rows;
  return useMemo(() => {
    if (outline === null) return found ?? core;
    const rows: GridTableRow[] = [];
    for (const at of outline.order) {
      const row = core[at];
      if (row !== undefined) rows.push(row);
    }
    return rows;
  }, [found, core, outline]);
}

function useCounts(
  { view, frame }: TableProps,
  outline: Outline | null,
  rows: readonly GridTableRow[],
): RowCounts {
  const tree = treeOfFrame(frame, view);
  const rest = restRows(view, frame);
  const whole = useMemo(() => countRows(tree, allRows(frame), rest), [tree, frame]);
  const left = useMemo(
    () =>
      tree && outline
        ? countLeft(tree, outline, rest)
        : rows.filter(({ index }) => rest[index] !== 1).length,
    [tree, outline, rows],
  );
  return { whole, left };
}

function opensOrCloses(key: string, row: OutlineRow | undefined): boolean {
  if (row?.holds !== true) return false;
  return key === (row.isOpen ? "ArrowLeft" : "ArrowRight");
}

// More rows fill more pages than anyone reads; the CSV file has them all.
const MOST_PRINTED = 200;

/** The positions of the rows on paper, where nothing scrolls. */
function printedRows(rows: number): readonly number[] {
  return Array.from({ length: Math.min(rows, MOST_PRINTED) }, (_, position) => position);
}

/** The visible columns, the pinned ones after the names. */
function useColumns(table: GridTable, pins: readonly string[]): readonly GridTableColumn[] {
  const visible = table.getVisibleLeafColumns();
  return useMemo(
    () =>
      withPinsFirst(visible, pins, (column) => {
        return { name: column.id, isLead: gridColumnOf(column).isLead };
      }),
    [visible, pins],
  );
}

/** Shows the columns that fit into the scrolling box, whatever width it has; paper has another. */
function useFittingColumns(
  table: GridTable,
  scroller: RefObject<HTMLDivElement | null>,
  { chosen: { value: chosen }, sorting: { value: sorting } }: TableState,
  isPrinted: boolean,
): void {
  useLayoutEffect(() => {
    const target = scroller.current;
    if (target === null) return;
    const measure = () => fitColumns(table, target.clientWidth || FIRST_WIDTH_PX, chosen, sorting);
    const observer = new ResizeObserver(measure);
    observer.observe(target);
    measure();
    return () => observer.disconnect();
  }, [table, chosen, sorting, isPrinted]);
}

/** Goes to the row that another view asked for, and clears a filter that hides it. */
function useRevealed(
  props: TableProps,
  placeOf: (row: number) => number,
  query: Signal<string>,
  virtual: VirtualRows,
  choose: (position: number) => void,
): void {
  const { store } = props.report;
  const wish = store.reveal.value;
  useEffect(() => {
    if (wish?.view !== props.view.name) return;
    const spot = rowOfSpot(props, wish.name);
    const row = spot < 0 ? rowWithText(props, wish.name) : spot;
    const position = row < 0 ? -1 : placeOf(row);
    if (position < 0 && query.value !== "") {
      query.value = "";
      return;
    }
    store.reveal.value = null;
    if (position < 0) return;
    choose(position);
    virtual.scrollTo(position);
  }, [wish, query.value]);
}

/** The row of a line by its file and number, such as `In [4]:3`; -1 if it is none. */
function rowOfSpot({ frame }: TableProps, spot: string): number {
  const isThere = (row: number) => spotAt(frame, row) === spot;
  return frame.columns.has("line") ? rowsOf(frame).findIndex(isThere) : -1;
}

function spotAt(frame: Frame, row: number): string {
  return `${stringAt(frame, "file", row)}:${numberAt(frame, "line", row)}`;
}

/** The row of a name, or of a line of source code. */
function rowWithText({ view, frame }: TableProps, text: string): number {
  const named = nameColumn(view) === undefined ? -1 : rowOfName(view, frame, text);
  if (named >= 0) return named;
  const lead = leadColumn(view.columns);
  const cells = lead === undefined ? undefined : frame.columns.get(lead.name);
  if (cells?.kind !== "text") return -1;
  const key = cells.words.findIndex((word) => word === text || word.trim() === text.trim());
  return key < 0 ? -1 : cells.keys.indexOf(key);
}

/** The active row if it has the selected name, otherwise the first row of that name. */
function currentPlace(
  placeOf: (row: number) => number,
  props: TableProps,
  activeRow: number,
): number {
  const { report, view, frame } = props;
  const column = nameColumn(view);
  if (column === undefined) return placeOf(activeRow);
  const name = report.store.selection.value?.name;
  if (activeRow >= 0 && stringAt(frame, column.name, activeRow) === name) {
    return placeOf(activeRow);
  }
  return placeOfName(placeOf, props, name);
}

/** The position of a name among the rows shown, -1 when it is not shown. */
function placeOfName(
  placeOf: (row: number) => number,
  { view, frame }: TableProps,
  name: string | undefined,
): number {
  if (name === undefined || nameColumn(view) === undefined) return -1;
  return placeOf(rowOfName(view, frame, name));
}

function placeOfRow(table: GridTable, row: number): number {
  return table.getCoreRowModel().rows[row]?.getDisplayIndex() ?? -1;
}

/** Selects the name of a row, its module or its line; nothing where it has none, rather than what was selected before. */
function selectRow({ report, view, frame }: TableProps, row: number): void {
  const column = nameColumn(view);
  if (column !== undefined)
    select(report.store, stringAt(frame, column.name, row), stringAt(frame, "kind", row));
  else {
    const name =
      numberAt(frame, "line", row) > 0 ? spotAt(frame, row) : stringAt(frame, "full_path", row);
    if (name === "") report.store.selection.value = null;
    else select(report.store, name, "");
  }
}

/** Marks all rows of the selected name; in a table without names, only the active row. */
export function isSelected(
  { report, view, frame }: TableProps,
  row: number,
  isCurrent: boolean,
): boolean {
  const column = nameColumn(view);
  if (column === undefined) return isCurrent;
  return stringAt(frame, column.name, row) === report.store.selection.value?.name;
}

/** Shows the selected name in the first flame graph of the report. */
function findInTree(report: ReportContext, view: TableHeader): void {
  const name = report.store.selection.value?.name;
  const tree = firstTree(report);
  if (name === undefined || tree === undefined || nameColumn(view) === undefined) return;
  revealIn(report.store, tree.name, name);
}
