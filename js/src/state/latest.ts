/** Answers to wishes that change faster than they are answered: one request at a time, the newest wish wins. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Result } from "../base/result";

export type AskState =
  | { readonly kind: "ready" }
  /** The answer takes so long that it is worth a word. */
  | { readonly kind: "loading" }
  | { readonly kind: "failed"; readonly message: string };

export interface Answered<W, A> {
  readonly wish: W;
  readonly answer: A;
}

// What takes longer is worth a word.
export const WORD_AFTER_MS = 300;
const RETRY_AFTER_MS = [1_000, 4_000, 16_000];
const READY: AskState = { kind: "ready" };

/** Asks for a wish; `onSlow` says why there is no answer yet, though one may still come. */
export type Ask<W, A> = (wish: W, onSlow: (message: string) => void) => Promise<Result<A>>;

/** `W` has only numbers and texts as fields. */
export class Latest<W extends object, A> {
  readonly #ask: Ask<W, A>;
  readonly #abort: AbortSignal;
  readonly #answered: Signal<Answered<W, A> | null> = signal(null);
  readonly #state: Signal<AskState> = signal(READY);
  #wish: W | null = null;
  #isAsking = false;
  #turn = 0;
  #failures = 0;
  #word: ReturnType<typeof setTimeout> | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(ask: Ask<W, A>, abort: AbortSignal) {
    this.#ask = ask;
    this.#abort = abort;
    abort.addEventListener("abort", () => this.#rest(), { once: true });
  }

  /** The last answer, which may be to an older wish. */
  get answered(): ReadonlySignal<Answered<W, A> | null> {
    return this.#answered;
  }

  /** How it stands with the newest wish. */
  get state(): ReadonlySignal<AskState> {
    return this.#state;
  }

  /** The answer to this very wish, if it is there. */
  answerTo(wish: W | null): A | null {
    const found = this.#answered.value;
    return wish !== null && found !== null && isSame(found.wish, wish) ? found.answer : null;
  }

  /** Asks, unless this is asked already; null when nothing is wanted any longer. */
  want(wish: W | null): void {
    if (wish !== null && this.#wish !== null && isSame(wish, this.#wish)) return;
    this.#wish = wish;
    this.#failures = 0;
    clearTimeout(this.#retry);
    if (!this.#isAsking) void this.#next();
  }

  /** Asks again after a failure, or when an answer is slow. */
  retry(): void {
    if (this.#state.peek().kind !== "failed") return;
    this.#failures = 0;
    this.#rest();
    this.#state.value = { kind: "loading" };
    void this.#next();
  }

  async #next(): Promise<void> {
    const wish = this.#wish;
    if (wish === null || this.#isAnswered(wish)) {
      this.#rest();
      this.#state.value = READY;
      return;
    }
    this.#isAsking = true;
    this.#word ??= setTimeout(() => {
      this.#state.value = { kind: "loading" };
    }, WORD_AFTER_MS);
    this.#turn += 1;
    const turn = this.#turn;
    const result = await this.#ask(wish, (message) => this.#say(message, turn));
    if (turn !== this.#turn) return;
    this.#isAsking = false;
    if (this.#abort.aborted) return;
    if (result.ok) this.#answered.value = { wish, answer: result.value };
    else if (this.#wish === wish) {
      this.#fail(result.message);
      return;
    }
    await this.#next();
  }

  #isAnswered(wish: W): boolean {
    const found = this.#answered.peek();
    return found !== null && isSame(found.wish, wish);
  }

  /** Says what is wrong with the newest question; an older one has been asked again. */
  #say(message: string, turn: number): void {
    if (turn !== this.#turn || this.#abort.aborted) return;
    this.#rest();
    this.#state.value = { kind: "failed", message };
  }

  #fail(message: string): void {
    this.#say(message, this.#turn);
    const after = RETRY_AFTER_MS[this.#failures];
    this.#failures += 1;
    if (after !== undefined) this.#retry = setTimeout(() => void this.#next(), after);
  }

  #rest(): void {
    clearTimeout(this.#word);
    clearTimeout(this.#retry);
    this.#word = undefined;
  }
}

function isSame(a: object, b: object): boolean {
  const other = new Map(Object.entries(b));
  return Object.entries(a).every(([name, value]) => Object.is(other.get(name), value));
}
