/** A canvas that stays in its scrolling box while a spacer under it makes the box scroll. */

import type { CanvasSize } from "./canvas-view";

export interface ScrolledCanvas {
  readonly scroller: HTMLElement;
  /** As high as everything that can be scrolled to. */
  readonly spacer: HTMLElement;
}

/** Makes everything reachable, and marks the box while more is below what is shown. */
export function fitContent(parts: ScrolledCanvas, height: number, shown: CanvasSize): void {
  const { scroller, spacer } = parts;
  const wanted = `${height}px`;
  if (spacer.style.height !== wanted) {
    spacer.style.height = wanted;
    // On paper the canvas is as high as this.
    scroller.style.setProperty("--tp-content", wanted);
  }
  const hasMore = String(height - scroller.scrollTop - shown.height > 1);
  if (scroller.dataset.tpMore !== hasMore) scroller.dataset.tpMore = hasMore;
}
