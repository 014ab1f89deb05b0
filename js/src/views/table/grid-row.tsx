/** One row of a table. */

import { shortenName } from "../../base/names";
import { phaseTitle } from "../../base/palette";
import { type Frame, stringAt } from "../../wire/frame";
import type { TableHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { PhaseDot, percent } from "../common/parts";
import { barRatio, type GridColumn } from "./grid-columns";
import { cellClass } from "./grid-header";
import { type GridTableRow, gridColumnOf } from "./grid-table";
import { ROW_PX } from "./virtual-rows";

// Longer names are shortened first; the style sheet cuts what still does not fit.
const NAME_CHARS = 72;
// The header row is the first of the grid, and rows count from one.
const FIRST_ROW_INDEX = 2;

interface GridRowProps {
  readonly id: string;
  readonly report: ReportContext;
  readonly view: TableHeader;
  readonly frame: Frame;
  readonly row: GridTableRow;
  readonly position: number;
  readonly isSelected: boolean;
  readonly onChoose: () => void;
  readonly onHover: (isOver: boolean) => void;
}

export function GridRow(props: GridRowProps) {
  const { id, row, position, isSelected, onChoose, onHover } = props;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: keys belong to the grid, which has the focus.
    // biome-ignore lint/a11y/useSemanticElements: part of a virtual grid.
    // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus.
    <div
      id={id}
      class="tp-row"
      role="row"
      aria-rowindex={position + FIRST_ROW_INDEX}
      aria-selected={isSelected}
      data-tp-row={row.index}
      style={{ transform: `translateY(${position * ROW_PX}px)` }}
      onClick={onChoose}
      onMouseEnter={() => onHover(true)}
      onMouseLeave={() => onHover(false)}
    >
      {row.getVisibleCells().map(({ column }, index) => (
        <GridCell key={column.id} {...props} column={gridColumnOf(column)} place={index + 1} />
      ))}
    </div>
  );
}

type CellProps = GridRowProps & { readonly column: GridColumn };

function GridCell({ place, ...props }: CellProps & { readonly place: number }) {
  const { column } = props;
  return (
    // biome-ignore lint/a11y/useSemanticElements: part of a virtual grid.
    // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus and names its active row.
    <div class={cellClass(column)} role="gridcell" aria-colindex={place}>
      {column.isLead ? <Lead {...props} /> : <Cell {...props} />}
    </div>
  );
}

/** The name with the dot of its phase; the full name is shown on hover and to screen readers. */
function Lead({ report, view, frame, column, row }: CellProps) {
  const phaseColumn = view.columns.find((each) => each.unit === "phase");
  const phase = phaseColumn === undefined ? "" : stringAt(frame, phaseColumn.name, row.index);
  const whole = column.text(row.index);
  const isCode = column.header.unit === "code";
  return (
    <>
      <span title={phase === "" ? undefined : phaseTitle(phase)}>
        <PhaseDot report={report} phase={phase} />
        {phase !== "" && <span class="tp-aloud">{phaseTitle(phase)} </span>}
      </span>
      <bdi class={isCode ? "tp-name tp-code" : "tp-name"} title={whole}>
        {isCode ? shortenName(whole, NAME_CHARS) : whole}
      </bdi>
    </>
  );
}

function Cell({ column, row }: CellProps) {
  const ratio = barRatio(column, row.index);
  const text = column.text(row.index);
  const isCode = column.header.unit === "code";
  return (
    <>
      {ratio > 0 && <span class="tp-soft-bar" style={{ width: percent(ratio) }} />}
      <span
        class={isCode ? "tp-value tp-code" : "tp-value"}
        title={column.isNumeric ? undefined : text}
      >
        {text}
      </span>
    </>
  );
}
