/** The ranks of a job: a bar each on one scale, and what each waits in the collectives with the most waiting. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { columnFormat, formatNs, plural } from "../../base/format";
import { type Frame, numberAt, rowsOf } from "../../wire/frame";
import type { RankBarsHeader } from "../../wire/header";
import { Button } from "../common/button";
import type { TableProps } from "../common/context";
import { focusable } from "../common/focusable";
import { Segmented, Tools } from "../common/parts";
import { Cards, numberedCards } from "../overview/cards";
import { type RankList, RankTable } from "./rank-table";
import { Waits } from "./waits";

// More are shown on request: a page of a thousand rows is slow, and says little.
const MOST_ROWS = 64;
const ROWS_IN_SIGHT = 16;
const ORDERS = [
  { name: "number", title: "By rank" },
  { name: "total", title: "By step time" },
  { name: "caused_wait_ns", title: "Most waited for" },
];

type Props = TableProps & { readonly bars: RankBarsHeader };

export function RanksView(props: Props) {
  const { report, frame, bars } = props;
  const order = useSignal(firstOrder(frame, bars));
  const showsAll = useSignal(false);
  const opening = useSignal("");
  const sorted = sortedRows(frame, bars, order.value);
  const rows = showsAll.value ? sorted : sorted.slice(0, MOST_ROWS);
  const longest = Math.max(...sorted.map((row) => numberAt(frame, bars.total, row)));
  const list = useRankList(props, rows, longest, (said) => {
    opening.value = said;
  });
  const ranks = rows.map((row) => numberAt(frame, bars.number, row));
  const hasSteps = rows.some((row) => numberAt(frame, "steps", row) > 0);
  const scale = `${hasSteps ? "per step" : "in all"} · every bar on one scale, 0–${list.look.format(longest)} ${list.look.suffix}`;
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
          {opening.value || scale}
        </span>
      </Tools>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so it must be reachable by keyboard. */}
      <div class="tp-ranks" tabIndex={0} {...focusable()}>
        <RankTable list={list} />
        {sorted.length > rows.length && (
          <Button
            class="tp-button tp-rank-more"
            onClick={() => {
              showsAll.value = true;
            }}
          >
            Show all {plural(sorted.length, "rank")}
          </Button>
        )}
        <Cards report={report} cards={numberedCards(bars.cards)} first={[]} hasSteps={hasSteps} />
        {bars.waits !== "" && <Waits report={report} name={bars.waits} ranks={ranks} />}
      </div>
    </div>
  );
}

/** By rank, where that shows the late one without scrolling. */
function firstOrder(frame: Frame, bars: RankBarsHeader): string {
  const late = rowsOf(frame).findIndex((row) => numberAt(frame, bars.late, row) === 1);
  return late < ROWS_IN_SIGHT ? "number" : "caused_wait_ns";
}

function sortedRows(frame: Frame, bars: RankBarsHeader, order: string): readonly number[] {
  if (order === "number") return rowsOf(frame);
  const key = order === "total" ? bars.total : order;
  return rowsOf(frame).toSorted((a, b) => numberAt(frame, key, b) - numberAt(frame, key, a));
}

/** The rows with what can be done with them; `onOpening` is told how the opening of a rank goes. */
function useRankList(
  { report, view, frame, bars }: Props,
  rows: readonly number[],
  longest: number,
  onOpening: (said: string) => void,
): RankList {
  const chosen = useSignal(-1);
  const { note, hover } = report.store;
  const columns = bars.beside.flatMap((name) => view.columns.filter((each) => each.name === name));
  const itemOf = (row: number) => ({
    name: `rank ${numberAt(frame, bars.number, row)}`,
    isCode: false,
    phase: "",
    // The length of the bar is seen.
    facts: columns
      .slice(1)
      .map(({ title, name }) => `${title} ${formatNs(numberAt(frame, name, row))}`),
  });
  useEffect(
    () => () => {
      note.value = null;
    },
    [],
  );
  return {
    frame,
    bars,
    rows,
    columns,
    longest,
    look: columnFormat("ns", longest),
    theme: report.look.value.theme,
    chosen: chosen.value,
    canOpen: report.source.canAnswer,
    open(row) {
      const rank = numberAt(frame, bars.number, row);
      onOpening(`Opening rank ${rank}…`);
      void report.source
        .openRank(rank)
        .then((opened) => onOpening(opened.ok ? "" : opened.message));
    },
    choose(row) {
      chosen.value = chosen.value === row ? -1 : row;
      note.value = chosen.value < 0 ? null : itemOf(row);
    },
    describe(row) {
      hover.value = row === null ? null : itemOf(row);
    },
  };
}
