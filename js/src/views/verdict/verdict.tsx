/** The verdict as text, with the steps next to it, and a notice above it when data was lost. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { unbroken } from "../../base/format";
import { shortenName } from "../../base/names";
import { revealIn } from "../../state/store";
import type { Span } from "../../wire/header";
import { Button } from "../common/button";
import { type ReportContext, tabsOf } from "../common/context";
import { StepChart } from "./step-chart";

// Of a name in a sentence.
const NAME_CHARS = 48;

interface VerdictProps {
  readonly report: ReportContext;
  /** Whether the line that it names is marked in the code below. */
  readonly isNamedBelow: boolean;
  /** What each color of the steps is, with its time. */
  readonly phases: ComponentChildren;
  /** What follows the words. */
  readonly children?: ComponentChildren;
}

/** The verdict on the overview: cause, evidence, the line, and what to doubt, beside the steps. */
export function Verdict({ report, isNamedBelow, phases, children }: VerdictProps) {
  const { verdict } = report.source.header;
  // Without a number, what follows says what to do.
  const hasMore = verdict.text.some(({ style }) => style === "strong");
  const more = <span class="tp-aside">{verdict.more.map(renderSpan)}</span>;
  return (
    <section class="tp-verdict tp-verdict-whole" aria-label="Verdict">
      <div class="tp-verdict-words">
        {verdict.title !== "" && <h2>{verdict.title}</h2>}
        <p>
          {verdict.text.map(renderSpan)}
          {!hasMore && more}
        </p>
        {verdict.code !== null && !isNamedBelow && <Code report={report} code={verdict.code} />}
        {children}
        <Doubts report={report} more={hasMore && verdict.more.length > 0 ? <p>{more}</p> : null} />
      </div>
      <StepChart report={report}>{phases}</StepChart>
    </section>
  );
}

interface DoubtsProps {
  readonly report: ReportContext;
  /** What stands behind the gravest doubt, besides the others. */
  readonly more?: ComponentChildren;
}

/** The gravest doubt; the others, and what else is known, behind it. */
export function Doubts({ report, more = null }: DoubtsProps) {
  const { doubts } = report.source.header.verdict;
  const isOpen = useSignal(false);
  const { isPrinted } = report.look.value;
  if (doubts[0] === undefined && more === null) return null;
  const isWhole = isOpen.value || isPrinted;
  const shown = isWhole ? doubts : doubts.slice(0, 1);
  return (
    <div class="tp-doubts">
      {shown.map((doubt) => (
        <p key={doubt} class="tp-doubt">
          <span class="tp-warning" aria-hidden="true">
            ▲
          </span>{" "}
          {doubt}
        </p>
      ))}
      {isWhole && more}
      {(doubts.length > 1 || more !== null) && !isPrinted && (
        <Button
          class="tp-link"
          aria-expanded={isOpen.value}
          onClick={() => {
            isOpen.value = !isOpen.value;
          }}
        >
          {isOpen.value ? "Less" : "More about this"}
        </Button>
      )}
    </div>
  );
}

type CodeLine = NonNullable<ReportContext["source"]["header"]["verdict"]["code"]>;

/** The line that the verdict names; opens the view that shows it. */
function Code({ report, code }: { readonly report: ReportContext; readonly code: CodeLine }) {
  const view = report.source.header.views.find(
    (each) => each.shape === "table" && each.columns.some((column) => column.is_verbatim),
  );
  const open = () => {
    if (view !== undefined) revealIn(report.store, view.name, code.spot);
  };
  return (
    <Button class="tp-code-line" onClick={open}>
      <span class="tp-line-number">{code.line}</span>
      <bdi class="tp-code">{code.source}</bdi>
    </Button>
  );
}

export function renderSpan({ text: written, style }: Span, index: number) {
  const key = `${index}`;
  const span = { style, text: unbroken(written) };
  switch (span.style) {
    case "strong":
      return <strong key={key}>{span.text}</strong>;
    case "code":
      return (
        <code key={key} title={span.text}>
          {shortenName(span.text, NAME_CHARS)}
        </code>
      );
    default:
      return span.text;
  }
}

/** A line shown when data was lost; opens the list of problems. */
export function Notice({ report }: { readonly report: ReportContext }) {
  if (report.source.header.notice === "") return null;
  const open = () => {
    report.store.isAboutOpen.value = true;
    const tabs = tabsOf(report);
    const first =
      tabs.find(({ shape }) => shape === "facts") ?? tabs.find(({ shape }) => shape === "problems");
    if (first !== undefined) report.store.view.value = first.name;
  };
  return (
    <Button class="tp-notice" onClick={open}>
      <span class="tp-warning" aria-hidden="true">
        ▲
      </span>
      <span>{report.source.header.notice}</span>
    </Button>
  );
}
