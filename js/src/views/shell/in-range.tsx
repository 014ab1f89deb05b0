/** A view as the kernel computes it for the chosen range of time. */

import type { ComponentChild } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { LateView } from "../../state/python-sync";
import type { ViewHeader } from "../../wire/header";
import type { Part } from "../../wire/pull";
import type { ReportContext } from "../common/context";
import { IN_TIME } from "../flame/flame";
import { canCountRange } from "../table/range-table";
import { Waiting } from "./with-frame";

/** Whether the page itself shows only the chosen range in a view. */
export function followsRange(report: ReportContext, view: ViewHeader): boolean {
  if (view.shape === "table") return canCountRange(report, view);
  const isInTime = view.shape === "tree" && report.store.choice(view).value === IN_TIME;
  return isInTime || view.shape === "slices" || view.shape === "series";
}

interface InRangeProps {
  readonly report: ReportContext;
  readonly whole: LateView;
  readonly children: (shown: LateView) => ComponentChild;
}

/** Shows the view in the chosen range, if the kernel can compute that; until it is there, what was shown before. */
export function InRange({ report, whole, children }: InRangeProps) {
  const { view } = whole;
  const latest = report.source.ranged(view);
  const range = followsRange(report, view) ? null : report.store.range.value;
  const part = useMemo<Part | null>(
    () => range && { start_ns: range.start, end_ns: range.end },
    [range?.start, range?.end],
  );
  useEffect(() => latest?.want(part), [latest, part]);
  const before = useRef<LateView>(null);
  const isWhole = latest === null || part === null;
  const found = isWhole ? whole : latest.answerTo(part);
  if (found !== null) before.current = found;
  const state = isWhole ? null : latest.state.value;
  if (found === null && state?.kind === "failed") {
    const retry = () => latest?.retry();
    return <Waiting report={report} view={view} message={state.message} onRetry={retry} />;
  }
  const shown = found ?? before.current ?? whole;
  if (latest === null) return <>{children(shown)}</>;
  if (shown.view.empty !== null) {
    return <Waiting report={report} view={view} message={shown.view.empty} />;
  }
  return (
    <div class="tp-in-range" aria-busy={found === null}>
      {children(shown)}
    </div>
  );
}
