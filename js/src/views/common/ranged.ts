/** A view as far as the kernel has computed it for a range of time. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import type { Latest } from "../../state/latest";
import type { LateView } from "../../state/python-sync";
import type { Part } from "../../wire/pull";
import type { ReportContext } from "./context";

export interface Ranged {
  /** null for a view that nothing can compute for a range. */
  readonly latest: Latest<Part, LateView> | null;
  /** null until the answer is there. */
  readonly found: LateView | null;
  /** What was found, or until then what was shown before. */
  readonly shown: LateView;
}

/** Asks for a view in a range, if the kernel can compute that; without a range it is the whole. */
export function useRanged(report: ReportContext, whole: LateView, range: Span<Ns> | null): Ranged {
  const latest = report.source.ranged(whole.view);
  const part = useMemo<Part | null>(
    () => range && { start_ns: range.start, end_ns: range.end },
    [range?.start, range?.end],
  );
  useEffect(() => latest?.want(part), [latest, part]);
  const before = useRef<LateView>(null);
  const found = latest === null || part === null ? whole : latest.answerTo(part);
  if (found !== null) before.current = found;
  return { latest, found, shown: found ?? before.current ?? whole };
}
