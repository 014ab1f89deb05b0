/** The selection and the range of a run, which all its views on a page share: an output can be shown twice. */

import { type Signal, signal } from "@preact/signals";
import type { Span } from "../base/scale";
import type { Ns } from "../base/units";

/** The selection in all views: all boxes and rows of this name. */
export interface Selection {
  readonly name: string;
  readonly kind: string;
}

export interface Shared {
  readonly selection: Signal<Selection | null>;
  /** The range of time that all views show; null for everything. */
  readonly range: Signal<Span<Ns> | null>;
}

const known = new Map<string, { readonly shared: Shared; users: number }>();

/** What the views of a run share, until the last of them is aborted. */
export function sharedOf(runId: string, abort: AbortSignal): Shared {
  const entry = known.get(runId) ?? {
    shared: { selection: signal<Selection | null>(null), range: signal<Span<Ns> | null>(null) },
    users: 0,
  };
  known.set(runId, entry);
  entry.users += 1;
  abort.addEventListener("abort", () => {
    entry.users -= 1;
    if (entry.users === 0) known.delete(runId);
  });
  return entry.shared;
}
