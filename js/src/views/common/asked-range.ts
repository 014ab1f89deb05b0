/** What runs in a range of a timeline that the page has only parts of: the kernel counts it. */

import { useEffect } from "preact/hooks";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import type { Latest } from "../../state/latest";
import type { RangeAnswer } from "../../state/slice-source";
import type { RangeQuestion } from "../../wire/questions";

/** The answer for a range; null before it is there, or where the page counts itself. */
export function useAskedRange(
  latest: Latest<RangeQuestion, RangeAnswer> | null,
  { start, end }: Span<Ns>,
  hasTables: boolean,
): RangeAnswer | null {
  const question = { kind: "range", start_ns: start, end_ns: end, has_tables: hasTables } as const;
  useEffect(() => latest?.want(question), [latest, start, end, hasTables]);
  return latest?.answerTo(question) ?? null;
}
