/** One row of a table. */

import type { ComponentChild } from "preact";
import { useMemo } from "preact/hooks";
import { phaseColor, phaseTitle } from "../../base/palette";
import { type Frame, numberAt, stringAt } from "../../wire/frame";
import type { ColumnHeader, TableHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { restRows } from "../common/describe";
import { Digits, filledClass, PhaseDot, percent } from "../common/parts";
import { barRatio, type GridColumn } from "./grid-columns";
import { cellClass } from "./grid-header";
import { type CutNames, isCut } from "./grid-names";
import type { OutlineRow } from "./grid-outline";
import { ROW_PX } from "./virtual-rows";

const INDENT_PX = 16;
// By how much the button that opens a row is larger than its mark, on each side.
const FOLD_MARGIN_PX = 5;
// The arrow before a change.
const CHANGE_MARK_PX = 20;
// The header row is the first of the grid, and rows count from one.
const FIRST_ROW_INDEX = 2;

// What changed by less than this part of the largest change is called neither slower nor faster.
const SLIGHT = 0.05;
// In a comparison: the columns of the run that lacks a row.
const ABSENT: Readonly<Record<string, RegExp>> = { new: /before/, gone: /after/ };

/** What a row asks of its table, by its number in the frame and its position. */
export interface RowActs {
  toggle(row: number): void;
  choose(position: number): void;
  hover(row: number, isOver: boolean): void;
}

interface GridRowProps {
  readonly id: string;
  readonly report: ReportContext;
  readonly view: TableHeader;
  readonly frame: Frame;
  readonly columns: readonly GridColumn[];
  readonly names: CutNames;
  /** How far from the left edge pinned columns stay. */
  readonly lefts: ReadonlyMap<string, number>;
  readonly row: number;
  /** The column whose bars have the hues of the phases. */
  readonly hue: string;
  readonly position: number;
  readonly isSelected: boolean;
  /** Its place in the tree, null where rows are no tree. */
  readonly outline: OutlineRow | null;
  readonly acts: { readonly current: RowActs };
}

/** A row is drawn again only when something of it changes: a scroll or a selection leaves most as they are. */
export function GridRow(props: GridRowProps) {
  const { id, view, frame, columns, names, lefts, row, hue, position, isSelected, outline } = props;
  const { depth, holds, isOpen } = outline ?? {};
  return useMemo(
    () => <RowView {...props} />,
    [id, view, frame, columns, names, lefts, row, hue, position, isSelected, depth, holds, isOpen],
  );
}

function RowView(props: GridRowProps) {
  const { id, view, frame, columns, row, position, isSelected, outline, acts } = props;
  const isQuiet =
    restRows(view, frame)[row] === 1 || (view.is_sparse && isWithoutNumbers(view, frame, row));
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: keys belong to the grid, which has the focus.
    // biome-ignore lint/a11y/useSemanticElements: part of a virtual grid.
    // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus.
    <div
      id={id}
      class={isQuiet ? "tp-row tp-quiet" : "tp-row"}
      role="row"
      aria-level={outline === null ? undefined : outline.depth + 1}
      aria-expanded={outline?.holds ? outline.isOpen : undefined}
      aria-rowindex={position + FIRST_ROW_INDEX}
      aria-selected={isSelected}
      data-tp-row={row}
      style={{ transform: `translateY(${position * ROW_PX}px)` }}
      onClick={() => acts.current.choose(position)}
      onMouseEnter={() => acts.current.hover(row, true)}
      onMouseLeave={() => acts.current.hover(row, false)}
    >
      {columns.map((column, index) => (
        <GridCell key={column.header.name} {...props} column={column} place={index + 1} />
      ))}
    </div>
  );
}

// Of a remark that is a tag: the most characters, how wide each is at most, and the margins around it.
const TAG_CHARS = 8;
const TAG_CHAR_PX = 7.4;
const TAG_PAD_PX = 16;

type CellProps = GridRowProps & { readonly column: GridColumn };

function GridCell({ place, ...props }: CellProps & { readonly place: number }) {
  const { column, lefts } = props;
  const left = lefts.get(column.header.name);
  return (
    // biome-ignore lint/a11y/useSemanticElements: part of a virtual grid.
    // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus and names its active row.
    <div
      class={cellClass(column, left)}
      style={left === undefined ? undefined : { left: `${left}px` }}
      role="gridcell"
      aria-colindex={place}
    >
      {column.isLead ? <Lead {...props} /> : <Cell {...props} />}
    </div>
  );
}

/** The name with the dot of its phase; the full name is shown on hover and to screen readers. */
function Lead({ report, view, frame, column, names, row, outline, acts }: CellProps) {
  const phaseColumn = view.columns.find((each) => each.unit === "phase");
  const { is_verbatim: verbatim } = column.header;
  // The bars of a line of source have its hue.
  const phase = phaseColumn === undefined || verbatim ? "" : stringAt(frame, phaseColumn.name, row);
  const note = view.note === null ? "" : stringAt(frame, view.note, row);
  const whole = column.text(row);
  const isCode = column.header.unit === "code";
  return (
    <>
      {outline !== null && <Fold outline={outline} onToggle={() => acts.current.toggle(row)} />}
      {phase !== "" && (
        <span title={phaseTitle(phase)}>
          <PhaseDot report={report} phase={phase} />
          <span class="tp-aloud">{phaseTitle(phase)} </span>
        </span>
      )}
      <bdi class={nameClass(isCode, verbatim)} title={whole}>
        {isCut(column)
          ? names.text(column, row, outline === null ? -1 : outline.depth * INDENT_PX, tagPx(note))
          : whole}
      </bdi>
      {note !== "" && (
        <span class={`tp-row-note${tagPx(note) > 0 ? " tp-row-tag" : ""}`} title={note}>
          {note}
        </span>
      )}
    </>
  );
}

/** The room of a remark of one word, which stays whole beside a long name; 0 for any other. */
function tagPx(note: string): number {
  return note === "" || note.length > TAG_CHARS ? 0 : note.length * TAG_CHAR_PX + TAG_PAD_PX;
}

function nameClass(isCode: boolean, isVerbatim: boolean): string {
  return `tp-name${isCode ? " tp-code" : ""}${isVerbatim ? " tp-verbatim" : ""}`;
}

/** Indents a row by its depth, and opens or closes it. */
function Fold({
  outline,
  onToggle,
}: {
  readonly outline: OutlineRow;
  readonly onToggle: () => void;
}) {
  const { depth, holds, isOpen } = outline;
  const indent = { marginLeft: `${depth * INDENT_PX - FOLD_MARGIN_PX}px` };
  if (!holds) return <span class="tp-fold" style={indent} />;
  const toggle = (event: Event) => {
    event.stopPropagation();
    onToggle();
  };
  return (
    <button
      type="button"
      class="tp-fold"
      style={indent}
      tabIndex={-1}
      aria-label={isOpen ? "Close" : "Open"}
      onClick={toggle}
    >
      {isOpen ? "▾" : "▸"}
    </button>
  );
}

/** Whether a row has no time or size other than 0. */
function isWithoutNumbers({ columns }: TableHeader, frame: Frame, row: number): boolean {
  return columns.every(({ name, unit }) => {
    if (unit !== "ns" && unit !== "bytes") return true;
    const value = numberAt(frame, name, row);
    return Number.isNaN(value) || value === 0;
  });
}

function Cell(props: CellProps) {
  const { view, frame, column, row } = props;
  const number = numberAt(frame, column.header.name, row);
  // What does not apply to a row in another one, such as the host time of a kernel, is blank.
  const isBelow = (props.outline?.depth ?? 0) > 0;
  const isBlank = view.is_sparse ? !number : isBelow && Number.isNaN(number);
  const isAbsent = ABSENT[stringAt(frame, "status", row)]?.test(column.header.name);
  const text = isAbsent ? "–" : isBlank && column.isNumeric ? "" : column.text(row);
  const isCode = column.header.unit === "code";
  const value = (
    <span
      class={isCode ? "tp-value tp-code" : "tp-value"}
      title={column.isNumeric ? undefined : text}
    >
      {isCut(column) ? (
        props.names.text(column, row, -1)
      ) : (
        <Digits text={text} decimals={column.decimals} />
      )}
    </span>
  );
  if (column.header.is_change) return <ChangeCell {...props} value={value} number={number} />;
  return column.header.has_bar ? <BarCell {...props} value={value} isQuiet={text === ""} /> : value;
}

/** A difference: a bar to either side of a middle line, with its sign. */
function ChangeCell({
  report,
  column,
  row,
  value,
  number,
}: CellProps & { readonly value: ComponentChild; readonly number: number }) {
  const half = barRatio(column, row) / 2;
  const isUnsure = column.header.unit === "ns" && report.source.header.change?.kind === "unclear";
  const signed = isUnsure || half < SLIGHT / 2 ? 0 : number;
  const kind = signed > 0 ? "slower" : signed < 0 ? "faster" : "same";
  return (
    <>
      <span class="tp-bar-track tp-change-track">
        <span
          class={`tp-bar tp-${kind}`}
          style={{ width: percent(half), marginLeft: percent(number < 0 ? 0.5 - half : 0.5) }}
        />
      </span>
      <span
        class={`tp-bar-value tp-${kind}-text`}
        style={{ width: `${column.digitsPx + CHANGE_MARK_PX}px` }}
      >
        {kind !== "same" && <span aria-hidden="true">{number > 0 ? "▲ " : "▼ "}</span>}
        {value}
      </span>
    </>
  );
}

type BarProps = Pick<CellProps, "report" | "view" | "frame" | "column" | "row" | "hue"> & {
  readonly value: ComponentChild;
  readonly isQuiet: boolean;
};

/** A bar beside its number; all bars of a column share one scale. */
export function BarCell({ report, view, frame, column, row, hue, value, isQuiet }: BarProps) {
  const { parts } = column.header;
  const { theme } = report.look.value;
  const shares = barParts({ view, frame, column, row, hue });
  return (
    <>
      <span class={isQuiet ? "tp-bar-track tp-bar-none" : "tp-bar-track"}>
        {shares.map(({ phase, share }, at) => (
          <span
            key={at}
            class={filledClass("tp-bar", phase)}
            title={parts.length > 0 && phase !== "" ? phaseTitle(phase) : undefined}
            style={{
              width: percent(barRatio(column, row) * share),
              backgroundColor: phase === "" ? undefined : phaseColor(phase, theme),
            }}
          />
        ))}
      </span>
      <span class="tp-bar-value" style={{ width: `${column.digitsPx}px` }}>
        {value}
      </span>
    </>
  );
}

/** The parts of the bar of a row by phase, each with its share. */
export function barParts({
  view,
  frame,
  column: { header },
  row,
  hue,
}: Pick<BarProps, "view" | "frame" | "column" | "row" | "hue">) {
  const own = phaseOf(view, frame, row);
  if (header.parts.length === 0) return [{ phase: hue === header.name ? own : "", share: 1 }];
  return partsOf(header, frame, row).map(({ phase, share }) => ({ phase: phase || own, share }));
}

/** The parts of a bar, each with its share of the whole; a negative one is none. A bar without any is of no phase. */
function partsOf({ parts }: ColumnHeader, frame: Frame, row: number) {
  const sizes = parts.map((part) => Math.max(numberAt(frame, part.column, row) || 0, 0));
  const whole = sizes.reduce((sum, size) => sum + size, 0);
  if (whole === 0) return [{ phase: "", share: 1 }];
  return parts.map(({ phase }, at) => ({ phase, share: (sizes[at] ?? 0) / whole }));
}

function phaseOf(view: TableHeader, frame: Frame, row: number): string {
  const column = view.columns.find((each) => each.unit === "phase");
  return column === undefined ? "" : stringAt(frame, column.name, row);
}
