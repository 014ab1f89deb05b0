/** What the kernel counts in a range of time: why devices wait, or a view that follows it. */

import { useEffect } from "preact/hooks";
import type { Latest } from "../../state/latest";
import type { Part } from "../../wire/pull";

/** The answer to a question about a range; null before it is there, or where the page counts itself. */
export function useAsked<Q extends Part, A>(latest: Latest<Q, A> | null, question: Q): A | null {
  useEffect(() => latest?.want(question), [latest, question.start_ns, question.end_ns]);
  return latest?.answerTo(question) ?? null;
}
