/** How is a table shown? A real grid: sorted, filtered, only visible rows in the page. */

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { formatCount, plural } from "../base/format";
import { revealIn, type Sort, select } from "../state/store";
import { stringAt } from "../wire/frame";
import type { ViewHeader } from "../wire/header";
import type { ViewProps } from "./context";
import { describeRow, nameColumn, rowOfName } from "./describe";
import { focusable } from "./focusable";
import { fittingColumns, type GridColumn, gridColumns, isSearched, neededPx } from "./grid-columns";
import { GridHeader } from "./grid-header";
import { moveFor } from "./grid-keys";
import { createGridModel, nextSort } from "./grid-model";
import { GridRow } from "./grid-row";
import { SearchBox, Sentence, Tools } from "./parts";
import { ROW_PX, useVirtualRows } from "./virtual-rows";

// Until the box is measured: the width of a usual cell.
const FIRST_WIDTH_PX = 1000;

/** Any table of a report. */
export function TableView(props: ViewProps) {
  const { report, view, frame } = props;
  const { store } = report;
  const query = store.search(view.name);
  const state = store.table(view.name);
  const scroller = useRef<HTMLDivElement>(null);
  const widthPx = useSignal(FIRST_WIDTH_PX);
  const active = useSignal(-1);
  const id = `${report.id}-row`;

  const all = useMemo(() => gridColumns(view, frame), [view, frame]);
  const model = useMemo(() => createGridModel(view, frame), [view, frame]);
  const sort = useComputed(() =>
    state.sort.value === undefined ? firstSort(view) : state.sort.value,
  );
  const rows = useComputed(() => model.rows(query.value, sort.value));
  const columns = useComputed(() => fittingColumns(all, widthPx.value));
  const selectedRow = useComputed(() =>
    rowOfSelection(rows.value, props, store.selection.value?.name),
  );
  const virtual = useVirtualRows(scroller, rows.value.length, state.scrollTop);

  useWidth(scroller, (width) => {
    widthPx.value = width;
  });
  useEffect(() => {
    const wish = store.reveal.value;
    if (wish?.view !== view.name) return;
    store.reveal.value = null;
    // A filter must not hide what was asked for.
    if (rowOfSelection(rows.value, props, wish.name) < 0) query.value = "";
    virtual.scrollTo(rowOfSelection(rows.value, props, wish.name));
  }, [store.reveal.value]);

  const current =
    active.value >= 0 && nameColumn(view) === undefined ? active.value : selectedRow.value;
  const choose = (position: number) => {
    const row = rows.value[position];
    if (row === undefined) return;
    active.value = position;
    selectRow(props, row);
    virtual.scrollTo(position);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) return;
    if (event.key === "Enter") findInTree(props);
    if (event.key === "Escape") store.selection.value = null;
    const next = moveFor(event, current, rows.value.length, virtual.pageRows());
    if (next === null) return;
    event.preventDefault();
    choose(next);
  };
  const shown = rows.value;
  return (
    <div
      class="tp-view"
      data-tp-rows-shown={shown.length}
      data-tp-first-row={firstName(props, shown)}
    >
      <Tools>
        {view.columns.some(isSearched) && (
          <SearchBox text={query} label={`Filter ${view.title.toLowerCase()}`} />
        )}
        <span class="tp-tools-note" role="status">
          {formatCount(shown.length)} of {plural(frame.rows, nounOf(view))}
        </span>
      </Tools>
      {/* biome-ignore lint/a11y/useSemanticElements: rows are virtual and positioned, which a table element cannot do. */}
      <div
        class="tp-grid"
        role="grid"
        aria-label={view.title}
        aria-rowcount={shown.length + 1}
        aria-colcount={columns.value.length}
        aria-activedescendant={current >= 0 ? `${id}-${shown[current]}` : undefined}
        tabIndex={0}
        ref={scroller}
        style={gridStyle(columns.value)}
        onDblClick={() => findInTree(props)}
        {...focusable(onKey)}
      >
        <GridHeader
          columns={columns.value}
          sort={sort.value}
          onSort={(header) => {
            state.sort.value = nextSort(sort.value, header);
          }}
        />
        {/* biome-ignore lint/a11y/useSemanticElements: see the grid. */}
        <div class="tp-rows" role="rowgroup" style={{ height: `${shown.length * ROW_PX}px` }}>
          {virtual.items().map((position) => {
            const row = shown[position];
            return row === undefined ? null : (
              <GridRow
                key={row}
                id={`${id}-${row}`}
                report={report}
                view={view}
                frame={frame}
                columns={columns.value}
                row={row}
                position={position}
                isSelected={isSelected(props, row, position === current)}
                onChoose={() => choose(position)}
                onHover={(isOver) => {
                  store.hover.value = isOver ? describeRow(view, frame, row) : null;
                }}
              />
            );
          })}
        </div>
      </div>
      {shown.length === 0 && (
        <Sentence>
          No {nounOf(view)} contains “{query.value}”.
        </Sentence>
      )}
    </div>
  );
}

function firstSort(view: ViewHeader): Sort | null {
  return view.sort === null ? null : { column: view.sort, isDescending: true };
}

/** "op" for Ops: the title in the singular, as far as an s at its end tells. */
function nounOf(view: ViewHeader): string {
  return view.title.toLowerCase().replace(/s$/, "");
}

function gridStyle(columns: readonly GridColumn[]): Record<string, string> {
  const tracks = columns.map((column) =>
    column.isLead && !column.isNumeric
      ? `minmax(${column.widthPx}px, 3fr)`
      : `minmax(${column.widthPx}px, ${column.isNumeric ? "0.5fr" : "1fr"})`,
  );
  return { "--tp-tracks": tracks.join(" "), "--tp-needed": `${neededPx(columns)}px` };
}

function useWidth(
  element: { readonly current: HTMLElement | null },
  onWidth: (widthPx: number) => void,
): void {
  useLayoutEffect(() => {
    const target = element.current;
    if (target === null) return;
    const observer = new ResizeObserver(() => onWidth(target.clientWidth));
    observer.observe(target);
    onWidth(target.clientWidth || FIRST_WIDTH_PX);
    return () => observer.disconnect();
  }, []);
}

function selectRow({ report, view, frame }: ViewProps, row: number): void {
  const column = nameColumn(view);
  if (column === undefined) return;
  select(report.store, stringAt(frame, column.name, row), stringAt(frame, "kind", row));
}

function isSelected({ report, view, frame }: ViewProps, row: number, isCurrent: boolean): boolean {
  const column = nameColumn(view);
  if (column === undefined) return isCurrent;
  return stringAt(frame, column.name, row) === report.store.selection.value?.name;
}

/** The place of a name among the rows shown, -1 when it is not there. */
function rowOfSelection(
  rows: Uint32Array,
  { view, frame }: ViewProps,
  name: string | undefined,
): number {
  if (name === undefined || nameColumn(view) === undefined) return -1;
  const row = rowOfName(frame, name);
  return row < 0 ? -1 : rows.indexOf(row);
}

function findInTree({ report, view }: ViewProps): void {
  const name = report.store.selection.value?.name;
  const tree = report.source.header.views.find((each) => each.shape === "tree" && !each.empty);
  if (name === undefined || tree === undefined || nameColumn(view) === undefined) return;
  revealIn(report.store, tree.name, name);
}

function firstName({ view, frame }: ViewProps, rows: Uint32Array): string {
  const row = rows[0];
  return row === undefined ? "" : describeRow(view, frame, row).name;
}
