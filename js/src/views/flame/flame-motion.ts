/** Animates the window to its new place: under 120 ms, and not at all where reduced motion is preferred. */

import type { Span } from "../../base/scale";
import { type Weight, weight } from "../../base/units";

const GLIDE_MS = 110;
const REDUCED_QUERY = "(prefers-reduced-motion: reduce)";

export class Motion {
  #from: Span<Weight> | null = null;
  #target: Span<Weight> | null = null;
  #began = 0;

  /** Starts towards `target`; from a standstill it is there at once. */
  aim(target: Span<Weight>, now: number): void {
    if (this.#target !== null && sameSpan(target, this.#target)) return;
    this.#from = wantsMotion() ? this.at(now) : null;
    this.#target = target;
    this.#began = now;
  }

  /** Goes to `target` without animation: a drag is smooth already, and another weight has other units. */
  jump(target: Span<Weight>): void {
    this.#from = null;
    this.#target = target;
  }

  isMoving(now: number): boolean {
    return this.#from !== null && now - this.#began < GLIDE_MS;
  }

  /** Where the window is now. */
  at(now: number): Span<Weight> | null {
    if (this.#from === null || this.#target === null || !this.isMoving(now)) return this.#target;
    const share = 1 - (1 - (now - this.#began) / GLIDE_MS) ** 3;
    return {
      start: weight(between(this.#from.start, this.#target.start, share)),
      end: weight(between(this.#from.end, this.#target.end, share)),
    };
  }
}

function between(from: number, to: number, share: number): number {
  return from + (to - from) * share;
}

function sameSpan(a: Span<Weight>, b: Span<Weight>): boolean {
  return a.start === b.start && a.end === b.end;
}

function wantsMotion(): boolean {
  return !window.matchMedia?.(REDUCED_QUERY).matches;
}
