/** A table as a grid: sorted, filtered, with only the visible rows in the page. */

import { formatCount, plural } from "../../base/format";
import type { TableHeader } from "../../wire/header";
import type { TableProps } from "../common/context";
import { describeRow } from "../common/describe";
import { focusable } from "../common/focusable";
import { SearchBox, Sentence, Tools } from "../common/parts";
import { type GridColumn, isSearched, neededPx } from "./grid-columns";
import { GridHeader } from "./grid-header";
import { GridRow } from "./grid-row";
import { findInTree, type GridState, isSelected, useGrid } from "./grid-state";
import { gridColumnOf } from "./grid-table";
import { ROW_PX } from "./virtual-rows";

interface PartProps extends TableProps {
  readonly grid: GridState;
}

/** Any table of a report. */
export function TableView(props: TableProps) {
  const grid = useGrid(props);
  const { rows, query } = grid;
  const parts = { ...props, grid };
  return (
    <div class="tp-view" data-tp-rows-shown={rows.length} data-tp-first-row={firstName(parts)}>
      <GridTools {...parts} />
      <Grid {...parts} />
      {rows.length === 0 && (
        <Sentence>
          No {nounOf(props.view)} contains “{query.value}”.
        </Sentence>
      )}
    </div>
  );
}

function GridTools({ view, frame, grid }: PartProps) {
  return (
    <Tools>
      {view.columns.some(isSearched) && (
        <SearchBox text={grid.query} label={`Filter ${view.title.toLowerCase()}`} />
      )}
      <span class="tp-tools-note" role="status">
        {formatCount(grid.rows.length)} of {plural(frame.rows, nounOf(view))}
      </span>
    </Tools>
  );
}

/** The scrolling box with the header above the rows. It has the focus and refers to its active row. */
function Grid(props: PartProps) {
  const { report, view, grid } = props;
  const onDouble = (event: MouseEvent) => {
    if ((event.target as Element).closest("[data-tp-row]") !== null) findInTree(report, view);
  };
  return (
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: both roles have a label.
    // biome-ignore lint/a11y/noStaticElementInteractions: both roles are interactive.
    <div
      class="tp-grid"
      role={grid.outline === null ? "grid" : "treegrid"}
      aria-label={view.title}
      aria-rowcount={grid.rows.length + 1}
      aria-colcount={grid.columns.length}
      aria-activedescendant={activeId(props)}
      tabIndex={0}
      ref={grid.scroller}
      style={gridStyle(grid.columns.map(gridColumnOf))}
      onDblClick={onDouble}
      {...focusable(grid.onKey)}
    >
      <GridHeader columns={grid.columns} />
      <GridBody {...props} />
    </div>
  );
}

function GridBody(props: PartProps) {
  const { report, view, frame, grid } = props;
  return (
    // biome-ignore lint/a11y/useSemanticElements: see the grid.
    <div class="tp-rows" role="rowgroup" style={{ height: `${grid.rows.length * ROW_PX}px` }}>
      {grid.visible.map((position) => {
        const row = grid.rows[position];
        return row === undefined ? null : (
          <GridRow
            key={row.id}
            id={rowId(props, row.index)}
            report={report}
            view={view}
            frame={frame}
            row={row}
            position={position}
            isSelected={isSelected(props, row.index, position === grid.current)}
            outline={grid.outline?.rows[row.index] ?? null}
            onToggle={() => grid.toggle(row.index)}
            onChoose={() => grid.choose(position)}
            onHover={(isOver) => {
              report.store.hover.value = isOver ? describeRow(view, frame, row.index) : null;
            }}
          />
        );
      })}
    </div>
  );
}

function rowId({ report }: TableProps, row: number): string {
  return `${report.id}-row-${row}`;
}

/** The id of the active row while it is in the page; an id without an element has no effect. */
function activeId(props: PartProps): string | undefined {
  const { grid } = props;
  const row = grid.rows[grid.current];
  if (row === undefined || !grid.visible.includes(grid.current)) return undefined;
  return rowId(props, row.index);
}

/** "op" for Ops: the title without a final s; rows of source code are lines. */
function nounOf(view: TableHeader): string {
  if (view.columns.some((column) => column.verbatim)) return "line";
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

function firstName({ view, frame, grid }: PartProps): string {
  const row = grid.rows[0];
  return row === undefined ? "" : describeRow(view, frame, row.index).name;
}
