/** The slices in the window of a timeline as a table for screen readers. */

import { formatNs } from "../../base/format";
import { largestOf } from "../../base/largest";
import { measureText } from "../../base/measure";
import { phaseTitle } from "../../base/palette";
import { curveOf, rangeIn } from "../../layout/curve";
import { countIn, firstEnding, firstStarting } from "../../layout/slice-index";
import { wordAt } from "../../wire/frame";
import { MOST_SPOKEN, type SpokenRows, SpokenTable } from "../common/spoken-table";
import type { TimelineMoves } from "./timeline-moves";
import { laneTitle, titleOf, whenOf } from "./timeline-words";

interface TimelineTableProps {
  readonly id: string;
  readonly moves: TimelineMoves;
}

export function TimelineTable({ id, moves }: TimelineTableProps) {
  const { start, end } = moves.span;
  const hasCounters = moves.overview.view.lanes.some(({ kind }) => kind === "counter");
  return (
    <>
      <SpokenTable
        id={id}
        caption="Slices in the window, lane by lane"
        head={["Lane", "Name", "Phase", "Takes", "Begins"]}
        make={() => spokenSlices(moves)}
        when={[moves.model, start, end, moves.layer]}
      />
      {hasCounters && (
        <SpokenTable
          id={`${id}-counters`}
          caption="Counters in the window"
          head={["Name", "Lane", "Least", "Most"]}
          make={() => spokenCounters(moves)}
          when={[moves.model, start, end]}
        />
      )}
    </>
  );
}

function spokenCounters({ model, span }: TimelineMoves): SpokenRows {
  const rows = model.view.lanes.flatMap(({ kind, title, group, scale }, lane) => {
    const row = kind === "counter" ? model.ops.ofLane[lane]?.[0] : undefined;
    if (row === undefined || scale === null) return [];
    const found = rangeIn(model.ops, row, span, curveOf(model.ops, row, model.count));
    if (found === null) return [];
    // Of merged values, only the highest is known.
    const isExact = countIn(model.ops, row.first, row.last) === row.last - row.first;
    const least = isExact ? measureText(scale, found.least) : "";
    return [[title, group, least, measureText(scale, found.most)]];
  });
  return { count: rows.length, rows };
}

function spokenSlices(moves: TimelineMoves): SpokenRows {
  const { model } = moves;
  const rows = rowsInWindow(moves);
  const longest = largestOf(rows, MOST_SPOKEN, (row) => model.dur[row] ?? 0);
  return {
    count: rows.length,
    // Rows of the frame are sorted by lane and start.
    rows: longest
      .toSorted((a, b) => a - b)
      .map((row) => {
        const phase = wordAt(model.phases, row);
        return [
          laneTitle(model, row),
          titleOf(model, row),
          phase === "" ? "" : phaseTitle(phase),
          formatNs(model.dur[row] ?? 0),
          whenOf(model, row),
        ];
      }),
  };
}

/** The slices of the shown layer that overlap the window; queues and counters have values, not slices. */
function rowsInWindow({ model, index, span }: TimelineMoves): Int32Array {
  const parts = index.rows.flatMap((row) => {
    const kind = model.view.lanes[row.lane]?.kind;
    if (kind === "queue" || kind === "counter") return [];
    const first = firstEnding(index, row, span.start);
    return [index.row.subarray(first, firstStarting(index, row, span.end))];
  });
  const rows = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    rows.set(part, at);
    at += part.length;
  }
  return rows;
}
