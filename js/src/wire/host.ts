/** The interface of the page around a report: a Jupyter model, or its replacement in a saved file. */

export type HostListener = (...values: readonly unknown[]) => void;

/** The part of an anywidget model that the report uses. `send` is absent where no kernel can answer. */
export interface Host {
  get(trait: string): unknown;
  on(event: string, listener: HostListener): void;
  off(event: string, listener: HostListener): void;
  readonly send?: (content: unknown) => void;
  /** Reads a large view of a saved file, which opens without it. */
  readonly readSaved?: (view: string) => Promise<ArrayBuffer>;
}

/** Whether the page is a saved HTML file, which has nothing else in its window. */
export function isSaved(host: Host): boolean {
  return host.get("_standalone") === true;
}

/** Calls `listener` on `event` until `signal` is aborted. */
export function listenToHost(
  host: Host,
  event: string,
  listener: HostListener,
  signal: AbortSignal,
): void {
  host.on(event, listener);
  signal.addEventListener("abort", () => host.off(event, listener), { once: true });
}
