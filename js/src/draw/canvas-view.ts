/** A canvas that fits its box and draws at most once per animation frame. */

import { toDevicePx } from "../base/scale";
import { type Px, px } from "../base/units";
import { screenScale } from "./screen-scale";

export interface CanvasSize {
  readonly width: Px;
  readonly height: Px;
}

export type Redraw = (context: CanvasRenderingContext2D, size: CanvasSize) => void;

/**
 * Keeps a canvas as large as its box and as sharp as the screen; drawing happens only in `redraw`. `data-tp-painted`
 * counts the pictures.
 */
export class CanvasView {
  readonly #canvas: HTMLCanvasElement;
  readonly #redraw: Redraw;
  #frame = 0;
  #painted = 0;
  #size: CanvasSize = { width: px(0), height: px(0) };

  constructor(canvas: HTMLCanvasElement, redraw: Redraw, signal: AbortSignal) {
    this.#canvas = canvas;
    this.#redraw = redraw;
    const observer = new ResizeObserver(() => this.#measure());
    observeScreenPx(observer, canvas);
    // Where only the box is observed: devicePixelRatio changes when the window is zoomed.
    window.addEventListener("resize", () => this.requestRedraw(), { signal });
    // No animation frame comes between this event and the paper.
    window.addEventListener("beforeprint", () => queueMicrotask(() => this.#paintNow()), {
      signal,
    });
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
    this.#readSize();
    this.requestRedraw();
  }

  #readSize(): void {
    const { clientWidth, clientHeight } = this.#canvas;
    this.#size = { width: px(clientWidth), height: px(clientHeight) };
  }

  #paintNow(): void {
    this.#readSize();
    this.#paint();
  }

  #paint(): void {
    const context = this.#canvas.getContext("2d");
    const { width, height } = this.#size;
    if (context === null || width === 0 || height === 0) return;
    const ratio = (window.devicePixelRatio || 1) * screenScale(this.#canvas);
    const deviceWidth = toDevicePx(width, ratio);
    const deviceHeight = toDevicePx(height, ratio);
    if (this.#canvas.width !== deviceWidth) this.#canvas.width = deviceWidth;
    if (this.#canvas.height !== deviceHeight) this.#canvas.height = deviceHeight;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.#redraw(context, this.#size);
    this.#painted += 1;
    this.#canvas.dataset.tpPainted = String(this.#painted);
  }
}

/** Observes the pixels of the screen that a canvas takes, where the browser can: they change with any zoom. */
export function observeScreenPx(observer: ResizeObserver, element: Element): void {
  try {
    observer.observe(element, { box: "device-pixel-content-box" });
  } catch {
    observer.observe(element);
  }
}
