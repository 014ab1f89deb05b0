/** The first row of a report: its cell, steps and machine, the export menu, and the button that fills the window. */

import { useSignal } from "@preact/signals";
import { ALL_RANKS } from "../../state/python-sync";
import { Button } from "../common/button";
import { type ReportContext, shownView } from "../common/context";
import { CompareMenu } from "../compare/compare-menu";
import { ExportMenu } from "./export-menu";

/** The color of a change by the sign that its line begins with. */
const CHANGES: Readonly<Record<string, string>> = { "▼": "tp-faster-text", "▲": "tp-slower-text" };

export function Header({ report }: { readonly report: ReportContext }) {
  const { title, subtitle, code, machine, change, change_line: changeLine } = report.source.header;
  const since = change?.runs.map((run) => run.title).join(" → ") ?? "Since the last run";
  // While the recorded loop runs, in the place of the machine: nothing moves when it has ended.
  const progress = report.progress.value;
  return (
    <header class="tp-header">
      <Parent report={report} />
      <span class="tp-title" title={title}>
        {title}
      </span>
      {/* The rest is in its tooltip, and in "About this run". */}
      <span class="tp-subtitle" title={[subtitle, code].join(" ").trim()}>
        {subtitle.replace(/(?<= recorded),.*/s, "")}
        {code !== "" && <code>{code}</code>}
      </span>
      {/* The tab Compare begins with it. */}
      {changeLine !== "" && shownView(report)?.tab !== "compare" && (
        <span
          class={`tp-change-line ${CHANGES[changeLine.slice(0, 1)] ?? ""}`}
          title={`${since}: ${changeLine}`}
        >
          {changeLine}
        </span>
      )}
      {progress === "" ? (
        <span class="tp-machine" title={machine}>
          {machine}
        </span>
      ) : (
        <span class="tp-machine tp-progress" role="status" title={progress}>
          {progress}
        </span>
      )}
      <BackAndForward report={report} />
      {report.source.canCompare && <CompareMenu report={report} />}
      {report.source.exports.length > 0 && <ExportMenu report={report} />}
      <MaximizeButton report={report} />
    </header>
  );
}

/** Leads back to the page that this one was opened from. */
function Parent({ report }: { readonly report: ReportContext }) {
  const failure = useSignal("");
  const { parent } = report.source.header;
  if (parent === "" || !report.source.canAnswer) return null;
  const open = () =>
    void report.source.openRank(ALL_RANKS).then((opened) => {
      if (!opened.ok) failure.value = opened.message;
    });
  return (
    <Button class="tp-button" title={failure.value} onClick={open} data-tp-parent>
      ‹ {parent}
    </Button>
  );
}

/** Walks through what was shown: views, selections and ranges. */
function BackAndForward({ report }: { readonly report: ReportContext }) {
  const { trail } = report.store;
  if (!trail.canGoBack.value && !trail.canGoForward.value) return null;
  const button = (label: string, mark: string, isPossible: boolean, go: () => void) => (
    <Button class="tp-button" aria-label={label} title={label} disabled={!isPossible} onClick={go}>
      {mark}
    </Button>
  );
  return (
    <span class="tp-trail">
      {button("Back", "‹", trail.canGoBack.value, () => trail.go(-1))}
      {button("Forward", "›", trail.canGoForward.value, () => trail.go(1))}
    </span>
  );
}

function MaximizeButton({ report }: { readonly report: ReportContext }) {
  const { isMaximized } = report.store;
  if (!report.canMaximize) return null;
  const label = isMaximized.value ? "Back to the notebook (Esc)" : "Fill the window (M)";
  return (
    <Button
      class="tp-button tp-maximize"
      aria-label={label}
      aria-pressed={isMaximized.value}
      title={label}
      onClick={() => {
        isMaximized.value = !isMaximized.value;
      }}
    >
      <svg
        width="11"
        height="11"
        viewBox="0 0 11 11"
        fill="none"
        stroke="currentColor"
        stroke-width="1.3"
        aria-hidden="true"
      >
        <path
          d={
            isMaximized.value
              ? "M4.5 1v3.5H1M6.5 10V6.5H10"
              : "M6.5 1H10v3.5M4.5 10H1V6.5M10 1 6.5 4.5M1 10l3.5-3.5"
          }
        />
      </svg>
    </Button>
  );
}
