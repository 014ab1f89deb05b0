/** The verdict in one line over the tabs, with the steps as small columns that choose what all views show. */

import { formatNs, plural } from "../../base/format";
import { longestShown, type StepBar } from "../../layout/step-bars";
import type { ReportHeader, Span } from "../../wire/header";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";
import { moveAmong } from "../common/focusable";
import { percent } from "../common/parts";
import { LossMark, Stack, stepItem } from "./step-chart";
import { isChosen, stepsOf, toggleStep } from "./steps";
import { Doubts, renderSpan } from "./verdict";

// More columns would be too thin to click.
const MOST_COLUMNS = 24;

export function VerdictLine({ report }: { readonly report: ReportContext }) {
  const { verdict, views } = report.source.header;
  const bars = stepsOf(report);
  const spans = [...verdict.text, ...verdict.more];
  const words = spans.map(({ text }) => text).join("");
  const isOfRanks = views.some((view) => view.shape === "table" && view.ranks !== null);
  const shown = isOfRanks ? verdict.text : amountOf(verdict.text);
  return (
    <section
      class={isOfRanks ? "tp-verdict-line tp-verdict-open" : "tp-verdict-line"}
      aria-label="Verdict"
    >
      <p class="tp-verdict" title={[verdict.title, words].filter((part) => part !== "").join(". ")}>
        {verdict.title !== "" && <strong>{verdict.title}. </strong>}
        {shown.map(renderSpan)}
      </p>
      {bars.length > 0 && <StepStrip report={report} bars={bars} />}
      {/* A report of ranks has no other place for them. */}
      {isOfRanks && (
        <Doubts
          report={report}
          more={verdict.more.length > 0 ? <p>{verdict.more.map(renderSpan)}</p> : null}
        />
      )}
    </section>
  );
}

/** The evidence up to how much of what it is, and why; the share, and where, stand on the overview. */
export function amountOf(text: readonly Span[]): readonly Span[] {
  const at = text.findIndex(({ style }) => style === "strong") + 1;
  const after = text[at];
  if (at === 0 || after === undefined) return text;
  return [
    ...text.slice(0, at),
    { ...after, text: after.text.replace(/ \([^)]*\)/, "").replace(/[,;:.].*/s, "") },
  ];
}

function StepStrip({
  report,
  bars,
}: {
  readonly report: ReportContext;
  readonly bars: readonly StepBar[];
}) {
  const { store, look, source } = report;
  const longest = longestShown(bars);
  const chosen = bars.find((bar) => isChosen(store, bar));
  const text =
    chosen === undefined
      ? stepsText(bars, source.header, isToldIn(source.header))
      : `step ${chosen.number} · ${formatNs(chosen.dur_ns)}`;
  return (
    <div class="tp-step-strip">
      {bars.length <= MOST_COLUMNS &&
        bars.map((bar) => (
          <Button
            key={`${bar.number}`}
            class={`tp-step-button${bar.leftOut && " tp-left-out"}${bar.dur_ns > longest ? " tp-beyond" : ""}`}
            aria-pressed={isChosen(store, bar)}
            aria-label={`Show only step ${bar.number}${bar.leftOut && `, does not count: ${bar.leftOut}`}`}
            data-tp-step={bar.number}
            onClick={() => toggleStep(store, bar)}
            onMouseEnter={() => {
              store.hover.value = stepItem(bar);
            }}
            onMouseLeave={() => {
              store.hover.value = null;
            }}
            tabIndex={bar === (chosen ?? bars[0]) ? 0 : -1}
            onKey={(event) => moveAmong(event, ".tp-step-strip")}
          >
            <span
              class="tp-step-stack"
              style={{ height: percent(Math.min(bar.dur_ns / longest, 1)) }}
            >
              <Stack bar={bar} theme={look.value.theme} />
            </span>
            {bar.lost > 0 && <LossMark />}
          </Button>
        ))}
      <span class="tp-step-text">{text}</span>
    </div>
  );
}

/** Whether the verdict beside it says how long a step takes. */
function isToldIn({ verdict, step_ns }: ReportHeader): boolean {
  return verdict.text.some(({ text }) => text.includes(formatNs(step_ns ?? 0)));
}

/** "4 of 5 steps · 215 ms each": how many steps count, and the typical one where that is not told already. */
function stepsText(
  { length }: readonly StepBar[],
  { steps, step_ns }: ReportHeader,
  isTold: boolean,
): string {
  const count = `${steps < length ? `${steps} of ` : ""}${plural(length, "step")}`;
  return isTold ? count : `${count} · ${formatNs(step_ns ?? 0)}${length > 1 ? " each" : ""}`;
}
