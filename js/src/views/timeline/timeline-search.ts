/** Slices by name, cause and duration: the matches of a search, in order of time. */

import { wordsMatching } from "../../wire/frame";
import { parseNumber } from "../table/grid-filter";
import type { TimelineModel } from "./timeline-model";

export interface SliceMatches {
  /** 1 for each row of the frame that matches. */
  readonly isMatch: Uint8Array;
  /** Rows of the frame, in order of time. */
  readonly rows: Int32Array;
  /** Their summed time. */
  readonly ns: number;
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
  const { text, isWait, least, most } = parseQuery(query);
  const found = isWait ? [] : namedSlices(model, layer, text, least, most);
  found.push(...waitsIn(model, text, least, most));
  const isMatch = new Uint8Array(model.frame.rows);
  let time = 0;
  for (const row of found) {
    isMatch[row] = 1;
    time += model.dur[row] ?? 0;
  }
  const rows = Int32Array.from(found).sort((a, b) => (model.start[a] ?? 0) - (model.start[b] ?? 0));
  return { isMatch, rows, ns: time };
}

function namedSlices(
  model: TimelineModel,
  layer: string,
  text: string,
  least: number,
  most: number,
): number[] {
  const byName = wordsMatching(model.names, text);
  const isSearched = Uint8Array.from(model.kinds.words, (kind) => Number(SEARCHED.includes(kind)));
  const found: number[] = [];
  for (const row of model.index(layer).row) {
    const dur = model.dur[row] ?? 0;
    if (isSearched[model.kinds.keys[row] ?? -1] !== 1 || dur < least || dur > most) continue;
    if (byName === null || byName[model.names.keys[row] ?? -1] === 1) found.push(row);
  }
  return found;
}

/** One wait of each gap that is as long as asked for: the longest whose cause, op or function matches. */
function waitsIn(model: TimelineModel, text: string, least: number, most: number): number[] {
  const byName = wordsMatching(model.names, text);
  // A wait is called by its cause, which its note begins with.
  const byNote = wordsMatching(model.notes, text);
  const isHit = (row: number) =>
    byName === null ||
    byName[model.names.keys[row] ?? -1] === 1 ||
    byNote?.[model.notes.keys[row] ?? -1] === 1;
  return model.devices.flatMap((device) =>
    device.gaps().flatMap(({ start, end, rows }) => {
      if (end - start < least || end - start > most) return [];
      const hits = rows.filter(isHit);
      const longest = hits.toSorted((a, b) => (model.dur[b] ?? 0) - (model.dur[a] ?? 0))[0];
      return longest === undefined ? [] : [longest];
    }),
  );
}
