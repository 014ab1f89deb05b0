/** The problems of a recording, most severe first, each with what to do about it. */

import { formatCount } from "../../base/format";
import type { Problem, ProblemsHeader } from "../../wire/header";

const TITLES: Readonly<Record<Problem["severity"], string>> = {
  data_loss: "Data lost",
  warning: "Warning",
  info: "Info",
};

export function ProblemsView({ view }: { readonly view: ProblemsHeader }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the list scrolls, so it must be reachable by keyboard.
    <ul class="tp-notes" tabIndex={0} aria-label={view.title} data-lm-suppress-shortcuts="true">
      {view.problems.map((problem, index) => (
        <Note key={`${index}`} problem={problem} />
      ))}
    </ul>
  );
}

function Note({ problem }: { readonly problem: Problem }) {
  const { severity, code, message, count, fix } = problem;
  return (
    <li class={`tp-note tp-note-${severity}`} data-tp-note={code}>
      <span class="tp-note-severity">{TITLES[severity]}</span>
      <div class="tp-note-words">
        <p class="tp-note-message">
          {message}
          {count > 1 && <span class="tp-note-count"> {formatCount(count)} times</span>}
        </p>
        {fix !== "" && <p class="tp-note-fix">{fix}</p>}
      </div>
      <code class="tp-note-code">{code}</code>
    </li>
  );
}
