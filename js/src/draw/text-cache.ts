/** The part of a name that fits into a box, measured once per name and width class. */

import { shortenForBox } from "../base/names";

// Fewer characters than this are meaningless.
const LEAST_CHARS = 3;
const MOST_ENTRIES = 20_000;

/** Shortened names by available characters; the font is monospace. */
export class TextCache {
  readonly #fitted = new Map<string, Map<number, string>>();
  #entries = 0;
  #font = "";
  #charPx = 7;

  /** Prepares for a font; measures one character when it changed. */
  use(context: CanvasRenderingContext2D, font: string): void {
    context.font = font;
    if (font === this.#font) return;
    this.#font = font;
    this.#charPx = Math.max(1, context.measureText("0").width);
    this.#fitted.clear();
  }

  /** The text to write into `widthPx`, "" when nothing useful fits. */
  fit(name: string, widthPx: number): string {
    const room = Math.floor(widthPx / this.#charPx);
    if (room < LEAST_CHARS) return "";
    return name.length <= room ? name : this.#shortened(name, room);
  }

  #shortened(name: string, room: number): string {
    const known = this.#fitted.get(name)?.get(room);
    if (known !== undefined) return known;
    if (this.#entries > MOST_ENTRIES) this.#forget();
    const text = shortenForBox(name, room);
    const byRoom = this.#fitted.get(name) ?? new Map<number, string>();
    this.#fitted.set(name, byRoom.set(room, text));
    this.#entries += 1;
    return text;
  }

  #forget(): void {
    this.#fitted.clear();
    this.#entries = 0;
  }
}
