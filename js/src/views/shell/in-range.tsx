/** A view as the kernel computes it for the chosen range of time. */

import type { ComponentChild } from "preact";
import type { LateView } from "../../state/python-sync";
import type { ViewHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { useRanged } from "../common/ranged";
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
  const range = followsRange(report, view) ? null : report.store.range.value;
  const { latest, found, shown } = useRanged(report, whole, range);
  const state = found === null ? latest?.state.value : null;
  if (state?.kind === "failed") {
    const retry = () => latest?.retry();
    return <Waiting report={report} view={view} message={state.message} onRetry={retry} />;
  }
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
