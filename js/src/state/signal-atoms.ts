/** Signals as the state of a TanStack table, so that readers of the table update when they change. */

import {
  batch,
  computed,
  type ReadonlySignal,
  type Signal,
  signal,
  untracked,
} from "@preact/signals";
import { functionalUpdate, type Updater } from "@tanstack/table-core";
import type { TableReactivityBindings } from "@tanstack/table-core/reactivity";

type Observer<T> = ((value: T) => void) | { readonly next?: (value: T) => void };

/** Makes signals of the state and the derived values of a table. */
export const signalReactivity: TableReactivityBindings = {
  createOptionsStore: false,
  wrapExternalAtoms: false,
  createWritableAtom: (value) => atomOf(signal(value)),
  createReadonlyAtom: (derive) => readonlyAtomOf(computed(derive)),
  untrack: untracked,
  batch,
  schedule: (task) => queueMicrotask(task),
  // Only asked for by bindings that wrap atoms.
  addSubscription: () => {},
};

/** State that a table shares with others: its setters write the signal. */
export function atomOf<T>(kept: Signal<T>) {
  return {
    ...readonlyAtomOf(kept),
    set: (next: Updater<T>) => {
      kept.value = functionalUpdate(next, kept.peek());
    },
  };
}

function readonlyAtomOf<T>(kept: ReadonlySignal<T>) {
  return {
    get: () => kept.value,
    subscribe: (observer: Observer<T>) => {
      const tell = typeof observer === "function" ? observer : observer.next?.bind(observer);
      return { unsubscribe: kept.subscribe((value) => tell?.(value)) };
    },
  };
}
