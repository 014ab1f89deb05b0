import { afterAll } from "vitest";

/** Stand-ins for what jsdom lacks and a report asks for: sizes, observers of sizes, and a canvas. */

class StillResizeObserver implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

globalThis.ResizeObserver = StillResizeObserver;

/** jsdom lays nothing out; every element is one usual cell of a notebook. */
const SIZE = new Map<string, number>([
  ["clientWidth", 1000],
  ["clientHeight", 400],
  ["offsetWidth", 1000],
  ["offsetHeight", 400],
]);
for (const [name, value] of SIZE) {
  Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => value });
}
Element.prototype.scrollTo = () => {};
HTMLCanvasElement.prototype.getContext = () => null;
globalThis.matchMedia ??= (media) =>
  Object.assign(new EventTarget(), {
    media,
    matches: false,
    onchange: null,
    addListener: () => {},
    removeListener: () => {},
  }) as MediaQueryList;

/** Preact runs effects at most 35 ms after a frame; those of the last test must find the page still there. */
afterAll(() => new Promise((resolve) => setTimeout(resolve, 50)));
