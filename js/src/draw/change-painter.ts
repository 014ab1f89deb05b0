/** Paints what changed in a box of two runs: added time is solid, saved time hatched, so no color is needed to tell. */

import { cssColor, mix, parseColor } from "../base/color";
import { phaseColor } from "../base/palette";
import type { Numbers } from "../wire/frame";
import type { Colors } from "./colors";
import { type Fill, fillOf } from "./fills";
import { paintHatch } from "./hatch";

export interface TwoRuns {
  readonly before: Numbers;
  readonly after: Numbers;
}

const HATCH_PX = 5;
const GROUND_TONE = 0.2;
const HALO_PX = 3;

export class ChangeBrush {
  /** The fill of what both runs have. */
  readonly same: Fill;
  readonly #context: CanvasRenderingContext2D;
  readonly #added: string;
  readonly #saved: string;
  readonly #ground: string;

  constructor(context: CanvasRenderingContext2D, colors: Colors) {
    const color = (name: string) => parseColor(phaseColor(name, colors.theme)) ?? colors.neutral;
    this.#context = context;
    this.same = fillOf(color("same"));
    this.#added = cssColor(color("slower"));
    this.#saved = cssColor(color("faster"));
    this.#ground = cssColor(mix(colors.background, color("faster"), GROUND_TONE));
  }

  paint(isAdded: boolean, left: number, top: number, width: number, height: number): void {
    const context = this.#context;
    context.fillStyle = isAdded ? this.#added : this.#ground;
    context.fillRect(left, top, width, height);
    if (isAdded) return;
    context.strokeStyle = this.#saved;
    context.lineWidth = 1.2;
    paintHatch(context, left, top, width, height, HATCH_PX);
  }

  /** Separates a name from what is under it. */
  halo(text: string, x: number, y: number): void {
    const context = this.#context;
    context.lineWidth = HALO_PX;
    context.lineJoin = "round";
    context.strokeStyle = this.same.box;
    context.strokeText(text, x, y);
  }
}
