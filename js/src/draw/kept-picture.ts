/** A picture that is painted once, and copied as long as nothing in it changes. */

export class KeptPicture {
  #of: readonly unknown[] = [];
  #pixels: ImageData | null = null;

  /** Paints what depends on `of`, or copies it if these and the size of the canvas are the same as last time. */
  paint(context: CanvasRenderingContext2D, of: readonly unknown[], draw: () => void): void {
    const { width, height } = context.canvas;
    const next = [...of, width, height];
    const isSame =
      next.length === this.#of.length && next.every((each, at) => each === this.#of[at]);
    if (isSame && this.#pixels !== null) {
      context.putImageData(this.#pixels, 0, 0);
      return;
    }
    draw();
    this.#of = next;
    this.#pixels = context.getImageData(0, 0, width, height);
  }
}
