/** The fills of boxes: hue is the phase, tone says whose code it is. */

import { cssColor, mix, parseColor, type Rgb, textOn } from "../base/color";
import { isWaiting, phaseColor } from "../base/palette";
import type { TextColumn } from "../wire/frame";
import type { Colors } from "./colors";

export interface Fill {
  readonly box: string;
  readonly text: string;
  readonly rgb: Rgb;
  /** The lines over the ground of a box of waiting, and its ground; null for all others. */
  readonly hatch: { readonly line: string; readonly ground: string } | null;
}

// How much of the hue is in the fill; the rest is the background.
const TONES = new Map([
  ["op", 0.58],
  ["runtime", 0.58],
  ["kernel", 1],
  ["memcpy", 0.7],
  ["memset", 0.7],
  ["library", 0.34],
]);
// On a dark ground, pale boxes need more of their hue to be seen.
const DARK_TONES = new Map([
  ["op", 0.7],
  ["runtime", 0.7],
  ["library", 0.5],
]);
// In a flame graph, kernels are below the ops that launched them.
export const FLAME_KERNEL_TONE = 0.4;

export function fillOf(rgb: Rgb): Fill {
  return { box: cssColor(rgb), text: cssColor(textOn(rgb)), rgb, hatch: null };
}

const HATCH_TONE = 0.75;
const GROUND_TONE = 0.4;

/** Waiting is hatched without a hue, as that of the device is; where there is no room for lines it is grey. */
function waitingFill(rgb: Rgb, { background, muted, line, text }: Colors): Fill {
  const hatch = {
    line: cssColor(mix(background, muted, HATCH_TONE)),
    ground: cssColor(mix(background, line, GROUND_TONE)),
  };
  return { box: cssColor(rgb), text: cssColor(text), rgb, hatch };
}

/** The color of a phase in the tone of a kind of box. */
function toned(phase: string, kind: string, colors: Colors, kernelTone = 1): Rgb {
  if (kind === "root") return colors.neutral;
  const hue = parseColor(phaseColor(phase, colors.theme)) ?? colors.neutral;
  const dark = colors.theme === "dark" ? DARK_TONES.get(kind) : undefined;
  const tone = kind === "kernel" ? kernelTone : (dark ?? TONES.get(kind) ?? 1);
  return mix(colors.background, hue, tone);
}

/** The fill of every pair of phase and kind, mixed once per theme. */
export class FillTable {
  readonly #fills = new Map<number, Fill>();
  readonly #phases: TextColumn;
  readonly #kinds: TextColumn;
  readonly #colors: Colors;
  readonly #kernelTone: number;

  constructor(phases: TextColumn, kinds: TextColumn, colors: Colors, kernelTone = 1) {
    this.#kernelTone = kernelTone;
    this.#phases = phases;
    this.#kinds = kinds;
    this.#colors = colors;
  }

  /** That of waiting, whatever the phase. */
  get waiting(): Fill {
    return waitingFill(toned("waiting", "", this.#colors), this.#colors);
  }

  /** A number for each fill. */
  idOf(row: number): number {
    const phase = this.#phases.keys[row] ?? -1;
    const kind = this.#kinds.keys[row] ?? -1;
    return (phase + 1) * (this.#kinds.words.length + 1) + kind + 1;
  }

  at(row: number): Fill {
    const id = this.idOf(row);
    const known = this.#fills.get(id);
    if (known !== undefined) return known;
    const phase = this.#phases.words[this.#phases.keys[row] ?? -1] ?? "";
    const kind = this.#kinds.words[this.#kinds.keys[row] ?? -1] ?? "";
    const rgb = toned(phase, kind, this.#colors, this.#kernelTone);
    const isHatched = isWaiting(phase) || kind === "blocking";
    const made = isHatched ? waitingFill(rgb, this.#colors) : fillOf(rgb);
    this.#fills.set(id, made);
    return made;
  }
}
