/** A table as a grid: sorted, filtered, with only the visible rows in the page. */

import { useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { formatCount, plural } from "../../base/format";
import type { TableHeader } from "../../wire/header";
import type { TableProps } from "../common/context";
import { describeDevice, describeRow } from "../common/describe";
import { downloadBytes } from "../common/download";
import { focusable } from "../common/focusable";
import { Groupings } from "../common/groupings";
import { Menu, MenuItem } from "../common/menu";
import { Marked, SearchBox, Segmented, Sentence, Tools } from "../common/parts";
import { type GridColumn, hueColumn, isSearched, leastPx, neededPx } from "./grid-columns";
import { copyText, csvOf, textOfRows } from "./grid-export";
import { GridHeader } from "./grid-header";
import { useCutNames } from "./grid-names";
import { pinnedLefts } from "./grid-pins";
import { GridRow, type RowActs } from "./grid-row";
import { type GridState, isSelected, useGrid } from "./grid-state";
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
    <div class="tp-view" data-tp-rows-shown={rows.length}>
      <GridTools {...parts} />
      {props.view.answer !== "" && (
        <p class="tp-answer">
          <Marked text={props.view.answer} />
        </p>
      )}
      <Grid {...parts} />
      {rows.length === 0 && (
        <Sentence>
          No {nounOf(props.view)} matches “{query.value}”.
        </Sentence>
      )}
      <LeftOut {...parts} />
    </div>
  );
}

/** On paper: how many rows are not on it. */
function LeftOut({ report, view, grid }: PartProps) {
  const count = grid.rows.length - grid.visible.length;
  if (!report.look.value.isPrinted || count <= 0) return null;
  return <p class="tp-print-rest">and {plural(count, `more ${nounOf(view)}`)}</p>;
}

function GridTools(props: PartProps) {
  const { report, view, grid } = props;
  const { store, source } = report;
  const canBePerStep = source.header.steps > 1 && view.columns.some(({ is_sum }) => is_sum);
  return (
    <Tools>
      {view.columns.some(isSearched) && <SearchBox text={grid.query} label={filterHint(view)} />}
      <Groupings report={report} view={view} />
      {canBePerStep && store.range.value === null && (
        <Segmented
          label="Sums"
          options={SUMS}
          chosen={store.isPerStep.value ? "step" : "total"}
          onChoose={(name) => {
            store.isPerStep.value = name === "step";
          }}
        />
      )}
      <span class="tp-tools-note" role="status" title={wholeText(props)}>
        {countText(props)}
      </span>
      <GridMenu {...props} />
    </Tools>
  );
}

/** "12 of 97 ops": the rows that the filter leaves and all rows, of those that are in no other row. */
function countText({ view, grid }: PartProps): string {
  const { whole, left } = grid.counts;
  const all = plural(whole, nounOf(view));
  return grid.query.value.trim() === "" ? all : `${formatCount(left)} of ${all}`;
}

/** The same, and of what their time adds up. */
function wholeText(props: PartProps): string {
  const { view, grid } = props;
  return [countText(props), describeDevice(view.device, grid.steps)].filter(Boolean).join(" · ");
}

const SUMS = [
  { name: "total", title: "Total" },
  { name: "step", title: "Per step" },
];

/** What can be written into the filter, by example. */
function filterHint(view: TableHeader): string {
  // Beside a picture there is no room for examples.
  if (view.points !== null) return `Filter ${nounOf(view)}s`;
  const examples = [
    view.columns.some(({ name }) => name === "self_cpu_ns" || name === "self_device_ns")
      ? "self>1ms"
      : "",
    view.columns.some(({ unit }) => unit === "phase") ? "phase:backward" : "",
  ].filter((each) => each !== "");
  const noun = view.title.includes(" by ")
    ? "ops"
    : (view.tab === "compare" ? view.group : view.title).toLowerCase();
  return [`Filter ${noun}`, ...examples].join("   ");
}

/** The columns, and the rows as text. */
function GridMenu({ report, view, grid }: PartProps) {
  const { chosen } = report.store.table(view);
  const columns = grid.table.getAllLeafColumns().map(gridColumnOf);
  const shown = new Set(grid.columns.map(({ id }) => id));
  const rows = () => grid.rows.map(({ index }) => index);
  const status = useSignal("");
  const copy = async () => {
    const text = textOfRows(grid.columns.map(gridColumnOf), rows());
    status.value = (await copyText(text))
      ? `${plural(grid.rows.length, "row")} copied`
      : "The browser does not allow it";
  };
  const save = () => {
    const bytes = new TextEncoder().encode(csvOf(columns, rows()));
    downloadBytes(bytes, { filename: `torchprof-${view.name}.csv`, mime: "text/csv" });
  };
  return (
    <>
      <span class="tp-aloud" role="status">
        {status.value}
      </span>
      <Menu label={status.value === "" ? "Columns" : status.value}>
        {(close) => (
          <>
            <MenuItem
              title="Copy the rows"
              onChoose={() => {
                close();
                void copy();
              }}
            />
            <MenuItem
              title="Save as CSV"
              onChoose={() => {
                close();
                save();
              }}
            />
            {columns
              .filter(({ isLead, isDot }) => !isLead && !isDot)
              .map(({ header }) => (
                <MenuItem
                  key={header.name}
                  title={`${shown.has(header.name) ? "✓" : "\u2003"} ${header.title}`}
                  isChosen={shown.has(header.name)}
                  onChoose={() => {
                    chosen.value = new Map(chosen.value).set(header.name, !shown.has(header.name));
                  }}
                />
              ))}
          </>
        )}
      </Menu>
    </>
  );
}

/** The scrolling box with the header above the rows. It has the focus and refers to its active row. */
function Grid(props: PartProps) {
  const { report, view, grid } = props;
  const { widths, pins, chosen } = report.store.table(view);
  const lefts = useMemo(
    () => leftsOf(grid.columns.map(gridColumnOf), widths.value, pins.value),
    [grid.columns, widths.value, pins.value],
  );
  const togglePin = (id: string) => {
    const rest = pins.value.filter((name) => name !== id);
    const isNew = rest.length === pins.value.length;
    pins.value = isNew ? [...rest, id] : rest;
    if (isNew) chosen.value = new Map(chosen.value).set(id, true);
  };
  const onDouble = (event: MouseEvent) => {
    if ((event.target as Element).closest("[data-tp-row]") !== null) grid.open(grid.current);
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
      style={gridStyle(grid.columns.map(gridColumnOf), widths.value)}
      onDblClick={onDouble}
      {...focusable(grid.onKey)}
    >
      <GridHeader columns={grid.columns} widths={widths} togglePin={togglePin} lefts={lefts} />
      <GridBody {...props} lefts={lefts} />
    </div>
  );
}

function GridBody(props: PartProps & { readonly lefts: ReadonlyMap<string, number> }) {
  const { report, view, frame, grid, lefts } = props;
  const hue = hueColumn(view, report.store.table(view).sorting.value[0]?.id ?? "");
  const columns = useMemo(() => grid.columns.map(gridColumnOf), [grid.columns]);
  const { widths } = report.store.table(view);
  const names = useCutNames(grid.scroller, columns, widths.value, report.titleOf);
  const acts = useRef<RowActs>(actsOf(props));
  acts.current = actsOf(props);
  return (
    // biome-ignore lint/a11y/useSemanticElements: see the grid.
    <div
      class={view.outline?.open_levels === 0 ? "tp-rows tp-details" : "tp-rows"}
      role="rowgroup"
      style={{ height: `${grid.rows.length * ROW_PX}px` }}
    >
      {grid.visible.map((position) => {
        const row = grid.rows[position];
        return row === undefined ? null : (
          <GridRow
            key={row.id}
            id={rowId(props, row.index)}
            report={report}
            view={view}
            frame={frame}
            columns={columns}
            names={names}
            lefts={lefts}
            row={row.index}
            hue={hue}
            position={position}
            isSelected={isSelected(props, row.index, position === grid.current)}
            outline={grid.outline?.at(row.index) ?? null}
            acts={acts}
          />
        );
      })}
    </div>
  );
}

function actsOf({ report, view, frame, grid }: PartProps): RowActs {
  return {
    toggle: grid.toggle,
    choose: grid.choose,
    hover: (row, isOver) => {
      report.store.hover.value = isOver ? describeRow(view, frame, row, grid.steps) : null;
    },
  };
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

/** "op" for Ops: the title without a final s; rows of source code are what their column calls them, or lines. */
function nounOf(view: TableHeader): string {
  const isOfGroup = view.points !== null || view.tab === "compare" || view.title.includes(" by ");
  const of = view.columns.find((column) => column.is_verbatim) ?? view;
  const title = of === view && isOfGroup ? view.group : of.title;
  return title
    .toLowerCase()
    .replace(/s$/, "")
    .replace(/source.*/, "line");
}

const NO_LEFTS: ReadonlyMap<string, number> = new Map();

/** How far from the left edge the pinned columns stay. */
function leftsOf(
  columns: readonly GridColumn[],
  widths: ReadonlyMap<string, number>,
  pins: readonly string[],
): ReadonlyMap<string, number> {
  if (pins.length === 0) return NO_LEFTS;
  const placed = columns.map(({ header: { name }, isLead, widthPx }) => {
    return { name, isLead, px: widths.get(name) ?? widthPx };
  });
  return pinnedLefts(placed, pins);
}

function gridStyle(
  columns: readonly GridColumn[],
  widths: ReadonlyMap<string, number>,
): Record<string, string> {
  const tracks = columns.map((column) => {
    const { header, isLead, isNumeric, widthPx } = column;
    const own = widths.get(header.name);
    if (own !== undefined) return `${own}px`;
    const most = isLead ? "3fr" : isNumeric && !header.is_change ? "0.5fr" : `${widthPx}px`;
    return `minmax(${leastPx(column, columns)}px, ${most})`;
  });
  const needed = neededPx(columns);
  return { "--tp-tracks": tracks.join(" "), "--tp-needed": `${needed}px` };
}
