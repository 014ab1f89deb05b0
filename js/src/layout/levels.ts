/** Answers where the next large number of a list is, without looking at each. */

const FANOUT = 32;

/** The largest number of every 32, of every 32 of these, and so on. */
export class Levels {
  readonly #levels: readonly Float64Array[];

  constructor(values: Float64Array) {
    const levels = [values];
    let below = values;
    while (below.length > FANOUT) {
      below = condensed(below);
      levels.push(below);
    }
    this.#levels = levels;
  }

  /** The first position from `from` on with at least `least`; the length of the list when there is none. */
  nextAtLeast(from: number, least: number): number {
    const top = this.#levels.length - 1;
    let level = 0;
    for (let at = from; ; ) {
      const values = this.#levels[level];
      if (values === undefined || at >= values.length) return this.#levels[0]?.length ?? 0;
      if ((values[at] ?? -Infinity) >= least) {
        if (level === 0) return at;
        level -= 1;
        at *= FANOUT;
        continue;
      }
      at += 1;
      // At the edge of a block, whole blocks are skipped.
      while (level < top && at % FANOUT === 0) {
        at /= FANOUT;
        level += 1;
      }
    }
  }

  /** The largest of all numbers. */
  get largest(): number {
    return this.largestIn(0, this.#levels[0]?.length ?? 0);
  }

  /** The largest number from `from` to before `to`. */
  largestIn(from: number, to: number): number {
    let most = -Infinity;
    let low = from;
    let high = to;
    const top = this.#levels.at(-1);
    for (const values of this.#levels) {
      // Nothing stands above the last level, so all of it is looked at.
      while (low < high && (low % FANOUT !== 0 || values === top)) {
        most = Math.max(most, values[low] ?? -Infinity);
        low += 1;
      }
      while (low < high && high % FANOUT !== 0) {
        high -= 1;
        most = Math.max(most, values[high] ?? -Infinity);
      }
      if (low >= high) break;
      low /= FANOUT;
      high /= FANOUT;
    }
    return most;
  }
}

function condensed(values: Float64Array): Float64Array {
  const made = new Float64Array(Math.ceil(values.length / FANOUT)).fill(-Infinity);
  values.forEach((value, at) => {
    const block = Math.floor(at / FANOUT);
    if (value > (made[block] ?? -Infinity)) made[block] = value;
  });
  return made;
}
