/** Says which range of time the views show, and shows everything again. */

import { formatNs } from "../../base/format";
import { type ReportContext, shownView } from "../common/context";
import { focusable } from "../common/focusable";
import { canFollowRange } from "../table/range-table";
import { isChosen, stepsOf } from "../verdict/steps";

export function RangeBar({ report }: { readonly report: ReportContext }) {
  const { range } = report.store;
  if (range.value === null) return null;
  const bars = stepsOf(report);
  const step = bars.find((bar) => isChosen(report.store, bar));
  const { start, end } = range.value;
  const around = bars.find((bar) => bar.start_ns <= start && start < bar.start_ns + bar.dur_ns);
  const from = formatNs(start - (around?.start_ns ?? 0));
  const place = around === undefined ? `from ${from}` : `from ${from} into step ${around.number}`;
  return (
    <p class="tp-range-bar" role="status">
      <span>
        {step === undefined
          ? `Range of ${formatNs(end - start)}, ${place}`
          : `Step ${step.number}, ${formatNs(end - start)}`}
      </span>
      {!follows(report) && <span class="tp-range-note">This view shows all steps.</span>}
      <button
        type="button"
        class="tp-button"
        onClick={() => {
          range.value = null;
        }}
        {...focusable()}
      >
        Show all steps
      </button>
    </p>
  );
}

/** Whether the shown view shows only the range. */
function follows(report: ReportContext): boolean {
  const view = shownView(report);
  if (view === undefined) return false;
  if (view.shape === "table") return canFollowRange(report, view);
  return view.shape === "slices" || view.shape === "series";
}
