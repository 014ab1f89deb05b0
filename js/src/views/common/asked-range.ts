/** What the kernel counts in a range: why devices wait, and the tables that follow it. */

import { useEffect } from "preact/hooks";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import type { Latest } from "../../state/latest";
import type { LateView } from "../../state/python-sync";
import type { Part } from "../../wire/pull";
import type { LaneSum, RangeQuestion } from "../../wire/questions";

/** Why devices wait in a range; null before the answer is there, or where the page counts itself. */
export function useAskedSums(
  latest: Latest<RangeQuestion, readonly LaneSum[]> | null,
  { start, end }: Span<Ns>,
): readonly LaneSum[] | null {
  const question = { kind: "range", start_ns: start, end_ns: end } as const;
  useEffect(() => latest?.want(question), [latest, start, end]);
  return latest?.answerTo(question) ?? null;
}

/** A view in a range; null before it is there, or where the page counts itself. */
export function useAskedView(
  latest: Latest<Part, LateView> | null,
  { start, end }: Span<Ns>,
): LateView | null {
  const part = { start_ns: start, end_ns: end };
  useEffect(() => latest?.want(part), [latest, start, end]);
  return latest?.answerTo(part) ?? null;
}
