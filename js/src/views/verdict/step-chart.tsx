/** The steps side by side: a column each, stacked by phase, on one scale; many steps also as a distribution. */

import type { ComponentChildren } from "preact";
import { axisNumbers, columnFormat, formatNs, plural } from "../../base/format";
import { phaseColor, phaseTitle, type Theme } from "../../base/palette";
import { axisOf, histogram, longestShown, type StepBar } from "../../layout/step-bars";
import type { FooterItem } from "../../state/store";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";
import { moveAmong } from "../common/focusable";
import { filledClass, Legend, type LegendEntry, percent } from "../common/parts";
import { isChosen, stepsOf, toggleCounted, toggleStep } from "./steps";

// More steps have no room for a number over each, and are shown as a distribution, too.
const LABELLED = 12;
const BINS = 14;
// More steps that do not count say why when they are pointed at.
const MOST_REASONS = 2;
// Room over the longest column for its number.
const HEADROOM = 1.12;

interface ChartProps {
  readonly report: ReportContext;
  /** What each color is, with its time. */
  readonly children: ComponentChildren;
}

/** The steps as a chart; a click shows one step in all views. */
export function StepChart({ report, children }: ChartProps) {
  const bars = stepsOf(report);
  if (bars.length === 0) return <div class="tp-steps">{children}</div>;
  const longest = longestShown(bars);
  const { format, suffix } = columnFormat("ns", longest);
  const isMany = bars.length > LABELLED;
  const reached = bars.find((bar) => isChosen(report.store, bar)) ?? bars[0];
  const top = longest * (isMany ? 1.02 : HEADROOM);
  const ticks = axisOf(longest).filter((tick) => tick <= top);
  const tickText = axisNumbers("ns", ticks).texts;
  return (
    <div class="tp-steps">
      <div class={isMany ? "tp-step-chart tp-many" : "tp-step-chart"}>
        <div class="tp-step-axis" aria-hidden="true">
          <span class="tp-step-unit">{suffix}</span>
          {ticks.map((tick, at) => (
            <span key={tick} class="tp-step-tick" style={{ bottom: percent(tick / top) }}>
              <span>{tickText[at]}</span>
            </span>
          ))}
        </div>
        <ol class="tp-step-columns" aria-label="Steps">
          {bars.map((bar, index) => (
            <Column
              key={`${bar.number}`}
              report={report}
              bar={bar}
              bars={bars}
              top={top}
              label={isMany ? "" : format(bar.dur_ns)}
              unit={suffix}
              number={numberOf(bars, index)}
              isReached={bar === reached}
            />
          ))}
        </ol>
        {isMany && <Distribution bars={bars} top={top} typical={report.source.header.step_ns} />}
      </div>
      {children}
      {bars.some(({ deviceRatio }) => deviceRatio !== null) && <Legend entries={[BUSY]} />}
      <LeftOut report={report} bars={bars} />
    </div>
  );
}

/** The number under a column; of many, only every so many. */
function numberOf(bars: readonly StepBar[], index: number): string {
  const every = Math.max(1, Math.ceil(bars.length / LABELLED));
  return index % every === 0 ? `${bars[index]?.number ?? ""}` : "";
}

interface ColumnProps {
  readonly report: ReportContext;
  readonly bar: StepBar;
  readonly bars: readonly StepBar[];
  readonly top: number;
  /** The number over the column; empty where there is no room. */
  readonly label: string;
  readonly unit: string;
  readonly number: string;
  /** Whether Tab reaches it; arrow keys move to the others. */
  readonly isReached: boolean;
}

function Column({ report, bar, bars, top, label, unit, number, isReached }: ColumnProps) {
  const { store, look } = report;
  const item = stepItem(bar);
  const [whole = "", ...parts] = item.facts;
  // What is seen is said, with the same digits.
  const spoken = [label === "" ? whole : `${label} ${unit}`, ...parts].join(", ");
  // A cut one leaves room for its number.
  const height = bar.dur_ns > top ? 1 / HEADROOM : bar.dur_ns / top;
  const hover = (isOver: boolean) => {
    store.hover.value = isOver ? item : null;
  };
  return (
    <li class={`${classOf(bar)}${bar.dur_ns > top ? " tp-beyond" : ""}`} data-tp-step={bar.number}>
      <Button
        aria-pressed={isChosen(store, bar)}
        aria-label={`${item.name}: ${spoken}`}
        onClick={() => toggleStep(store, bar)}
        onMouseEnter={() => hover(true)}
        onMouseLeave={() => hover(false)}
        tabIndex={isReached ? 0 : -1}
        onKey={(event) => moveAmong(event, ".tp-step-columns")}
      >
        <span class="tp-step-label" style={{ bottom: percent(height) }}>
          {label}
        </span>
        <span class="tp-step-stack" style={{ height: percent(height) }}>
          <Stack bar={bar} theme={look.value.theme} />
        </span>
        {!Number.isNaN(bar.device_ns) && (
          <span
            class="tp-step-device"
            style={{ height: percent(Math.min(bar.device_ns / top, 1)) }}
          />
        )}
      </Button>
      <span class="tp-step-number">
        {bar.lost > 0 && <LossMark />}
        {number !== "" && <CountedSwitch report={report} bar={bar} bars={bars} text={number} />}
      </span>
    </li>
  );
}

interface SwitchProps {
  readonly report: ReportContext;
  readonly bar: StepBar;
  readonly bars: readonly StepBar[];
  /** What it shows for the pointer, where Tab passes it by: the bar over the view has the same. */
  readonly text?: string;
}

/** Takes a step in or out of those that count; plain text where no kernel can be asked. */
export function CountedSwitch({ report, bar, bars, text }: SwitchProps) {
  if (!report.source.canChooseSteps) return <>{text}</>;
  const label = `${bar.leftOut === "" ? "Leave out" : "Count"} step ${bar.number}`;
  return (
    <Button
      class="tp-link tp-counts"
      aria-label={label}
      tabIndex={text === undefined ? 0 : -1}
      onClick={() => void toggleCounted(report, bars, bar)}
    >
      {text ?? label}
    </Button>
  );
}

/** The steps that do not count, with the reason, and how a change of that goes. */
function LeftOut({ report, bars }: Pick<SwitchProps, "report" | "bars">) {
  const out = bars.filter(({ leftOut }) => leftOut !== "");
  return (
    <div class="tp-left-out-reason">
      {out.slice(0, MOST_REASONS).map((bar) => (
        <p key={bar.row}>
          Step {bar.number} does not count: {bar.leftOut}.{" "}
          <CountedSwitch report={report} bar={bar} bars={bars} />
        </p>
      ))}
      {report.store.counting.value}
    </div>
  );
}

function classOf(bar: StepBar): string {
  const cut = bar.isComplete ? "" : " tp-cut";
  const out = bar.leftOut === "" ? "" : " tp-left-out";
  return `tp-step${cut}${out}${bar.lost > 0 ? " tp-lossy" : ""}`;
}

/** Marks a step of which work is missing in the file; its facts say how much. */
export function LossMark() {
  return (
    <span class="tp-warning tp-loss-mark" aria-hidden="true">
      ▲
    </span>
  );
}

// A part of less than this share of a step has no room for lines: it would look like a dashed one.
const THIN = 0.05;

/** The parts of a step, the first at the bottom. */
export function Stack({ bar, theme }: { readonly bar: StepBar; readonly theme: Theme }) {
  return (
    <>
      {bar.parts.map(({ phase, dur_ns }) => (
        <span
          key={phase}
          class={filledClass("tp-step-part", dur_ns < THIN * bar.dur_ns ? "" : phase)}
          style={{ flexGrow: dur_ns, backgroundColor: phaseColor(phase, theme) }}
        />
      ))}
    </>
  );
}

interface DistributionProps {
  readonly bars: readonly StepBar[];
  readonly top: number;
  readonly typical: number | null;
}

/** How many steps took how long, turned to the axis of the columns, and the mean of those that count. */
function Distribution({ bars, top, typical }: DistributionProps) {
  const counts = histogram(bars, top, BINS);
  const most = Math.max(...counts);
  const mean = typical ?? 0;
  return (
    <div class="tp-step-spread" role="img" aria-label={`Mean ${formatNs(mean)}`}>
      {counts.map((count, bin) => (
        <span
          key={`${bin}`}
          class="tp-step-bin"
          style={{
            bottom: percent(bin / BINS),
            height: percent(0.8 / BINS),
            width: percent(count / most),
          }}
        />
      ))}
      <span class="tp-step-median" style={{ bottom: percent(mean / top) }}>
        <span>{formatNs(mean)} mean</span>
      </span>
    </div>
  );
}

const BUSY: LegendEntry = { title: "device busy", color: "var(--tp-muted)", isLine: true };

function stateOf({ lost, isComplete }: StepBar): string {
  if (lost > 0) return ", incomplete";
  return isComplete ? "" : ", partial";
}

export function stepItem(bar: StepBar): FooterItem {
  const parts = bar.parts.map((part) => `${phaseTitle(part.phase)} ${formatNs(part.dur_ns)}`);
  const device = bar.deviceRatio === null ? [] : [`device busy ${formatNs(bar.device_ns)}`];
  const out = bar.leftOut === "" ? [] : [`does not count: ${bar.leftOut}`];
  const lost = bar.lost > 0 ? [`${plural(bar.lost, "launch")} without work`] : [];
  return {
    name: `Step ${bar.number}${stateOf(bar)}`,
    isCode: false,
    phase: "",
    facts: [formatNs(bar.dur_ns), ...out, ...lost, ...parts, ...device],
  };
}
