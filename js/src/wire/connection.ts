/** Whether the kernel that made a report can still answer. */

import { type Host, listenToHost } from "./host";

// What ipywidgets marks the output with when the kernel is gone, for instance after a restart.
const GONE = ".jupyter-widgets-disconnected";
const EVENT = "comm_live_update";

export interface Connection {
  isLost(): boolean;
  /** Calls `listener` when the kernel is lost, until `signal` is aborted. */
  onLoss(listener: () => void, signal: AbortSignal): void;
}

/** The connection of the report in `element`. */
export function connectionOf(host: Host, element: Element): Connection {
  const isLost = () => element.closest(GONE) !== null;
  return {
    isLost,
    onLoss: (listener, signal) => {
      const check = () => {
        if (isLost()) listener();
      };
      listenToHost(host, EVENT, check, signal);
    },
  };
}
