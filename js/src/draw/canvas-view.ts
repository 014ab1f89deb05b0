/** A canvas that fits its box and draws at most once per animation frame. */

import { toDevicePx } from "../base/scale";
import { type Px, px } from "../base/units";

export interface CanvasSize {
  readonly width: Px;
  readonly height: Px;
}

export type Redraw = (context: CanvasRenderingContext2D, size: CanvasSize) => void;

/** Keeps a canvas as large as its box and as sharp as the screen; drawing happens only in `redraw`. */
export class CanvasView {
  readonly #canvas: HTMLCanvasElement;
  readonly #redraw: Redraw;
  #frame = 0;
  #size: CanvasSize = { width: px(0), height: px(0) };

  constructor(canvas: HTMLCanvasElement, redraw: Redraw, signal: AbortSignal) {
    this.#canvas = canvas;
    this.#redraw = redraw;
    const observer = new ResizeObserver(() => this.#measure());
    observer.observe(canvas);
    // The only event when devicePixelRatio changes because the window moved to another screen or was zoomed.
    window.addEventListener("resize", () => this.requestRedraw(), { signal });
    signal.addEventListener("abort", () => {
      observer.disconnect();
      cancelAnimationFrame(this.#frame);
    });
    this.#measure();
  }

  /** Requests a redraw in the next animation frame; further calls before it have no effect. */
  requestRedraw(): void {
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#paint();
    });
  }

  get size(): CanvasSize {
    return this.#size;
  }

  #measure(): void {
    const { clientWidth, clientHeight } = this.#canvas;
    this.#size = { width: px(clientWidth), height: px(clientHeight) };
    this.requestRedraw();
  }

  #paint(): void {
    const context = this.#canvas.getContext("2d");
    const { width, height } = this.#size;
    if (context === null || width === 0 || height === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const deviceWidth = toDevicePx(width, ratio);
    const deviceHeight = toDevicePx(height, ratio);
    if (this.#canvas.width !== deviceWidth) this.#canvas.width = deviceWidth;
    if (this.#canvas.height !== deviceHeight) this.#canvas.height = deviceHeight;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.#redraw(context, this.#size);
  }
}
