/** The table of the ranks: the bar of each, and the numbers beside it. */

import { decimalsIn, formatCount, formatNs } from "../../base/format";
import { phaseColor, type Theme } from "../../base/palette";
import { type Frame, numberAt } from "../../wire/frame";
import type { ColumnHeader, RankBarsHeader } from "../../wire/header";
import { Button } from "../common/button";
import { Digits, percent } from "../common/parts";

/** The rows of the table, and what can be done with them. */
export interface RankList {
  readonly frame: Frame;
  readonly bars: RankBarsHeader;
  readonly rows: readonly number[];
  /** The columns of the numbers beside the bars. */
  readonly columns: readonly ColumnHeader[];
  /** The step time that takes the whole width. */
  readonly longest: number;
  readonly look: { readonly suffix: string; format(value: number): string };
  readonly theme: Theme;
  /** The row that is chosen, -1 for none. */
  readonly chosen: number;
  readonly canOpen: boolean;
  /** Opens the report of a rank. */
  open(row: number): void;
  /** Chooses a row, or none if it is the chosen one. */
  choose(row: number): void;
  /** Describes a row in the footer. */
  describe(row: number | null): void;
}

interface TableProps {
  readonly list: RankList;
}

interface RowProps extends TableProps {
  readonly row: number;
}

export function RankTable({ list }: TableProps) {
  return (
    <table class="tp-rank-table">
      <Head list={list} />
      <tbody>
        {list.rows.map((row) => (
          <Row key={numberAt(list.frame, list.bars.number, row)} list={list} row={row} />
        ))}
      </tbody>
    </table>
  );
}

function Head({ list }: TableProps) {
  const { bars, columns, look, theme, canOpen } = list;
  return (
    <thead>
      <tr>
        <th scope="col">Rank</th>
        <th scope="col">
          <ul class="tp-legend" aria-label="Legend">
            {bars.parts.map((part) => (
              <li key={part.column}>
                <span class="tp-dot" style={{ background: fillOf(part.look, theme) }} />
                {part.title}
              </li>
            ))}
          </ul>
        </th>
        {columns.map((column, at) => (
          <th
            key={column.name}
            scope="col"
            class={minorClass(at, columns.length)}
            title={column.definition}
          >
            {column.title}
            {at === 0 && ` ${look.suffix}`}
          </th>
        ))}
        {canOpen && <td />}
      </tr>
    </thead>
  );
}

function Row({ list, row }: RowProps) {
  const { frame, bars, columns, chosen, canOpen } = list;
  const rank = numberAt(frame, bars.number, row);
  const isLate = numberAt(frame, bars.late, row) === 1;
  return (
    <tr
      data-tp-rank={rank}
      class={`${isLate ? "tp-late" : ""} ${chosen === row ? "tp-chosen" : ""}`}
      onClick={() => list.choose(row)}
      onDblClick={() => canOpen && list.open(row)}
      onMouseEnter={() => list.describe(row)}
      onMouseLeave={() => list.describe(null)}
    >
      <th scope="row">
        <Button
          class="tp-rank-name"
          aria-pressed={chosen === row}
          onFocus={() => list.describe(row)}
          onBlur={() => list.describe(null)}
          onKey={(event) => actOnKey(event, list, row)}
        >
          rank {rank}
          {isLate && <span title="late"> ▲</span>}
        </Button>
      </th>
      <td>
        <Bar list={list} row={row} />
      </td>
      {columns.map((column, at) => (
        <td key={column.name} class={minorClass(at, columns.length)}>
          {column.name === "caused_wait_ns" && <Caused list={list} row={row} />}
          <Digits text={textAt(list, column, row)} decimals={decimalsOf(list, column)} />
        </td>
      ))}
      {canOpen && (
        <td>
          <OpenButton list={list} row={row} rank={rank} />
        </td>
      )}
    </tr>
  );
}

function Bar({ list, row }: RowProps) {
  const { frame, bars, longest, theme } = list;
  const parts = bars.parts.map(({ column }) => Math.max(numberAt(frame, column, row) || 0, 0));
  const whole = Math.max(
    numberAt(frame, bars.total, row),
    parts.reduce((sum, ns) => sum + ns, 0),
  );
  const spoken = bars.parts.map(
    ({ column, title }) => `${title} ${formatNs(numberAt(frame, column, row))}`,
  );
  return (
    <span
      class="tp-rank-bar"
      style={{ width: percent(whole / longest) }}
      role="img"
      aria-label={spoken.join(", ")}
    >
      {bars.parts.map(({ column, look }, at) => (
        <span
          key={column}
          style={{
            width: percent((parts[at] ?? 0) / whole),
            background: fillOf(look, theme),
          }}
        />
      ))}
    </span>
  );
}

/** How long the others wait for a rank, as a bar on a scale of its own: that of the late one is the longest. */
function Caused({ list: { frame, rows }, row }: RowProps) {
  const [ns = 0, ...others] = [row, ...rows].map((each) => numberAt(frame, "caused_wait_ns", each));
  const most = Math.max(...others);
  return (
    <span class="tp-bar-track tp-caused">
      <span class="tp-bar" style={{ width: percent(most > 0 ? ns / most : 0) }} />
    </span>
  );
}

function OpenButton({ list, row, rank }: RowProps & { readonly rank: number }) {
  return (
    <Button
      class="tp-button"
      tabIndex={-1}
      aria-label={`Open the report of rank ${rank}`}
      title="Open its report (Enter)"
      onClick={(event) => {
        event.stopPropagation();
        list.open(row);
      }}
    >
      ›
    </Button>
  );
}

function actOnKey(event: KeyboardEvent, list: RankList, row: number): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (event.key === "Enter" && list.canOpen) {
    list.open(row);
    event.preventDefault();
  } else if (event.key === "Escape" && list.chosen >= 0) list.choose(list.chosen);
  else if (step !== 0) {
    const from = event.currentTarget as HTMLElement;
    const names = from.closest("tbody")?.querySelectorAll<HTMLElement>(".tp-rank-name");
    const buttons = Array.from(names ?? []);
    buttons[buttons.indexOf(from) + step]?.focus();
    event.preventDefault();
  }
}

/** In a narrow view the first number stays, and the last, which says who is late; that before it goes after the rest. */
function minorClass(at: number, count: number): string {
  if (at === 0) return "tp-rank-main";
  return at === count - 1 ? "" : at < count - 2 ? "tp-rank-minor" : "tp-rank-number";
}

function textAt({ frame, look }: RankList, { name, unit }: ColumnHeader, row: number): string {
  const value = numberAt(frame, name, row);
  return unit === "ns" ? look.format(value) : formatCount(value);
}

/** The decimals of a column, at whose point its 0 stands, too. */
function decimalsOf({ look, longest }: RankList, { unit }: ColumnHeader): number {
  return unit === "ns" ? decimalsIn(look.format(longest)) : 0;
}

/** How a part of a bar is filled. Waiting is hatched, in every view. */
function fillOf(look: string, theme: Theme): string {
  if (look === "waiting") {
    // A tile, because lines of a repeated gradient beat with the pixels.
    const line = "var(--tp-muted)";
    return `linear-gradient(135deg, ${line} 8%, transparent 9% 50%, ${line} 51% 58%, transparent 59%) 0 0 / 7px 7px`;
  }
  if (look === "both") {
    const [one, other] = [phaseColor("forward", theme), phaseColor("communication", theme)];
    return `repeating-linear-gradient(90deg, ${one} 0 2px, ${other} 2px 4px)`;
  }
  return phaseColor(look, theme);
}
