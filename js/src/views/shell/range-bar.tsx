/** Says which range of time the views show, and shows everything again. */

import { formatNs, whenIn } from "../../base/format";
import type { StepBar } from "../../layout/step-bars";
import { Button } from "../common/button";
import { type ReportContext, shownView } from "../common/context";
import { CountedSwitch } from "../verdict/step-chart";
import { isChosen, stepsOf, toggleStep } from "../verdict/steps";
import { followsRange } from "./in-range";
import { WhatIf } from "./what-if";

export function RangeBar({ report }: { readonly report: ReportContext }) {
  const { range } = report.store;
  if (range.value === null) return null;
  const bars = stepsOf(report);
  const step = bars.find((bar) => isChosen(report.store, bar));
  const { start, end } = range.value;
  const around = bars.find((bar) => bar.start_ns <= start && start < bar.start_ns + bar.dur_ns);
  const note = noteOn(report);
  const from =
    around === undefined ? formatNs(start) : whenIn(start - around.start_ns, around.number);
  return (
    <p class="tp-range-bar" role="status">
      <span>
        {step === undefined
          ? `Range of ${formatNs(end - start)}, from ${from}`
          : `Step ${step.number}, ${formatNs(end - start)}`}
      </span>
      <span class="tp-left-out-reason">
        {step?.leftOut && `does not count: ${step.leftOut} `}
        {report.store.counting.value}
      </span>
      {note !== "" && <span class="tp-range-note">{note}</span>}
      <Button
        class="tp-button"
        onClick={() => {
          range.value = null;
        }}
      >
        Show all steps
      </Button>
      <WhatIf key={`${start} ${end}`} report={report} name={[Math.round(start), Math.round(end)]} />
      {step !== undefined && <CountedSwitch report={report} bar={step} bars={bars} />}
      {step !== undefined && <StepWalk report={report} at={bars.indexOf(step)} bars={bars} />}
    </p>
  );
}

interface WalkProps {
  readonly report: ReportContext;
  readonly bars: readonly StepBar[];
  readonly at: number;
}

/** To the steps beside the chosen one, whose columns can be too thin to hit. */
function StepWalk({ report, bars, at }: WalkProps) {
  const button = (label: string, mark: string, bar: StepBar | undefined) => (
    <Button
      class="tp-button"
      aria-label={label}
      title={label}
      disabled={bar === undefined}
      onClick={() => bar !== undefined && toggleStep(report.store, bar)}
    >
      {mark}
    </Button>
  );
  return (
    <span class="tp-trail">
      {button("Previous step", "‹", bars[at - 1])}
      {button("Next step", "›", bars[at + 1])}
    </span>
  );
}

/** Says that the shown view shows more than the range, or is still computed for it. */
function noteOn(report: ReportContext): string {
  const view = shownView(report);
  if (view === undefined || followsRange(report, view)) return "";
  const asked = report.source.ranged(view);
  if (asked === null) return "This view shows all steps.";
  return asked.state.value.kind === "loading" ? "Computing…" : "";
}
