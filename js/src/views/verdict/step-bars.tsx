/** The steps side by side: one bar per step, stacked by phase, all on one scale. */

import { columnFormat, formatNs } from "../../base/format";
import { phaseColor, phaseTitle, type Theme } from "../../base/palette";
import { phasesIn, type StepBar, type StepPart, stepBars } from "../../layout/step-bars";
import type { FooterItem } from "../../state/store";
import type { ReportContext } from "../common/context";
import { focusable } from "../common/focusable";
import { Legend, type LegendEntry, percent } from "../common/parts";

// The number of bars that fit without scrolling; verdict.css sets the height.
const VISIBLE_BARS = 6;
// A scrolling list must be reachable by keyboard.
const SCROLLABLE = { tabIndex: 0, ...focusable() };

/** The steps of a table as bars, or nothing when it has no rows. */
export function StepBars({ report }: { readonly report: ReportContext }) {
  const bars = stepsOf(report);
  if (bars.length === 0) return null;
  const { theme } = report.look.value;
  const longest = Math.max(...bars.map((bar) => bar.dur_ns));
  const { format, suffix } = columnFormat("ns", longest, 1);
  const legend = legendOf(bars, theme);
  return (
    <div class="tp-steps">
      <ol class="tp-bars" aria-label="Steps" {...(bars.length > VISIBLE_BARS ? SCROLLABLE : {})}>
        {bars.map((bar) => (
          <BarRow
            key={`${bar.number}`}
            report={report}
            bar={bar}
            duration={`${format(bar.dur_ns)} ${suffix}`}
          />
        ))}
      </ol>
      <Legend entries={legend} />
    </div>
  );
}

function legendOf(bars: readonly StepBar[], theme: Theme): readonly LegendEntry[] {
  const parts = phasesIn(bars).map((name) => ({
    title: phaseTitle(name),
    color: phaseColor(name, theme),
  }));
  const hasDevice = bars.some((bar) => bar.deviceRatio !== null);
  const device = { title: "GPU busy", color: "var(--tp-muted)", isLine: true };
  return hasDevice ? [...parts, device] : parts;
}

/** Bars of the first embedded table that has any; nothing is pulled for them. */
function stepsOf({ source }: ReportContext): readonly StepBar[] {
  const tables = source.header.views.filter((view) => view.shape === "table");
  const view = tables.find(({ bars, offset }) => bars !== null && offset >= 0);
  if (!view?.bars) return [];
  const state = source.frame(view).value;
  return state.kind === "ready" ? stepBars(state.frame, view.bars) : [];
}

interface BarRowProps {
  readonly report: ReportContext;
  readonly bar: StepBar;
  readonly duration: string;
}

function BarRow({ report, bar, duration }: BarRowProps) {
  const { hover } = report.store;
  const item = footerItem(bar);
  return (
    <li
      class={bar.isComplete ? "tp-bar-row" : "tp-bar-row tp-cut"}
      onMouseEnter={() => {
        hover.value = item;
      }}
      onMouseLeave={() => {
        hover.value = null;
      }}
    >
      <span class="tp-bar-number">{bar.number}</span>
      <span class="tp-track" role="img" aria-label={`${item.name}: ${item.facts.join(", ")}`}>
        <span class="tp-parts">
          {bar.parts.map((part) => (
            <Part key={part.phase} part={part} theme={report.look.value.theme} />
          ))}
        </span>
        {bar.deviceRatio !== null && (
          <span class="tp-device" style={{ width: percent(bar.deviceRatio) }} />
        )}
      </span>
      <span class="tp-bar-duration">
        {!bar.isComplete && <em>partial </em>}
        {duration}
      </span>
    </li>
  );
}

function Part({ part, theme }: { readonly part: StepPart; readonly theme: Theme }) {
  const style = { width: percent(part.ratio), backgroundColor: phaseColor(part.phase, theme) };
  return <span class="tp-part" style={style} />;
}

function footerItem(bar: StepBar): FooterItem {
  const parts = bar.parts.map((part) => `${phaseTitle(part.phase)} ${formatNs(part.dur_ns)}`);
  const device = bar.deviceRatio === null ? [] : [`device busy ${formatNs(bar.device_ns)}`];
  const partial = bar.isComplete ? "" : ", partial";
  return {
    name: `Step ${bar.number}${partial}`,
    isCode: false,
    phase: "",
    facts: [formatNs(bar.dur_ns), ...parts, ...device],
  };
}
