/** The windows of a timeline that is too long for the page: asked from the kernel, with margins, some of them kept. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { type Result, success } from "../base/result";
import type { Span } from "../base/scale";
import type { Frame } from "../wire/frame";
import { type AskState, Latest } from "./latest";

/** What is to be seen. */
export interface WindowWish {
  readonly layer: string;
  readonly start: number;
  readonly end: number;
  readonly pixels: number;
}

/** A part of a recording: its slices from `start` to `end`, those shorter than `bucket` merged. */
export interface LoadedWindow {
  readonly frame: Frame;
  readonly layer: string;
  readonly start: number;
  readonly end: number;
  readonly bucket: number;
  /** Whether no slice is merged. */
  readonly isExact: boolean;
  /** The length of a pixel that was asked for; a crowded window has longer buckets. */
  readonly perPixel: number;
}

const MOST_KEPT = 8;
// With less room than this part of the window on a side, the next window is asked for.
const ROOM = 0.15;
const READY: AskState = { kind: "ready" };

export class Windows {
  readonly #whole: Span<number>;
  readonly #latest: Latest<WindowWish, LoadedWindow>;
  readonly #shown: Signal<LoadedWindow | null> = signal(null);
  readonly #isComplete = signal(false);
  /** The newest first. */
  #kept: readonly LoadedWindow[] = [];
  #wish: WindowWish | null = null;
  /** Whether an answer is late, or why there is none. */
  readonly state: ReadonlySignal<AskState>;

  constructor(
    whole: Span<number>,
    ask: (wish: WindowWish) => Promise<Result<LoadedWindow>>,
    abort: AbortSignal,
  ) {
    this.#whole = whole;
    this.#latest = new Latest(async (wish) => {
      const result = await ask(wish);
      if (result.ok && !abort.aborted) this.#keep(result.value);
      return result.ok ? success(result.value) : result;
    }, abort);
    this.state = computed(() => (this.#isComplete.value ? READY : this.#latest.state.value));
  }

  /** Whether the shown window answers the newest wish. */
  get isComplete(): ReadonlySignal<boolean> {
    return this.#isComplete;
  }

  /** The best window so far; null before the first. */
  get shown(): ReadonlySignal<LoadedWindow | null> {
    return this.#shown;
  }

  want(wish: WindowWish): void {
    this.#wish = wish;
    const best = this.#show(wish);
    this.#latest.want(best !== null && this.#isRoomy(best, wish) ? null : wish);
  }

  #keep(window: LoadedWindow): void {
    this.#kept = [window, ...this.#kept].slice(0, MOST_KEPT);
    // A window that is not the newest wish is nearer to it than what was shown before.
    const best = this.#wish === null ? null : this.#show(this.#wish);
    if (best === null) this.#shown.value = window;
  }

  /** Shows a kept window that answers a wish; null when there is none. */
  #show(wish: WindowWish): LoadedWindow | null {
    const best = this.#kept.find((each) => this.#answers(each, wish)) ?? null;
    this.#isComplete.value = best !== null;
    if (best === null) return null;
    this.#kept = [best, ...this.#kept.filter((each) => each !== best)];
    this.#shown.value = best;
    return best;
  }

  #answers(window: LoadedWindow, wish: WindowWish): boolean {
    const perPixel = (wish.end - wish.start) / wish.pixels;
    return (
      window.layer === wish.layer &&
      window.start <= Math.max(wish.start, this.#whole.start) &&
      window.end >= Math.min(wish.end, this.#whole.end) &&
      (window.isExact || Math.min(window.bucket, window.perPixel) <= perPixel)
    );
  }

  #isRoomy(window: LoadedWindow, { start, end }: WindowWish): boolean {
    const room = ROOM * (end - start);
    return (
      window.start <= Math.max(start - room, this.#whole.start) &&
      window.end >= Math.min(end + room, this.#whole.end)
    );
  }
}
