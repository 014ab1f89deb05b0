/** What changed since an earlier run: in words, and the steps of both on one scale. */

import { formatNs, plural, unbroken } from "../../base/format";
import { cutMiddle } from "../../base/names";
import { dotScale } from "../../layout/change-dots";
import { tickLabel } from "../../layout/time-ticks";
import type { ChangeHeader } from "../../wire/header";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";
import { Marked, percent } from "../common/parts";
import { useWidth } from "../common/use-width";
import { swapRuns } from "./compare-menu";

const SIGNS = { faster: "▼ ", slower: "▲ ", unclear: "" };
const ROW_PX = 30;
const AXIS_PX = 18;
// Dots of one row stand on so many lines, so that equal ones are seen.
const LINES = 3;

export function ChangeHead({ report }: { readonly report: ReportContext }) {
  const { change } = report.source.header;
  if (change === null) return null;
  const warnings = change.warnings.map((warning) => (
    <p key={warning} class="tp-doubt">
      <span class="tp-warning" aria-hidden="true">
        ▲
      </span>{" "}
      {warning}
    </p>
  ));
  return (
    <section class="tp-change" aria-label="Change">
      <div class="tp-change-words">
        <h2 class={`tp-${change.kind}-text`}>
          {SIGNS[change.kind] + change.title}
          {change.numbers !== "" && `: ${unbroken(change.numbers)}`}
        </h2>
        {change.answer !== "" && <p class="tp-answer">{unbroken(change.answer)}</p>}
        {warnings.slice(0, 1)}
        <details open={report.look.value.isPrinted || change.kind === "unclear"}>
          <summary>How sure is that?</summary>
          <p>{unbroken(change.evidence)}</p>
          {warnings.slice(1)}
        </details>
      </div>
      <div class="tp-change-steps">
        <Dots change={change} />
        <Legend change={change} />
        <div class="tp-change-foot">
          <Settings change={change} />
          <Swap report={report} />
        </div>
      </div>
    </section>
  );
}

/** Exchanges before and after. */
function Swap({ report }: { readonly report: ReportContext }) {
  if (!report.source.canCompare) return null;
  return (
    <Button
      class="tp-button tp-swap"
      title="Exchange before and after (X)"
      onClick={() => swapRuns(report)}
    >
      ⇅ Swap
    </Button>
  );
}

const EDGE = 0.01;

// About what fits beside the dots.
const TITLE_CHARS = 24;

// Nearer to an end of the scale, a label stands beside its tick and inside the chart.
const END_SHARE = 0.1;

const TICK_CHAR_PX = 6.4;
const TICK_GAP_PX = 8;

const anchor = (share: number) =>
  share < END_SHARE ? "start" : share > 1 - END_SHARE ? "end" : "middle";

/** The ticks whose labels do not touch: those at the ends lie inside of the chart, so a neighbor may have no room. */
function labelled(
  ticks: readonly number[],
  label: (tick: number) => string,
  share: (tick: number) => number,
  widthPx: number,
): readonly number[] {
  let from = Number.POSITIVE_INFINITY;
  // From the last one on, which says how far the scale goes.
  return ticks.toReversed().filter((tick) => {
    const px = label(tick).length * TICK_CHAR_PX;
    const before = { start: 0, middle: px / 2, end: px }[anchor(share(tick))];
    const left = share(tick) * widthPx - before;
    if (left + px + TICK_GAP_PX > from) return false;
    from = left;
    return true;
  });
}

/** All steps of both runs as dots, and the typical step of each as a line. */
function Dots({ change }: { readonly change: ChangeHeader }) {
  const { ref, width } = useWidth<SVGSVGElement>();
  const counted = change.runs.flatMap(({ steps, left_out: out }) =>
    steps.filter((_, index) => !out.includes(index)),
  );
  const all = counted.length > 0 ? counted : change.runs.flatMap(({ steps }) => steps);
  if (all.length === 0) return null;
  const { low, high, ticks, step } = dotScale(Math.min(...all), Math.max(...all));
  const share = (ns: number) => (ns - low) / (high - low);
  // Steps that do not count can be far off: they stand at the edge.
  const x = (ns: number) => percent(Math.min(Math.max(share(ns), EDGE), 1 - EDGE));
  const label = tickLabel(step, high);
  const named = labelled(ticks, label, share, width);
  const rows = change.runs.length * ROW_PX;
  return (
    <div class="tp-dots">
      <div class="tp-dots-names">
        {change.runs.map(({ title, steps, typical, is_shown }, index) => (
          <span key={`${index}`} style={{ height: `${ROW_PX}px` }} title={title}>
            <b>{cutMiddle(title, TITLE_CHARS)}</b>
            <small>
              {is_shown && "this run · "}
              {plural(steps.length, "step")}
              {typical !== null && ` · mean ${formatNs(typical)}`}
            </small>
          </span>
        ))}
      </div>
      <svg
        ref={ref}
        class="tp-dots-chart"
        role="img"
        aria-label="Steps of both runs"
        height={rows + AXIS_PX}
      >
        {ticks.map((tick) => (
          <g key={tick}>
            <line class="tp-dots-grid" x1={x(tick)} x2={x(tick)} y1="0" y2={rows} />
            {named.includes(tick) && (
              <text x={x(tick)} y={rows + 13} text-anchor={anchor(share(tick))}>
                {label(tick)}
              </text>
            )}
          </g>
        ))}
        {change.runs.map((run, index) => (
          <g key={`${index}`} class={index === 0 ? "" : `tp-dots-after tp-${change.kind}-text`}>
            <RunDots run={run} top={index * ROW_PX} x={x} />
          </g>
        ))}
      </svg>
    </div>
  );
}

interface RunDotsProps {
  readonly run: ChangeHeader["runs"][number];
  readonly top: number;
  readonly x: (ns: number) => string;
}

/** The steps of a run, and its typical one. */
function RunDots({ run: { steps, typical, left_out: leftOut }, top, x }: RunDotsProps) {
  return (
    <>
      {steps.map((ns, index) => (
        <Dot
          key={`${index}`}
          x={x(ns)}
          y={top + 8 + (index % LINES) * 7}
          counts={!leftOut.includes(index)}
          title={formatNs(ns)}
        />
      ))}
      {typical !== null && (
        <line
          class="tp-dots-typical"
          x1={x(typical)}
          x2={x(typical)}
          y1={top + 2}
          y2={top + ROW_PX - 2}
        >
          <title>{formatNs(typical)}, the mean of the steps that count</title>
        </line>
      )}
    </>
  );
}

/** What the marks of the dots mean. */
function Legend({ change }: { readonly change: ChangeHeader }) {
  const { runs } = change;
  if (runs.every(({ steps }) => steps.length === 0)) return null;
  return (
    <p class="tp-dots-legend">
      <span aria-hidden="true">●</span> a step
      {runs.some(({ typical }) => typical !== null) && (
        <>
          <b aria-hidden="true">┃</b> mean
        </>
      )}
      {runs.some(({ left_out: leftOut }) => leftOut.length > 0) && (
        <>
          <span aria-hidden="true">×</span> not in the mean of its run
        </>
      )}
    </p>
  );
}

interface DotProps {
  readonly x: string;
  readonly y: number;
  readonly counts: boolean;
  readonly title: string;
}

/** A step, crossed out if it does not count in the typical one. */
function Dot({ x, y, counts, title }: DotProps) {
  return counts ? (
    <circle cx={x} cy={y} r="3.2">
      <title>{title}</title>
    </circle>
  ) : (
    <text class="tp-dots-out" x={x} y={y} text-anchor="middle" dominant-baseline="central">
      ×<title>{title}, does not count</title>
    </text>
  );
}

function Settings({ change: { settings, same } }: { readonly change: ChangeHeader }) {
  if (settings.length === 0) {
    return (
      <p class="tp-settings">
        <b>Same</b> <Marked text={same} />
      </p>
    );
  }
  return (
    <p class="tp-settings">
      <b>Differs</b>{" "}
      {settings.map(([name = "", before = "", after = ""], index) => (
        <span key={name}>
          {index > 0 && " · "}
          <bdi>{name}</bdi> <bdi>{before === "" ? "–" : before}</bdi> →{" "}
          <bdi>{after === "" ? "–" : after}</bdi>
        </span>
      ))}
    </p>
  );
}
