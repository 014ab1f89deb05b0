/** The ranks of a job: a bar each on one scale, and what each waits in the collectives with the most waiting. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { columnFormat, formatCount, formatNs, plural } from "../../base/format";
import { phaseColor, type Theme } from "../../base/palette";
import { numberAt, rowsOf } from "../../wire/frame";
import type { ColumnHeader, RankBarsHeader } from "../../wire/header";
import type { TableProps } from "../common/context";
import { focusable } from "../common/focusable";
import { percent, Segmented, Tools } from "../common/parts";
import { Cards } from "../overview/cards";
import { Waits } from "./waits";

// More are shown on request: a page of a thousand rows is slow, and says little.
const MOST_ROWS = 64;
const ORDERS = [
  { name: "number", title: "By rank" },
  { name: "total", title: "By step time" },
  { name: "caused_wait_ns", title: "Most waited for" },
];

type Props = TableProps & { readonly bars: RankBarsHeader };

export function RanksView({ report, view, frame, bars }: Props) {
  const order = useSignal("number");
  const showsAll = useSignal(false);
  const opening = useSignal("");
  const chosen = useSignal(-1);
  const { theme } = report.look.value;
  const key = order.value === "total" ? bars.total : order.value === "number" ? "" : order.value;
  const sorted = rowsOf(frame).toSorted((a, b) =>
    key === "" ? a - b : numberAt(frame, key, b) - numberAt(frame, key, a),
  );
  const rows = showsAll.value ? sorted : sorted.slice(0, MOST_ROWS);
  const longest = Math.max(...sorted.map((row) => numberAt(frame, bars.total, row)));
  const columns = bars.beside.flatMap((name) => view.columns.filter((each) => each.name === name));
  const look = columnFormat("ns", longest);
  const open = (rank: number) => {
    opening.value = `Opening rank ${rank}…`;
    void report.source.openRank(rank).then((opened) => {
      opening.value = opened.ok ? "" : opened.message;
    });
  };
  const say = (row: number | null) => {
    report.store.hover.value = row === null ? null : itemOf(row);
  };
  const itemOf = (row: number) => ({
    name: `rank ${numberAt(frame, bars.number, row)}`,
    isCode: false,
    phase: "",
    // The length of the bar is seen.
    facts: columns
      .slice(1)
      .map((column) => `${column.title} ${formatNs(numberAt(frame, column.name, row))}`),
  });
  const spoken = (row: number) =>
    bars.parts
      .map(({ column, title }) => `${title} ${formatNs(numberAt(frame, column, row))}`)
      .join(", ");
  const choose = (row: number) => {
    chosen.value = chosen.value === row ? -1 : row;
    report.store.note.value = chosen.value < 0 ? null : itemOf(row);
  };
  const onKey = (event: KeyboardEvent, row: number) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.key === "Enter" && report.source.canAnswer) {
      open(numberAt(frame, bars.number, row));
      event.preventDefault();
    } else if (event.key === "Escape" && chosen.value >= 0) choose(chosen.value);
    else if (step !== 0) {
      const list = (event.currentTarget as HTMLElement).closest("tbody");
      const buttons = Array.from(list?.querySelectorAll<HTMLElement>(".tp-rank-name") ?? []);
      buttons[buttons.indexOf(event.currentTarget as HTMLElement) + step]?.focus();
      event.preventDefault();
    }
  };
  useEffect(
    () => () => {
      report.store.note.value = null;
    },
    [],
  );
  const numbers = rows.map((row) => numberAt(frame, bars.number, row));
  return (
    <div class="tp-view">
      <Tools>
        <Segmented
          label="Order"
          options={ORDERS}
          chosen={order.value}
          onChoose={(name) => {
            order.value = name;
          }}
        />
        <span class="tp-tools-note" role="status">
          {opening.value === ""
            ? `a step · every bar on one scale, 0–${look.format(longest)} ${look.suffix}`
            : opening.value}
        </span>
      </Tools>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so it must be reachable by keyboard. */}
      <div class="tp-ranks" tabIndex={0} {...focusable()}>
        <table class="tp-rank-table">
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
                <th key={column.name} scope="col" class={minorClass(at)} title={column.definition}>
                  {column.title}
                  {at === 0 && ` ${look.suffix}`}
                </th>
              ))}
              {report.source.canAnswer && <td />}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => {
              const rank = numberAt(frame, bars.number, row);
              const isLate = numberAt(frame, bars.late, row) === 1;
              return (
                <tr
                  key={rank}
                  data-tp-rank={rank}
                  class={`${isLate ? "tp-late" : ""} ${chosen.value === row ? "tp-chosen" : ""}`}
                  onClick={() => choose(row)}
                  onDblClick={() => report.source.canAnswer && open(rank)}
                  onMouseEnter={() => say(row)}
                  onMouseLeave={() => say(null)}
                >
                  <th scope="row">
                    <button
                      type="button"
                      class="tp-rank-name"
                      aria-pressed={chosen.value === row}
                      onFocus={() => say(row)}
                      onBlur={() => say(null)}
                      {...focusable((event) => onKey(event, row))}
                    >
                      rank {rank}
                      {isLate && <span title="late"> ▲</span>}
                    </button>
                  </th>
                  <td>
                    <span
                      class="tp-rank-bar"
                      style={{ width: percent(numberAt(frame, bars.total, row) / longest) }}
                      role="img"
                      aria-label={spoken(row)}
                    >
                      {bars.parts.map((part) => (
                        <span
                          key={part.column}
                          style={{
                            flexGrow: Math.max(numberAt(frame, part.column, row), 0),
                            background: fillOf(part.look, theme),
                          }}
                        />
                      ))}
                    </span>
                  </td>
                  {columns.map((column, at) => (
                    <td key={column.name} class={minorClass(at)}>
                      {cell(column, numberAt(frame, column.name, row), look.format)}
                    </td>
                  ))}
                  {report.source.canAnswer && (
                    <td>
                      <button
                        type="button"
                        class="tp-button"
                        tabIndex={-1}
                        aria-label={`Open the report of rank ${rank}`}
                        title="Open its report (Enter)"
                        onClick={(event) => {
                          event.stopPropagation();
                          open(rank);
                        }}
                        {...focusable()}
                      >
                        ›
                      </button>
                    </td>
                  )}
                </tr>
              );
            })}
          </tbody>
        </table>
        {sorted.length > rows.length && (
          <button
            type="button"
            class="tp-button tp-rank-more"
            onClick={() => {
              showsAll.value = true;
            }}
            {...focusable()}
          >
            Show all {plural(sorted.length, "rank")}
          </button>
        )}
        <Cards report={report} cards={bars.cards} />
        {bars.waits !== "" && <Waits report={report} name={bars.waits} ranks={numbers} />}
      </div>
    </div>
  );
}

/** The first number stays in a narrow view, and the last two longer than those between. */
function minorClass(at: number): string {
  return at === 0 ? "tp-rank-main" : at < 3 ? "tp-rank-minor" : "tp-rank-number";
}

function cell(column: ColumnHeader, value: number, format: (value: number) => string): string {
  return column.unit === "ns" ? format(value) : formatCount(value);
}

/** How a part of a bar is filled. Waiting is hatched, in every view. */
function fillOf(look: string, theme: Theme): string {
  if (look === "idle") {
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
