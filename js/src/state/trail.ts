/** Back and forward within a report: the views, selections and ranges that were shown. */

import {
  batch,
  effect,
  type ReadonlySignal,
  type Signal,
  signal,
  untracked,
} from "@preact/signals";

const MOST = 60;

export interface Trail {
  readonly canGoBack: ReadonlySignal<boolean>;
  readonly canGoForward: ReadonlySignal<boolean>;
  go(step: number): void;
}

interface Stop {
  readonly values: readonly unknown[];
}

// While a range is dragged it changes with every move of the pointer; where it rests is a stop.
const REST_MS = 250;

/**
 * Remembers the values of some signals after every change; changes in one go are one stop. `dragged` is the one
 * that changes while the pointer moves.
 */
export function createTrail(
  watched: readonly Signal<unknown>[],
  dragged: Signal<unknown>,
  abort: AbortSignal,
): Trail {
  const canGoBack = signal(false);
  const canGoForward = signal(false);
  let stops: readonly Stop[] = [];
  let at = -1;
  let due: { readonly stop: Stop; readonly isDrag: boolean } | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const update = () => {
    canGoBack.value = at > 0;
    canGoForward.value = at < stops.length - 1;
  };
  const remember = () => {
    const stop = due?.stop;
    due = null;
    if (abort.aborted || stop === undefined || isSame(stops[at], stop)) return;
    stops = [...stops.slice(0, at + 1), stop].slice(-MOST);
    at = stops.length - 1;
    update();
  };
  let last: Stop | undefined;
  const stop = effect(() => {
    const now = { values: watched.map((each) => each.value) };
    const changed = watched.filter((_, index) => now.values[index] !== last?.values[index]);
    const isDrag = changed.every((each) => each === dragged);
    // Something else happens before the range came to rest.
    if (due?.isDrag && !isDrag) untracked(remember);
    last = now;
    due = { stop: now, isDrag: isDrag && (due === null || due.isDrag) };
    clearTimeout(timer);
    timer = setTimeout(remember, due.isDrag ? REST_MS : 0);
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

function isSame(a: Stop | undefined, b: Stop): boolean {
  return a?.values.every((value, index) => value === b.values[index]) ?? false;
}
