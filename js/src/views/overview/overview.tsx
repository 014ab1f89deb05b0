/** The main facts of a run, by section. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { columnFormat, decimalsIn, formatValue, plural } from "../../base/format";
import { LIST_CHAR_PX, shortenAll, shortenNote } from "../../base/names";
import { phaseTitle } from "../../base/palette";
import { revealIn, select, showView } from "../../state/store";
import type { Fact, FactsHeader, Section } from "../../wire/header";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";
import { focusable } from "../common/focusable";
import { Digits, PhaseDot, percent } from "../common/parts";
import { useWidth } from "../common/use-width";
import { ProblemsView } from "../notes/notes";
import { Verdict } from "../verdict/verdict";
import { Cards, FirstCards, firstCards, NoCards, numberedCards } from "./cards";
import { CodeSection, useCode } from "./code";
import { MemoryStrip } from "./memory-strip";
import { RunStrip } from "./run-strip";

// A cut note of fewer characters says nothing.
const LEAST_NOTE_CHARS = 10;

interface SectionProps {
  readonly report: ReportContext;
  readonly section: Section;
}

interface FactsProps {
  readonly report: ReportContext;
  readonly view: FactsHeader;
}

/** The answer without a click: the verdict, the sections that explain it, top lists, and the rest folded away. */
export function FactsView({ report, view }: FactsProps) {
  const inGroup = (group: Section["group"]) => view.sections.filter((each) => each.group === group);
  // What to change is said of the whole run, as the verdict is.
  const whole = report.source.header.views.find(({ name }) => name === view.name);
  const { cards } = whole?.shape === "facts" ? whole : view;
  const numbered = numberedCards(cards);
  const first = firstCards(numbered);
  const code = useCode(report, view, numbered);
  const placed = new Set([...(code?.changes.values() ?? [])].flat());
  const hasSteps = report.source.header.step_ns !== null;
  const all = (
    <Cards
      report={report}
      hasSteps={hasSteps}
      cards={numbered.filter((each) => !placed.has(each))}
      first={first}
      title="In detail"
    />
  );
  // Its lines are in the code already.
  const top = inGroup("top").filter(
    ({ facts }) => code === null || facts.every((fact) => fact.view !== "source"),
  );
  // A single list has no others to stand beside.
  const strips = inGroup("main").filter(({ kind }) => kind === "strip");
  const phases = inGroup("main").filter(({ kind }) => kind === "phases");
  const lists = inGroup("main").filter(({ kind }) => kind !== "strip" && kind !== "phases");
  const main = top.length === 1 ? [...lists, ...top] : lists;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the list scrolls, so it must be reachable by keyboard.
    <div class="tp-overview" tabIndex={0} {...focusable()}>
      <Verdict
        report={report}
        isNamedBelow={code !== null && code.named >= 0}
        phases={phases.map((section) => sectionOf(report, section))}
      >
        {cards.length === 0 ? (
          <NoCards report={report} />
        ) : (
          <FirstCards report={report} cards={first} hasSteps={hasSteps} />
        )}
      </Verdict>
      {code !== null && <CodeSection {...code} first={first} />}
      {strips.map((section) => sectionOf(report, section))}
      <div class="tp-columns">
        {main.map((section) => sectionOf(report, section))}
        {all}
      </div>
      {top.length > 1 && (
        <div class="tp-top-lists">
          {top.map((section) => sectionOf(report, section, largestOf(top, section)))}
        </div>
      )}
      <More report={report} sections={inGroup("more")} />
      <About report={report} sections={inGroup("about")} />
    </div>
  );
}

interface FoldProps {
  readonly isOpen: boolean;
  readonly title: string;
  readonly onToggle: () => void;
  /** What is said of what is folded away. */
  readonly aside: ComponentChildren;
  readonly children: ComponentChildren;
  readonly isAbout?: boolean;
}

/** A title with what it unfolds. */
function Fold({ isOpen, title, onToggle, aside, children, isAbout = false }: FoldProps) {
  return (
    <section class="tp-about">
      <Button
        class="tp-about-title"
        aria-expanded={isOpen}
        data-tp-about={isAbout ? "" : undefined}
        onClick={onToggle}
      >
        <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> <strong>{title}</strong>
        {aside}
      </Button>
      {isOpen && children}
    </section>
  );
}

interface SectionsProps {
  readonly report: ReportContext;
  readonly sections: readonly Section[];
}

/** What the first answer does without, folded to one line that names it. */
function More({ report, sections }: SectionsProps) {
  const isOpen = useSignal(false);
  if (sections.length === 0) return null;
  return (
    <Fold
      title="More"
      isOpen={isOpen.value || report.look.value.isPrinted}
      onToggle={() => {
        isOpen.value = !isOpen.value;
      }}
      aside={sections.map(({ title }) => <span key={title}>{title}</span>)}
    >
      <div class="tp-columns">{sections.map((section) => sectionOf(report, section))}</div>
    </Fold>
  );
}

/** "About this run": what was recorded, and the problems, folded to one line. */
function About({ report, sections }: SectionsProps) {
  // Nothing can be unfolded on paper.
  const isOpen = report.store.isAboutOpen.value || report.look.value.isPrinted;
  const list = report.source.header.views.find(({ shape }) => shape === "problems");
  const problems = list?.shape === "problems" ? list : null;
  const count = problems?.problems.length ?? 0;
  const events = sections.flatMap(({ facts }) => facts).find(({ label }) => label === "Events");
  const { subtitle, code } = report.source.header;
  return (
    <Fold
      title="About this run"
      isAbout
      isOpen={isOpen}
      onToggle={() => {
        report.store.isAboutOpen.value = !isOpen;
      }}
      aside={
        <>
          {events !== undefined && numberOf(events) > 0 && (
            <span>{plural(numberOf(events), "event")}</span>
          )}
          <span>{count === 0 ? "nothing lost" : plural(count, "note")}</span>
        </>
      }
    >
      {subtitle.includes("recorded,") && (
        <p>
          {subtitle} {code !== "" && <code>{code}</code>}
        </p>
      )}
      {problems !== null && count > 0 && <ProblemsView view={problems} />}
      <div class="tp-columns">{sections.map((section) => sectionOf(report, section))}</div>
    </Fold>
  );
}

/** The largest number of the lists side by side in the unit of one, which share a scale. */
function largestOf(sections: readonly Section[], { facts: [first] }: Section): number {
  const facts = sections.flatMap(({ facts }) => facts).filter(({ unit }) => unit === first?.unit);
  return Math.max(0, ...facts.map(numberOf));
}

function sectionOf(report: ReportContext, section: Section, most = largestOf([section], section)) {
  const props = { report, section, most, key: section.title };
  if (section.kind === "strip") return <RunStrip {...props} />;
  if (section.kind === "phases") return <PhaseSection {...props} />;
  if (section.kind === "bars") return <BarSection {...props} />;
  if (section.kind === "stack") {
    return (
      <BarSection {...props} most={section.facts.reduce((sum, fact) => sum + numberOf(fact), 0)} />
    );
  }
  return <FactSection {...props} />;
}

/** Facts of one unit as bars on one scale; `most` is a whole track. */
function BarSection({ report, section, most }: SectionProps & { readonly most: number }) {
  const largest = largestOf([section], section);
  const { format, suffix } = columnFormat(section.facts[0]?.unit ?? "ns", largest, most);
  const numbers = section.facts.map((fact) => format(numberOf(fact)));
  const decimals = Math.max(...numbers.map(decimalsIn));
  const { ref, width } = useWidth<HTMLSpanElement>();
  const texts = labelTexts(section.facts, Math.floor(width / LIST_CHAR_PX));
  return (
    <section class="tp-facts tp-breakdown">
      <h3 class="tp-split">
        {section.title}
        <span class="tp-aside">{`${suffix} ${section.aside}`}</span>
      </h3>
      {section.kind === "stack" && <Stack report={report} section={section} most={most} />}
      <ul>
        {section.facts.map((fact, index) => (
          <li key={`${index}-${fact.label}`} class="tp-bar-fact">
            <span
              class="tp-bar-label"
              title={`${fact.label} ${fact.note}`.trim()}
              ref={index === 0 ? ref : null}
            >
              <FactLink report={report} fact={fact} text={texts[index]?.label ?? ""} />
              {fact.note !== "" && <span class="tp-bar-note"> {texts[index]?.note}</span>}
              {fact.phase !== "" && <span class="tp-aloud"> {phaseTitle(fact.phase)} </span>}
            </span>
            <span class="tp-phase-track">
              <span
                class="tp-phase-fill"
                style={{
                  width: percent(most > 0 ? numberOf(fact) / most : 0),
                  opacity: opacityOf(section, index),
                }}
              >
                <PhaseDot report={report} phase={fact.phase} />
              </span>
            </span>
            <span class="tp-phase-number">
              <Digits text={numbers[index] ?? ""} decimals={decimals} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** All facts of a section as one bar; the rows below say what each part is. */
function Stack({ report, section, most }: SectionProps & { readonly most: number }) {
  return (
    <div class="tp-stack" aria-hidden="true">
      {section.facts.map((fact, index) => (
        <span
          key={fact.label}
          title={`${fact.label}: ${percent(most > 0 ? numberOf(fact) / most : 0)}`}
          style={{
            width: percent(most > 0 ? numberOf(fact) / most : 0),
            opacity: opacityOf(section, index),
          }}
        >
          <PhaseDot report={report} phase={fact.phase} />
        </span>
      ))}
    </div>
  );
}

// Of two neighbors with the same hue, the second is lighter.
const LIGHTER = 0.5;

function opacityOf({ kind, facts }: Section, index: number): number | undefined {
  const isLighter = kind === "stack" && facts[index]?.phase === facts[index - 1]?.phase;
  return isLighter ? LIGHTER : undefined;
}

/** The names of a list and what is said of each, cut to the room that both have together. */
function labelTexts(facts: readonly Fact[], room: number) {
  const labels = shortenAll(
    facts.map(({ label }) => label),
    room,
  );
  return labels.map((label, index) => {
    const note = facts[index]?.note ?? "";
    const rest = room - label.length - 1;
    const least = Math.min(note.length, LEAST_NOTE_CHARS);
    return { label, note: rest < least ? "" : shortenNote(note, rest) };
  });
}

function FactSection({ report, section }: SectionProps) {
  return (
    <section class="tp-facts">
      <h3>{section.title}</h3>
      {section.kind === "memory" && <MemoryStrip report={report} />}
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
        <FactLink report={report} fact={fact} text={fact.label} />
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

/** The label of a fact, which leads to the view that shows more of it. */
function FactLink({
  report,
  fact,
  text,
}: {
  readonly report: ReportContext;
  readonly fact: Fact;
  readonly text: string;
}) {
  const view = report.source.header.views.find(
    ({ name, empty }) => name === fact.view && empty === null,
  );
  const isCode = fact.view === "source" || fact.view === "modules" || fact.label === fact.op;
  if (view === undefined) return <bdi class={isCode ? "tp-code" : ""}>{text}</bdi>;
  const open = () => {
    if (fact.op === "") {
      showView(report.store, view.tab);
      return;
    }
    select(report.store, fact.op, "");
    revealIn(report.store, view, fact.spot || fact.op);
  };
  return (
    <Button class={isCode ? "tp-link tp-code" : "tp-link"} onClick={open}>
      <bdi>{text}</bdi>
    </Button>
  );
}

/** One fact per phase: what each color of the steps is, with its time. */
function PhaseSection({ report, section }: SectionProps) {
  const whole = section.facts.reduce((sum, fact) => sum + numberOf(fact), 0);
  const largest = Math.max(...section.facts.map(numberOf));
  const { format, suffix } = columnFormat(section.facts[0]?.unit ?? "ns", largest);
  const texts = section.facts.map((fact) => format(numberOf(fact)));
  const decimals = Math.max(...texts.map(decimalsIn));
  return (
    <section class="tp-facts tp-breakdown tp-phases">
      <h3 class="tp-split">
        {section.title}
        <span class="tp-aside">{`${suffix} ${section.aside}`.trim()}</span>
      </h3>
      <ul>
        {section.facts.map((fact, index) => (
          <PhaseRow
            key={fact.label}
            report={report}
            fact={fact}
            whole={whole}
            text={texts[index] ?? ""}
            decimals={decimals}
          />
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
  readonly text: string;
  readonly decimals: number;
}

const SHARES = columnFormat("ratio", 1);

function PhaseRow({ report, fact, whole, text, decimals }: PhaseRowProps) {
  const ratio = whole > 0 ? numberOf(fact) / whole : 0;
  return (
    <li class="tp-phase-row">
      <span class="tp-phase-name">
        <PhaseDot report={report} phase={fact.label} />
        <span class="tp-phase-title">{phaseTitle(fact.label)}</span>
      </span>
      <span class="tp-phase-number">
        <Digits text={text} decimals={decimals} />
      </span>
      <span class="tp-phase-ratio">
        <Digits text={SHARES.format(ratio)} decimals={1} /> %
      </span>
    </li>
  );
}
