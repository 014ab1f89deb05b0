/** The whole of a graph in a strip, with a frame around the part that is shown; a press moves the part there. */

import { cssColor } from "../base/color";
import type { Theme } from "../base/palette";
import { linearScale, type Scale, type Span } from "../base/scale";
import { px } from "../base/units";
import { type CanvasSize, CanvasView } from "./canvas-view";
import { type Colors, readColors } from "./colors";
import { KeptPicture } from "./kept-picture";
import { pointOn } from "./screen-scale";

const LEAST_WINDOW_PX = 4;

export interface MinimapBrush<Unit extends number> {
  readonly context: CanvasRenderingContext2D;
  readonly size: CanvasSize;
  readonly scale: Scale<Unit>;
  readonly colors: Colors;
}

export interface MinimapScene<Unit extends number> {
  readonly theme: Theme;
  readonly whole: Span<Unit>;
  /** The part that is shown. */
  readonly span: Span<Unit>;
  /** What the picture of the whole depends on. */
  readonly of: readonly unknown[];
  paintWhole(brush: MinimapBrush<Unit>): void;
}

/** Keeps a picture of the whole, and draws the frame over it, until `abort`. */
export class Minimap<Unit extends number> {
  readonly #canvas: HTMLCanvasElement;
  readonly #sceneOf: () => MinimapScene<Unit>;
  readonly #view: CanvasView;
  readonly #whole = new KeptPicture();

  constructor(
    canvas: HTMLCanvasElement,
    sceneOf: () => MinimapScene<Unit>,
    panBy: (delta: Unit) => void,
    signal: AbortSignal,
  ) {
    this.#canvas = canvas;
    this.#sceneOf = sceneOf;
    this.#view = new CanvasView(canvas, (context, size) => this.#paint(context, size), signal);
    const go = (event: PointerEvent) => {
      if (event.buttons !== 1) return;
      const scene = sceneOf();
      const at = this.#scale(scene).fromPx(px(pointOn(canvas, event).x));
      panBy((at - (scene.span.start + scene.span.end) / 2) as Unit);
    };
    const press = (event: PointerEvent) => {
      canvas.setPointerCapture(event.pointerId);
      go(event);
    };
    canvas.addEventListener("pointerdown", press, { signal });
    canvas.addEventListener("pointermove", go, { signal });
  }

  redraw(): void {
    this.#view.requestRedraw();
  }

  #scale({ whole }: MinimapScene<Unit>): Scale<Unit> {
    return linearScale(whole, px(Math.max(1, this.#view.size.width)));
  }

  #paint(context: CanvasRenderingContext2D, size: CanvasSize): void {
    const scene = this.#sceneOf();
    const colors = readColors(this.#canvas, scene.theme);
    const scale = this.#scale(scene);
    this.#whole.paint(context, scene.of, () => scene.paintWhole({ context, size, scale, colors }));
    const left = scale.toPx(scene.span.start);
    const width = Math.max(LEAST_WINDOW_PX, scale.toPx(scene.span.end) - left);
    context.strokeStyle = cssColor(colors.accent);
    context.lineWidth = 2;
    context.strokeRect(Math.max(1, left), 1, Math.min(width, size.width - 2), size.height - 2);
  }
}
