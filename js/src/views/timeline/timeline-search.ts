/** Slices by name, cause and duration: the matches of a search, in order of time. */

import { mergeRuns } from "../../layout/merge-runs";
import { wordsMatching } from "../../wire/frame";
import { parseNumber } from "../table/grid-filter";
import type { TimelineModel } from "./timeline-model";

export interface SliceMatches {
  /** 1 for each row of the frame that matches. */
  readonly isMatch: Uint8Array;
  readonly count: number;
  /** Their summed time. */
  readonly ns: number;
  /** Rows of the frame, in order of time; ordered on the first call, as nobody steps through them while typing. */
  rows(): Int32Array;
}

const SEARCHED = [
  "annotation",
  "op",
  "python",
  "line",
  "module",
  "runtime",
  "blocking",
  "kernel",
  "memcpy",
  "memset",
];
const LONGER_OR_SHORTER = /(^|\s)(?:dur(?:ation)?)?(>=|<=|>|<)\s*([\d.,]+\s*[a-zµ]*)(?=\s|$)/gi;
const WAITS = /^(wait|waits|waiting|idle)\b:?\s*/i;

export interface SliceQuery {
  readonly text: string;
  readonly isWait: boolean;
  readonly least: number;
  readonly most: number;
}

/** `mm >1ms`, `wait >1ms`, `/gemm.*bf16/ <20us`: what a name has, and between which durations it is. */
export function parseQuery(query: string): SliceQuery {
  let least = 0;
  let most = Number.POSITIVE_INFINITY;
  const rest = query.replace(LONGER_OR_SHORTER, (whole, _space, sign: string, size: string) => {
    const limit = parseNumber(size, "ns");
    if (limit === null) return whole;
    if (sign.startsWith(">")) least = Math.max(least, limit);
    else most = Math.min(most, limit);
    return " ";
  });
  const text = rest.trim();
  return { text: text.replace(WAITS, ""), isWait: WAITS.test(text), least, most };
}

/** The slices that a search finds; null without a query. */
export function searchSlices(
  model: TimelineModel,
  layer: string,
  query: string,
): SliceMatches | null {
  if (query.trim() === "") return null;
  const wanted = parseQuery(query);
  const isMatch = new Uint8Array(model.frame.rows);
  const byName = wordsMatching(model.names, wanted.text);
  if (!wanted.isWait) markNamed(model, layer, wanted, byName, isMatch);
  markWaits(model, wanted, byName, isMatch);
  let count = 0;
  let time = 0;
  for (let row = 0; row < isMatch.length; row += 1) {
    if (isMatch[row] !== 1) continue;
    count += 1;
    time += model.dur[row] ?? 0;
  }
  let inOrder: Int32Array | undefined;
  const rows = () => {
    inOrder ??= rowsInOrder(model, layer, isMatch);
    return inOrder;
  };
  return { isMatch, count, ns: time, rows };
}

function rowsInOrder(model: TimelineModel, layer: string, isMatch: Uint8Array): Int32Array {
  const index = model.index(layer);
  const runs = index.rows.map(({ first, last }) =>
    index.row.subarray(first, last).filter((row) => isMatch[row] === 1),
  );
  return mergeRuns(
    runs.filter((run) => run.length > 0),
    model.start,
  );
}

function markNamed(
  model: TimelineModel,
  layer: string,
  { least, most }: SliceQuery,
  byName: Uint8Array | null,
  isMatch: Uint8Array,
): void {
  const { names, kinds, dur } = model;
  const isSearched = Uint8Array.from(kinds.words, (kind) => Number(SEARCHED.includes(kind)));
  const { row: rows } = model.index(layer);
  for (let at = 0; at < rows.length; at += 1) {
    const row = rows[at] ?? -1;
    if (byName !== null && byName[names.keys[row] ?? -1] !== 1) continue;
    const time = dur[row] ?? 0;
    if (time < least || time > most || isSearched[kinds.keys[row] ?? -1] !== 1) continue;
    isMatch[row] = 1;
  }
}

/** One wait of each gap that is as long as asked for: the longest whose cause, op or function matches. */
function markWaits(
  model: TimelineModel,
  { text, least, most }: SliceQuery,
  byName: Uint8Array | null,
  isMatch: Uint8Array,
): void {
  const { names, notes, dur } = model;
  // A wait is called by its cause, which its note begins with.
  const byNote = wordsMatching(notes, text);
  const isHit = (row: number) =>
    byName === null || byName[names.keys[row] ?? -1] === 1 || byNote?.[notes.keys[row] ?? -1] === 1;
  for (const { start, end, rows } of model.devices.flatMap((device) => device.gaps())) {
    if (end - start < least || end - start > most) continue;
    let longest = -1;
    for (const row of rows) {
      const isLonger = longest < 0 || (dur[row] ?? 0) > (dur[longest] ?? 0);
      if (isLonger && isHit(row)) longest = row;
    }
    if (longest >= 0) isMatch[longest] = 1;
  }
}
