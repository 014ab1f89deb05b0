/** How large an element is on the screen: a page can be zoomed, or scaled as slides are, by CSS. */

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** How many pixels of the window one pixel of an element takes. */
export function screenScale(element: HTMLElement): number {
  const { width } = element.getBoundingClientRect();
  // The width of a box is rounded to whole pixels: a part of one is no zoom.
  const isPlain = width === 0 || Math.abs(width - element.offsetWidth) < 1;
  return isPlain ? 1 : width / element.offsetWidth;
}

/** Where the pointer is on an element, in pixels of the element. */
export function pointOn(element: HTMLElement, event: MouseEvent): Point {
  const { left, top } = element.getBoundingClientRect();
  const scale = screenScale(element);
  return { x: (event.clientX - left) / scale, y: (event.clientY - top) / scale };
}
