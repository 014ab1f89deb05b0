/** Back and forward within a report: the views, selections and ranges that were shown. */

import { batch, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";

const MOST = 60;

export interface Trail {
  readonly canGoBack: ReadonlySignal<boolean>;
  readonly canGoForward: ReadonlySignal<boolean>;
  go(step: number): void;
}

interface Stop {
  readonly values: readonly unknown[];
}

/** Remembers the values of some signals after every change; changes in one go are one stop. */
export function createTrail(watched: readonly Signal<unknown>[], abort: AbortSignal): Trail {
  const canGoBack = signal(false);
  const canGoForward = signal(false);
  let stops: readonly Stop[] = [];
  let at = -1;
  let isDue = false;
  const update = () => {
    canGoBack.value = at > 0;
    canGoForward.value = at < stops.length - 1;
  };
  const remember = () => {
    isDue = false;
    if (abort.aborted) return;
    const values = watched.map((each) => each.peek());
    if (stops[at]?.values.every((value, index) => value === values[index])) return;
    stops = [...stops.slice(0, at + 1), { values }].slice(-MOST);
    at = stops.length - 1;
    update();
  };
  const stop = effect(() => {
    for (const each of watched) void each.value;
    if (isDue) return;
    isDue = true;
    setTimeout(remember, 250);
  });
  abort.addEventListener("abort", stop);
  return {
    canGoBack,
    canGoForward,
    go: (step) => {
      const target = stops[at + step];
      if (target === undefined) return;
      at += step;
      batch(() => {
        watched.forEach((each, index) => {
          each.value = target.values[index];
        });
        update();
      });
    },
  };
}
