/** What are the main facts of a run, by section? */

import { formatNs, formatRatio, formatValue, plural, type Unit } from "../base/format";
import { phaseTitle } from "../base/palette";
import { phaseSums, type StepPart } from "../layout/step-bars";
import { select } from "../state/store";
import { type Frame, numberAt, stringAt } from "../wire/frame";
import type { ReportContext, ViewProps } from "./context";
import { findName } from "./describe";
import { focusable } from "./focusable";
import { PhaseDot } from "./parts";
import { percent, stepsOf } from "./step-bars";

interface Fact {
  readonly label: string;
  readonly value: string;
  readonly note: string;
  readonly op: string;
}

export function OverviewView({ report, frame }: ViewProps) {
  const sections = sectionsOf(frame);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the page of facts scrolls, so keys must reach it.
    <div class="tp-overview" tabIndex={0} {...focusable()}>
      <div class="tp-columns">
        <PhaseBreakdown report={report} />
        {Array.from(sections, ([title, facts]) => (
          <section key={title} class="tp-facts">
            <h3>{title}</h3>
            <dl>
              {facts.map((fact, index) => (
                <FactRow key={`${index}-${fact.label}`} report={report} fact={fact} />
              ))}
            </dl>
          </section>
        ))}
      </div>
    </div>
  );
}

/** Facts by section, in the order in which sections first appear. */
function sectionsOf(frame: Frame): ReadonlyMap<string, readonly Fact[]> {
  const sections = new Map<string, Fact[]>();
  for (let row = 0; row < frame.rows; row += 1) {
    const title = stringAt(frame, "section", row);
    const facts = sections.get(title) ?? [];
    sections.set(title, facts);
    facts.push(factOf(frame, row));
  }
  return sections;
}

function factOf(frame: Frame, row: number): Fact {
  const value = numberAt(frame, "value", row);
  const unit = stringAt(frame, "unit", row) as Unit;
  return {
    label: stringAt(frame, "label", row),
    // A fact in words has no number; its note is the fact.
    value: Number.isNaN(value) ? "" : formatValue(value, unit),
    note: stringAt(frame, "note", row),
    op: stringAt(frame, "op", row),
  };
}

function FactRow({ report, fact }: { readonly report: ReportContext; readonly fact: Fact }) {
  return (
    <div class="tp-fact">
      <dt title={fact.label}>
        {fact.op === "" ? fact.label : <OpLink report={report} fact={fact} />}
      </dt>
      <dd>
        {fact.value !== "" && <span class="tp-fact-value">{fact.value}</span>}
        {fact.note !== "" && (
          <span class="tp-fact-note" title={fact.note}>
            {fact.note}
          </span>
        )}
      </dd>
    </div>
  );
}

/** Selects the op that a fact is about and goes to the table that lists it. */
function OpLink({ report, fact }: { readonly report: ReportContext; readonly fact: Fact }) {
  const open = () => {
    select(report.store, fact.op, "");
    const found = findName(report, fact.op);
    if (found === null) return;
    report.store.reveal.value = { view: found.view.name, name: fact.op };
    report.store.view.value = found.view.name;
  };
  const isName = fact.label === fact.op;
  return (
    <button
      type="button"
      class={isName ? "tp-link tp-code" : "tp-link"}
      title={fact.op}
      onClick={open}
      {...focusable()}
    >
      <bdi>{fact.label}</bdi>
    </button>
  );
}

/** One wide bar of all complete steps together, and the words and numbers to it. */
function PhaseBreakdown({ report }: { readonly report: ReportContext }) {
  const bars = stepsOf(report);
  const parts = phaseSums(bars);
  const count = bars.filter((bar) => bar.isComplete).length;
  if (parts.length === 0) return null;
  return (
    <section class="tp-facts tp-breakdown">
      <h3>Time by phase, {plural(count, "complete step")}</h3>
      <ul>
        {parts.map((part) => (
          <PhaseRow key={part.phase} report={report} part={part} />
        ))}
      </ul>
    </section>
  );
}

function PhaseRow({ report, part }: { readonly report: ReportContext; readonly part: StepPart }) {
  return (
    <li class="tp-phase-row">
      <span class="tp-phase-name">
        <PhaseDot report={report} phase={part.phase} />
        {phaseTitle(part.phase)}
      </span>
      <span class="tp-phase-track">
        <PhaseFill report={report} part={part} />
      </span>
      <span class="tp-phase-number">{formatNs(part.dur_ns)}</span>
      <span class="tp-phase-ratio">{formatRatio(part.ratio)}</span>
    </li>
  );
}

function PhaseFill({ report, part }: { readonly report: ReportContext; readonly part: StepPart }) {
  return (
    <span class="tp-phase-fill" style={{ width: percent(part.ratio) }}>
      <PhaseDot report={report} phase={part.phase} />
    </span>
  );
}
