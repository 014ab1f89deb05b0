/** The main facts of a run, by section. */

import { formatRatio, formatValue, type Unit } from "../../base/format";
import { isPhase, phaseTitle } from "../../base/palette";
import { select } from "../../state/store";
import { type Frame, numberAt, stringAt } from "../../wire/frame";
import type { ReportContext, ViewProps } from "../common/context";
import { findName } from "../common/describe";
import { focusable } from "../common/focusable";
import { PhaseDot, percent } from "../common/parts";

interface Fact {
  readonly label: string;
  readonly number: number;
  readonly value: string;
  readonly note: string;
  readonly op: string;
}

interface SectionProps {
  readonly report: ReportContext;
  readonly title: string;
  readonly facts: readonly Fact[];
}

export function OverviewView({ report, frame }: ViewProps) {
  const sections = sectionsOf(frame);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the page of facts scrolls, so keys must reach it.
    <div class="tp-overview" tabIndex={0} {...focusable()}>
      <div class="tp-columns">
        {Array.from(sections, ([title, facts]) => (
          <Section key={title} report={report} title={title} facts={facts} />
        ))}
      </div>
    </div>
  );
}

function Section(props: SectionProps) {
  if (props.facts.every((fact) => isPhase(fact.label))) return <PhaseSection {...props} />;
  return (
    <section class="tp-facts">
      <h3>{props.title}</h3>
      <dl>
        {props.facts.map((fact, index) => (
          <FactRow key={`${index}-${fact.label}`} report={props.report} fact={fact} />
        ))}
      </dl>
    </section>
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
    number: value,
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

/** A section of one fact a phase, as bars on the scale of the whole step. */
function PhaseSection({ report, title, facts }: SectionProps) {
  const whole = facts.reduce((sum, fact) => sum + fact.number, 0);
  return (
    <section class="tp-facts tp-breakdown">
      <h3>{title}</h3>
      <ul>
        {facts.map((fact) => (
          <PhaseRow key={fact.label} report={report} fact={fact} whole={whole} />
        ))}
      </ul>
    </section>
  );
}

interface PhaseRowProps {
  readonly report: ReportContext;
  readonly fact: Fact;
  readonly whole: number;
}

function PhaseRow({ report, fact, whole }: PhaseRowProps) {
  const ratio = whole > 0 ? fact.number / whole : 0;
  return (
    <li class="tp-phase-row">
      <span class="tp-phase-name">
        <PhaseDot report={report} phase={fact.label} />
        {phaseTitle(fact.label)}
      </span>
      <span class="tp-phase-track">
        <span class="tp-phase-fill" style={{ width: percent(ratio) }}>
          <PhaseDot report={report} phase={fact.label} />
        </span>
      </span>
      <span class="tp-phase-number">{fact.value}</span>
      <span class="tp-phase-ratio">{formatRatio(ratio)}</span>
    </li>
  );
}
