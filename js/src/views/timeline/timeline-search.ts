/** Slices by name: the matches of a search, in order of time. */

import { wordsMatching } from "../../wire/frame";
import type { TimelineModel } from "./timeline-model";

export interface SliceMatches {
  /** 1 for each name key that matches. */
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

/** The slices of which the name matches; null without a query. */
export function searchSlices(
  model: TimelineModel,
  layer: string,
  query: string,
): SliceMatches | null {
  const isMatch = wordsMatching(model.names, query);
  if (isMatch === null) return null;
  const isSearched = Uint8Array.from(model.kinds.words, (kind) => Number(SEARCHED.includes(kind)));
  const index = model.index(layer);
  const found: number[] = [];
  let time = 0;
  for (const row of index.row) {
    const isHit = isMatch[model.names.keys[row] ?? -1] === 1;
    if (!isHit || isSearched[model.kinds.keys[row] ?? -1] !== 1) continue;
    found.push(row);
    time += model.dur[row] ?? 0;
  }
  const rows = Int32Array.from(found).sort((a, b) => (model.start[a] ?? 0) - (model.start[b] ?? 0));
  return { isMatch, rows, ns: time };
}
