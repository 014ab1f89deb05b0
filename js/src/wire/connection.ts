/** Whether the kernel that made a report can still answer. */

import { type Host, listenToHost } from "./host";

// What ipywidgets marks an output with whose widget was saved without a kernel.
const GONE = ".jupyter-widgets-disconnected";
// What it tells when the kernel behind a widget goes, for instance at a restart, which marks nothing.
const CHANGED = "comm_live_update";

export interface Connection {
  isLost(): boolean;
  /** Calls `listener` when the kernel is lost, until `signal` is aborted. */
  onLoss(listener: () => void, signal: AbortSignal): void;
}

/** The connection of the report in `element`. */
export function connectionOf(host: Host, element: Element): Connection {
  return {
    isLost: () => element.closest(GONE) !== null,
    onLoss: (listener, signal) => listenToHost(host, CHANGED, listener, signal),
  };
}
