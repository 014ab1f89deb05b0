/** The search of a timeline: its matches, and the way from one to the next. */

import { computed, effect, type ReadonlySignal } from "@preact/signals";
import type { SearchAnswer } from "../../state/slice-source";
import type { FoundFacts, SearchQuestion } from "../../wire/questions";
import type { TimelineMoves } from "./timeline-moves";
import { parseQuery, type SliceMatches, searchSlices } from "./timeline-search";

/** How many slices match, what they come to, and which of them is the current one, -1 for none. */
export interface Found {
  readonly count: number;
  readonly ns: number;
  readonly at: number;
}

export interface Finder {
  /** The matches in the picture. */
  readonly marks: ReadonlySignal<SliceMatches | null>;
  /** Null without a query, or before it is answered. */
  readonly found: ReadonlySignal<Found | null>;
  /** Goes to the match so many after the current one. */
  step(by: number): void;
  /** Goes to the first match in the window, or the first of all. */
  goToNearest(): void;
  /** Follows the query until the returned function is called. */
  follow(): () => void;
}

/** Shows a slice, which need not be known yet. */
export type ShowFound = (slice: number, facts: FoundFacts | null) => void;

/** Searches in the page, or asks for the matches where it has only parts of the recording. */
export function createFinder(
  moves: TimelineMoves,
  query: ReadonlySignal<string>,
  show: ShowFound,
): Finder {
  const marks = computed(() => searchSlices(moves.model, moves.layer, query.value));
  return moves.models.source === null
    ? ownFinder(moves, marks, show)
    : new AskingFinder(moves, query, marks, show);
}

function ownFinder(
  moves: TimelineMoves,
  marks: ReadonlySignal<SliceMatches | null>,
  show: ShowFound,
): Finder {
  const { match } = moves.state;
  const slices = computed(() => {
    const rows = marks.value?.rows ?? null;
    return rows === null ? null : Array.from(rows, (row) => moves.model.sliceAt(row));
  });
  const found = computed(() => {
    if (marks.value === null || slices.value === null) return null;
    const { rows, ns } = marks.value;
    return { count: rows.length, ns, at: slices.value.indexOf(match.value) };
  });
  const goTo = (at: number) => {
    const all = slices.value ?? [];
    const slice = all.at(at % Math.max(1, all.length));
    if (slice === undefined) return;
    match.value = slice;
    show(slice, null);
  };
  return {
    marks,
    found,
    step: (by) => goTo((found.value?.at ?? -1) + by),
    goToNearest: () => goTo(nearest(moves, marks.value?.rows)),
    follow: () => () => {},
  };
}

/** The position of the first match in the window, or the first of all. */
function nearest(moves: TimelineMoves, rows: Int32Array | undefined): number {
  const { start, end } = moves.span;
  const at = (rows ?? new Int32Array(0)).findIndex((row) => {
    const begin = moves.model.start[row] ?? 0;
    return begin >= start && begin < end;
  });
  return Math.max(0, at);
}

class AskingFinder implements Finder {
  readonly marks: ReadonlySignal<SliceMatches | null>;
  readonly found: ReadonlySignal<Found | null>;
  readonly #moves: TimelineMoves;
  readonly #query: ReadonlySignal<string>;
  readonly #show: ShowFound;
  /** What was asked in order to go there. */
  #going: SearchQuestion | null = null;

  constructor(
    moves: TimelineMoves,
    query: ReadonlySignal<string>,
    marks: ReadonlySignal<SliceMatches | null>,
    show: ShowFound,
  ) {
    this.marks = marks;
    this.#moves = moves;
    this.#query = query;
    this.#show = show;
    this.found = computed(() => this.#found());
  }

  step(by: number): void {
    const at = this.found.peek()?.at ?? -1;
    // Before the first match the one before is the last.
    this.#go({ at: at < 0 && by < 0 ? -1 : at + by });
  }

  goToNearest(): void {
    const { start, end } = this.#moves.span;
    this.#go({ at: null, start_ns: start, end_ns: end });
  }

  follow(): () => void {
    const search = this.#moves.models.source?.search;
    const stopAsking = effect(() => {
      this.#going = null;
      search?.want(this.#question());
    });
    const stopShowing = effect(() => {
      const answered = search?.answered.value ?? null;
      if (answered !== null && answered.wish === this.#going) this.#arrive(answered.answer);
    });
    return () => {
      stopAsking();
      stopShowing();
    };
  }

  #go(to: Partial<SearchQuestion>): void {
    const question = this.#question();
    const search = this.#moves.models.source?.search;
    if (question === null || search === undefined) return;
    this.#going = { ...question, ...to };
    const known = search.answerTo(this.#going);
    if (known !== null) this.#arrive(known);
    else search.want(this.#going);
  }

  #arrive({ found }: SearchAnswer): void {
    this.#going = null;
    if (found === null) return;
    this.#moves.state.match.value = found.slice;
    this.#show(found.slice, found);
  }

  /** What is searched; null without a query. */
  #question(): SearchQuestion | null {
    if (this.#query.value.trim() === "") return null;
    const { text, isWait, least, most } = parseQuery(this.#query.value);
    return {
      kind: "search",
      layer: this.#moves.chosenLayer,
      text,
      is_wait: isWait,
      least_ns: least,
      most_ns: Number.isFinite(most) ? most : null,
      start_ns: 0,
      end_ns: 0,
      at: null,
    };
  }

  #found(): Found | null {
    const question = this.#question();
    const answered = this.#moves.models.source?.search.answered.value ?? null;
    if (question === null || answered === null) return null;
    const { wish, answer } = answered;
    const isSame = (["layer", "text", "is_wait", "least_ns", "most_ns"] as const).every(
      (name) => wish[name] === question[name],
    );
    if (!isSame) return null;
    const isCurrent = answer.found !== null && answer.found.slice === this.#moves.state.match.value;
    return { count: answer.count, ns: answer.ns, at: isCurrent ? answer.at : -1 };
  }
}
