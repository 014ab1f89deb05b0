/** The rows of a long list that are in the page: TanStack's virtualizer as a hook. */

import { type Signal, useSignal } from "@preact/signals";
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

export const ROW_PX = 28;
// The header row stays above the rows while they scroll.
const HEADER_PX = 30;
const OVERSCAN_ROWS = 6;
const FIRST_HEIGHT_PX = 400;

export interface VirtualRows {
  /** Positions of the rows to put into the page. */
  items(): readonly number[];
  scrollTo(position: number): void;
  /** How many rows a page up or down moves. */
  pageRows(): number;
}

type Options = VirtualizerOptions<HTMLDivElement, HTMLDivElement>;

/** Rows of `scroller`; `scrollTop` outlives the view, so that a tab keeps its scroll position. */
export function useVirtualRows(
  scroller: RefObject<HTMLDivElement | null>,
  count: number,
  scrollTop: Signal<number>,
): VirtualRows {
  const tick = useSignal(0);
  // Subscribes the component: a scroll changes nothing else.
  tick.value;
  const options: Options = {
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN_ROWS,
    scrollPaddingEnd: HEADER_PX,
    initialRect: { width: 0, height: FIRST_HEIGHT_PX },
    initialOffset: scrollTop.peek(),
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: (instance) => {
      scrollTop.value = instance.scrollOffset ?? 0;
      tick.value = tick.peek() + 1;
    },
  };
  const [virtualizer] = useState(() => new Virtualizer(options));
  virtualizer.setOptions(options);
  useLayoutEffect(() => virtualizer._didMount(), []);
  useLayoutEffect(() => virtualizer._willUpdate());
  return {
    items: () => virtualizer.getVirtualItems().map((item) => item.index),
    scrollTo: (position) => {
      if (position >= 0) virtualizer.scrollToIndex(position, { align: "auto" });
    },
    pageRows: () => pageRows(scroller.current),
  };
}

function pageRows(scroller: HTMLElement | null): number {
  const height = (scroller?.clientHeight ?? 0) - HEADER_PX;
  return Math.max(1, Math.floor(height / ROW_PX) - 1);
}
