/** The verdict as text, with the step bars next to it, and a notice above it when data was lost. */

import type { Span } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { focusable } from "../common/focusable";
import { StepBars } from "./step-bars";

export function Verdict({ report }: { readonly report: ReportContext }) {
  const { verdict, notice } = report.source.header;
  return (
    <>
      {notice !== "" && <Notice report={report} />}
      <section class="tp-verdict" aria-label="Verdict">
        <div class="tp-verdict-words">
          {verdict.title !== "" && <h2>{verdict.title}</h2>}
          <p>{verdict.text.map(renderSpan)}</p>
          {verdict.code !== null && <Code report={report} code={verdict.code} />}
          {verdict.doubts[0] !== undefined && (
            <p class="tp-doubt" title={verdict.doubts.join("\n")}>
              <span class="tp-warning" aria-hidden="true">
                ▲
              </span>{" "}
              {verdict.doubts[0]}
            </p>
          )}
        </div>
        <StepBars report={report} />
      </section>
    </>
  );
}

type CodeLine = NonNullable<ReportContext["source"]["header"]["verdict"]["code"]>;

/** The line that the verdict names; opens the view that shows it. */
function Code({ report, code }: { readonly report: ReportContext; readonly code: CodeLine }) {
  const view = report.source.header.views.find(
    (each) => each.shape === "table" && each.columns.some((column) => column.verbatim),
  );
  const open = () => {
    if (view === undefined) return;
    report.store.view.value = view.name;
  };
  return (
    <button type="button" class="tp-code-line" onClick={open} {...focusable()}>
      <span class="tp-line-number">{code.line}</span>
      <bdi class="tp-code">{code.source}</bdi>
    </button>
  );
}

function renderSpan(span: Span, index: number) {
  const key = `${index}`;
  switch (span.style) {
    case "strong":
      return <strong key={key}>{span.text}</strong>;
    case "code":
      return <code key={key}>{span.text}</code>;
    default:
      return span.text;
  }
}

/** A line shown when data was lost; links to the view that lists the problems. */
function Notice({ report }: { readonly report: ReportContext }) {
  const open = () => {
    const list = report.source.header.views.find((view) => view.shape === "problems");
    if (list !== undefined) report.store.view.value = list.name;
  };
  return (
    <button type="button" class="tp-notice" onClick={open} {...focusable()}>
      <span class="tp-warning" aria-hidden="true">
        ▲
      </span>
      <span>{report.source.header.notice}</span>
    </button>
  );
}
