/** The steps of a report: which of them count, and the range of time that all views show. */

import type { Span } from "../../base/scale";
import { type Ns, ns } from "../../base/units";
import { type StepBar, stepBars } from "../../layout/step-bars";
import type { Store } from "../../state/store";
import type { ReportContext } from "../common/context";

/** The steps in the table that has bars; it comes with the report, so it is there at once. */
export function stepsOf({ source }: ReportContext): readonly StepBar[] {
  const tables = source.header.views.filter((view) => view.shape === "table");
  const view = tables.find(
    ({ bars, offset, empty }) => bars !== null && offset >= 0 && empty === null,
  );
  if (!view?.bars) return [];
  const state = source.frame(view).value;
  return state.kind === "ready" ? stepBars(state.frame, view.bars) : [];
}

function spanOfBar(bar: StepBar): Span<Ns> {
  return { start: ns(bar.start_ns), end: ns(bar.start_ns + bar.dur_ns) };
}

export function isChosen({ range }: Store, bar: StepBar): boolean {
  const { start, end } = spanOfBar(bar);
  return range.value?.start === start && range.value.end === end;
}

/** Shows one step in all views, or everything again. */
export function toggleStep(store: Store, bar: StepBar): void {
  store.range.value = isChosen(store, bar) ? null : spanOfBar(bar);
}

/** Takes a step in or out of those that count; the kernel sends a report to which everything follows. */
export async function toggleCounted(
  { source, store }: ReportContext,
  bars: readonly StepBar[],
  bar: StepBar,
) {
  const { counting } = store;
  const rows = bars
    .filter((each) => (each === bar) !== (each.leftOut === ""))
    .map(({ row }) => row);
  counting.value = "Counting…";
  const done = await source.countSteps(rows);
  // The new page has a store of its own; this one is left only if it stays.
  counting.value = done.ok ? "" : done.message;
}
