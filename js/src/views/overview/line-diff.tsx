/** A line of the user's as it is and, below it, as it should be. */

import type { LineChange } from "../../wire/header";

/** The old line is struck and the new one has its new part in bold, so that neither is told by its colour alone. */
export function LineDiff({ changes }: { readonly changes: readonly LineChange[] }) {
  if (changes.length === 0) return null;
  return (
    <div class="tp-diff">
      {changes.map(({ line, before, after }) => {
        const { start, end } = changedPart(before, after);
        return [
          <span key={`${line}-`} class="tp-diff-line">{`${line} −`}</span>,
          <del key={`${line} old`}>
            <bdi>{before}</bdi>
          </del>,
          <span key={`${line}+`} class="tp-diff-line">{`${line} +`}</span>,
          <ins key={`${line} new`}>
            <bdi>
              {after.slice(0, start)}
              <strong>{after.slice(start, end)}</strong>
              {after.slice(end)}
            </bdi>
          </ins>,
        ];
      })}
    </div>
  );
}

/** Where in the new line the part begins and ends that the old one has not. */
function changedPart(before: string, after: string): { start: number; end: number } {
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before[start] === after[start]) start += 1;
  let same = 0;
  while (same < shorter - start && before.at(-1 - same) === after.at(-1 - same)) same += 1;
  return { start, end: after.length - same };
}
