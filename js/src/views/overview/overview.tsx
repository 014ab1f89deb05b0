/** The main facts of a run, by section. */

import { columnFormat, formatRatio, formatValue } from "../../base/format";
import { phaseTitle } from "../../base/palette";
import { select } from "../../state/store";
import type { Fact, FactsHeader, Section } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { findName } from "../common/describe";
import { focusable } from "../common/focusable";
import { PhaseDot, percent } from "../common/parts";

interface SectionProps {
  readonly report: ReportContext;
  readonly section: Section;
}

interface FactsProps {
  readonly report: ReportContext;
  readonly view: FactsHeader;
}

export function FactsView({ report, view }: FactsProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the list scrolls, so it must be reachable by keyboard.
    <div class="tp-overview" tabIndex={0} {...focusable()}>
      <div class="tp-columns">{view.sections.map((section) => sectionOf(report, section))}</div>
    </div>
  );
}

function sectionOf(report: ReportContext, section: Section) {
  const props = { report, section, key: section.title };
  if (section.kind === "phases") return <PhaseSection {...props} />;
  if (section.kind === "bars") return <BarSection {...props} />;
  return <FactSection {...props} />;
}

/** Facts of one unit as bars on one scale; the largest is a whole track. */
function BarSection({ report, section }: SectionProps) {
  const largest = section.facts.reduce((most, fact) => Math.max(most, numberOf(fact)), 0);
  const unit = section.facts[0]?.unit ?? "ns";
  const { format, suffix } = columnFormat(unit, largest);
  return (
    <section class="tp-facts tp-breakdown">
      <h3 class="tp-split">
        {section.title}
        <span class="tp-aside">{`${suffix} ${section.aside}`}</span>
      </h3>
      <ul>
        {section.facts.map((fact, index) => (
          <li key={`${index}-${fact.label}`} class="tp-bar-fact">
            <span class="tp-bar-label" title={`${fact.label} ${fact.note}`}>
              {fact.label}
              {fact.note !== "" && <span class="tp-bar-note"> {fact.note}</span>}
            </span>
            <span class="tp-phase-track">
              <span
                class={fact.phase === "waiting" ? "tp-phase-fill tp-hatched" : "tp-phase-fill"}
                style={{ width: percent(largest > 0 ? numberOf(fact) / largest : 0) }}
              >
                <PhaseDot report={report} phase={fact.phase} />
              </span>
            </span>
            <span class="tp-phase-number">{format(numberOf(fact))}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function FactSection({ report, section }: SectionProps) {
  return (
    <section class="tp-facts">
      <h3>{section.title}</h3>
      <dl>
        {section.facts.map((fact, index) => (
          <FactRow key={`${index}-${fact.label}`} report={report} fact={fact} />
        ))}
      </dl>
    </section>
  );
}

function FactRow({ report, fact }: { readonly report: ReportContext; readonly fact: Fact }) {
  return (
    <div class="tp-fact">
      <dt title={fact.label}>
        {fact.op === "" ? fact.label : <OpLink report={report} fact={fact} />}
      </dt>
      <dd>
        <FactValue fact={fact} />
        {fact.note !== "" && (
          <span class="tp-fact-note" title={fact.note}>
            {fact.note}
          </span>
        )}
      </dd>
    </div>
  );
}

function FactValue({ fact }: { readonly fact: Fact }) {
  const { value, unit } = fact;
  if (value === null) return null;
  if (typeof value === "number") {
    return <span class="tp-fact-value">{formatValue(value, unit)}</span>;
  }
  return (
    <span class="tp-fact-text" title={value}>
      {value}
    </span>
  );
}

/** Selects the op of a fact and opens the table that lists it. */
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

/** One fact per phase, as bars on the scale of the whole step. */
function PhaseSection({ report, section }: SectionProps) {
  const whole = section.facts.reduce((sum, fact) => sum + numberOf(fact), 0);
  return (
    <section class="tp-facts tp-breakdown">
      <h3>{section.title}</h3>
      <ul>
        {section.facts.map((fact) => (
          <PhaseRow key={fact.label} report={report} fact={fact} whole={whole} />
        ))}
      </ul>
    </section>
  );
}

function numberOf({ value }: Fact): number {
  return typeof value === "number" ? value : 0;
}

interface PhaseRowProps {
  readonly report: ReportContext;
  readonly fact: Fact;
  readonly whole: number;
}

function PhaseRow({ report, fact, whole }: PhaseRowProps) {
  const ratio = whole > 0 ? numberOf(fact) / whole : 0;
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
      <span class="tp-phase-number">{formatValue(numberOf(fact), fact.unit)}</span>
      <span class="tp-phase-ratio">{formatRatio(ratio)}</span>
    </li>
  );
}
