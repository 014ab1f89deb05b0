/** The problems of a recording, the worst first, each with what to do about it. */

import { formatCount } from "../../base/format";
import { type Frame, numberAt, rowsOf, stringAt } from "../../wire/frame";
import type { ViewProps } from "../common/context";

/** Worst first. */
const SEVERITIES = ["data_loss", "warning", "info"] as const;
type Severity = (typeof SEVERITIES)[number];

const TITLES: Readonly<Record<Severity, string>> = {
  data_loss: "Data lost",
  warning: "Warning",
  info: "Info",
};

export function NotesView({ frame }: ViewProps) {
  const ordered = rowsOf(frame).toSorted((a, b) => rankOf(frame, a) - rankOf(frame, b));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the list scrolls, so keys must reach it.
    <ul class="tp-notes" tabIndex={0} aria-label="Notes" data-lm-suppress-shortcuts="true">
      {ordered.map((row) => (
        <Note key={row} frame={frame} row={row} />
      ))}
    </ul>
  );
}

function severityOf(frame: Frame, row: number): Severity {
  const said = stringAt(frame, "severity", row);
  return SEVERITIES.find((severity) => severity === said) ?? "info";
}

function rankOf(frame: Frame, row: number): number {
  return SEVERITIES.indexOf(severityOf(frame, row));
}

function Note({ frame, row }: { readonly frame: Frame; readonly row: number }) {
  const severity = severityOf(frame, row);
  const count = numberAt(frame, "count", row);
  const fix = stringAt(frame, "fix", row);
  return (
    <li class={`tp-note tp-note-${severity}`} data-tp-note={stringAt(frame, "code", row)}>
      <span class="tp-note-severity">{TITLES[severity]}</span>
      <div class="tp-note-words">
        <p class="tp-note-message">
          {stringAt(frame, "message", row)}
          {count > 1 && <span class="tp-note-count"> {formatCount(count)} times</span>}
        </p>
        {fix !== "" && <p class="tp-note-fix">{fix}</p>}
      </div>
      <code class="tp-note-code">{stringAt(frame, "code", row)}</code>
    </li>
  );
}
