/** The rows of a long list that are in the page: those in sight, and a few around them. All rows are equally high. */

import { type ReadonlySignal, type Signal, useComputed, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

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

/** Rows of `scroller`; `scrollTop` outlives the view, so that a tab keeps its scroll position. */
export function useVirtualRows(
  scroller: RefObject<HTMLDivElement | null>,
  count: number,
  scrollTop: Signal<number>,
): VirtualRows {
  const height = useSignal(FIRST_HEIGHT_PX);
  // Two numbers, so that the list is rendered again only when other rows come into sight.
  const above = useComputed(() => Math.floor(scrollTop.value / ROW_PX));
  const room = useComputed(() => Math.ceil(height.value / ROW_PX));
  useLayoutEffect(() => follow(scroller.current, scrollTop, height), []);
  return {
    items: () => rowsInSight(above, room, count),
    scrollTo: (position) => reveal(scroller.current, position),
    pageRows: () => pageRows(scroller.current),
  };
}

function rowsInSight(
  above: ReadonlySignal<number>,
  room: ReadonlySignal<number>,
  count: number,
): readonly number[] {
  // A list that became shorter is scrolled to its end, which the browser says only after the rows were rendered.
  const top = Math.min(above.value, Math.max(0, count - room.value));
  const first = Math.max(0, top - OVERSCAN_ROWS);
  const end = Math.min(count, top + room.value + 1 + OVERSCAN_ROWS);
  return Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
}

/** Keep `scrollTop` and `height` those of the element; returns what ends it. */
function follow(
  element: HTMLElement | null,
  scrollTop: Signal<number>,
  height: Signal<number>,
): (() => void) | undefined {
  if (element === null) return undefined;
  element.scrollTop = scrollTop.peek();
  const scrolled = () => {
    scrollTop.value = element.scrollTop;
  };
  const sizes = new ResizeObserver(() => {
    height.value = element.clientHeight;
  });
  element.addEventListener("scroll", scrolled, { passive: true });
  sizes.observe(element);
  return () => {
    element.removeEventListener("scroll", scrolled);
    sizes.disconnect();
  };
}

/** Scroll as little as brings a row into sight. */
function reveal(element: HTMLElement | null, position: number): void {
  if (element === null || position < 0) return;
  const top = position * ROW_PX;
  const lowest = top + ROW_PX + HEADER_PX - element.clientHeight;
  if (element.scrollTop > top) element.scrollTop = top;
  else if (element.scrollTop < lowest) element.scrollTop = lowest;
}

function pageRows(scroller: HTMLElement | null): number {
  const height = (scroller?.clientHeight ?? 0) - HEADER_PX;
  return Math.max(1, Math.floor(height / ROW_PX) - 1);
}
