/** The state of the user interface, which is not sent to Python. */

import { type Signal, signal } from "@preact/signals";
import type { SortingState } from "@tanstack/table-core";
import { type FlameOptions, PLAIN } from "../base/flame-options";
import { keptBy } from "../base/kept";
import type { Span } from "../base/scale";
import type { Ns, Weight } from "../base/units";
import type {
  SeriesHeader,
  SlicesHeader,
  TableHeader,
  TreeHeader,
  ViewHeader,
} from "../wire/header";
import type { Shared } from "./shared";
import { QUIET, type Status } from "./status";
import { createTrail, type Trail } from "./trail";

/** The text of the footer for the item under the pointer or the selection. */
export interface FooterItem {
  readonly name: string;
  readonly isCode: boolean;
  readonly phase: string;
  readonly facts: readonly string[];
}

/** A request to show a name in a view; a new object each time, so that it can be repeated. */
export interface Reveal {
  readonly view: string;
  readonly name: string;
}

export interface TableState {
  /** Empty: as the rows came. */
  readonly sorting: Signal<SortingState>;
  readonly scrollTop: Signal<number>;
  /** The ids of rows that were opened or closed by hand. */
  readonly toggled: Signal<ReadonlySet<string>>;
  /** Columns that were shown or hidden by hand. */
  readonly chosen: Signal<ReadonlyMap<string, boolean>>;
  /** Widths in pixels of columns that were resized by hand. */
  readonly widths: Signal<ReadonlyMap<string, number>>;
  /** Columns that stay beside the names. */
  readonly pins: Signal<readonly string[]>;
}

/** A position in the flame graph to go back to. */
export interface FlamePlace {
  readonly focus: number;
  /** null: the whole width of the focused box. */
  readonly span: Span<Weight> | null;
}

export interface FlameState {
  /** What the widths mean; the same in every form of the graph. */
  readonly weight: Signal<string | null>;
  readonly place: Signal<FlamePlace>;
  readonly history: Signal<readonly FlamePlace[]>;
  /** The box of the selected name that the keys start from; -1 for none. */
  readonly row: Signal<number>;
  /** Which of the matches is the current one, by its place among them; -1 for none. */
  readonly match: Signal<number>;
  /** Whether the boxes that only wrap all others are shown. */
  readonly showsOuter: Signal<boolean>;
  /** How the tree is turned, folded and cut. */
  readonly options: Signal<FlameOptions>;
}

export interface TimelineState {
  /** The window; null until the view is first shown. */
  readonly window: Signal<Span<Ns> | null>;
  readonly history: Signal<readonly Span<Ns>[]>;
  /** The layer of the threads. */
  readonly layer: Signal<string | null>;
  /** The slice of the selected name that the keys start from; -1 for none. */
  readonly row: Signal<number>;
  /** Lanes that were folded or unfolded by hand. */
  readonly toggled: Signal<ReadonlySet<number>>;
  /** Whether what is not on the critical path is dimmed. */
  readonly isPath: Signal<boolean>;
  /** Which of the slices with the searched or revealed name is the current one; -1 for none. */
  readonly match: Signal<number>;
}

export interface MemoryState {
  /** What is listed: what is in use at the peak or at the picked moment, or what stays in the end. */
  readonly listed: Signal<"peak" | "picked" | "grown">;
  /** The picked moment; null before the first. */
  readonly picked: Signal<number | null>;
  /** Whether the curve is divided by category. */
  readonly isDivided: Signal<boolean>;
}

export interface Store extends Shared {
  readonly view: Signal<string>;
  readonly hover: Signal<FooterItem | null>;
  /** What the shown view says of the selection; null when it says nothing of its own. */
  readonly note: Signal<FooterItem | null>;
  readonly reveal: Signal<Reveal | null>;
  /** Search text of a view. */
  search(view: ViewHeader): Signal<string>;
  table(view: TableHeader): TableState;
  flame(view: TreeHeader): FlameState;
  timeline(view: SlicesHeader): TimelineState;
  memory(view: SeriesHeader): MemoryState;
  /** The grouping that a tab shows; null for its own. */
  grouping(tab: ViewHeader): Signal<string | null>;
  /** Whether "About this run" is unfolded. */
  readonly isAboutOpen: Signal<boolean>;
  /** Whether sums are shown a step, rather than over all recorded steps. */
  readonly isPerStep: Signal<boolean>;
  /** Whether the list of keys is shown. */
  readonly isHelpOpen: Signal<boolean>;
  /** How a comparison that was asked for goes. */
  readonly comparing: Signal<Status>;
  /** How a change of the steps that count goes. */
  readonly counting: Signal<string>;
  readonly trail: Trail;
  /** Whether the report fills the window. */
  readonly isMaximized: Signal<boolean>;
  /** The choice of a view that has one, such as the memory's lane. */
  choice(view: ViewHeader): Signal<string | null>;
}

export const WHOLE: FlamePlace = { focus: 0, span: null };

/** A store for one shown report, opened at `view`; the views of a run share a part of it. */
export function createStore(view: string, shared: Shared, abort: AbortSignal): Store {
  const shown = { view: signal(view), ...shared };
  const weights = perTab(() => signal<string | null>(null));
  return {
    ...shown,
    trail: createTrail(Object.values(shown) as readonly Signal<unknown>[], shown.range, abort),
    hover: signal<FooterItem | null>(null),
    note: signal<FooterItem | null>(null),
    reveal: signal<Reveal | null>(null),
    isHelpOpen: signal(false),
    comparing: signal(QUIET),
    counting: signal(""),
    isPerStep: signal(true),
    search: perView(() => signal("")),
    grouping: perTab(() => signal<string | null>(null)),
    isAboutOpen: signal(false),
    isMaximized: signal(false),
    choice: perView(() => signal<string | null>(null)),
    table: perView((view: TableHeader) => ({
      sorting: signal(firstSorting(view)),
      scrollTop: signal(0),
      toggled: signal<ReadonlySet<string>>(new Set()),
      chosen: signal<ReadonlyMap<string, boolean>>(new Map()),
      widths: signal<ReadonlyMap<string, number>>(new Map()),
      pins: signal<readonly string[]>([]),
    })),
    memory: perView(() => ({
      listed: signal<"peak" | "picked" | "grown">("peak"),
      picked: signal<number | null>(null),
      isDivided: signal(true),
    })),
    timeline: perView(() => ({
      window: signal<Span<Ns> | null>(null),
      history: signal<readonly Span<Ns>[]>([]),
      layer: signal<string | null>(null),
      row: signal(-1),
      toggled: signal<ReadonlySet<number>>(new Set()),
      isPath: signal(false),
      match: signal(-1),
    })),
    flame: perView((view: TreeHeader) => ({
      weight: weights(view),
      place: signal(WHOLE),
      history: signal<readonly FlamePlace[]>([]),
      row: signal(-1),
      match: signal(-1),
      showsOuter: signal(false),
      options: signal<FlameOptions>({ ...PLAIN, foldsLibraries: true }),
    })),
  };
}

/** State that is created when a view is first shown and kept with the report. */
function perView<V extends ViewHeader, T>(make: (view: V) => T): (view: V) => T {
  return keptBy(({ name }) => name, make);
}

/** The same for all views of a tab. */
function perTab<T>(make: () => T): (view: ViewHeader) => T {
  return keptBy(({ tab }) => tab, make);
}

/** A table opens with the largest numbers of the column that its header names. */
function firstSorting({ sort_by: sort }: TableHeader): SortingState {
  return sort === null ? [] : [{ id: sort, desc: true }];
}

/** Opens the tab of a view. */
export function showView(store: Store, view: string): void {
  store.view.value = view;
  store.hover.value = null;
}

/** Selects a name everywhere; the same name again keeps it. */
export function select(store: Store, name: string, kind: string): void {
  const now = store.selection.value;
  if (now?.name !== name) store.selection.value = { name, kind };
}

/** Opens `view`, in its tab, and shows `name` in it. */
export function revealIn(store: Store, view: string | ViewHeader, name: string): void {
  const isTab = typeof view === "string";
  store.reveal.value = { view: isTab ? view : view.name, name };
  if (!isTab) store.grouping(view).value = view.name;
  store.view.value = isTab ? view : view.tab;
  store.hover.value = null;
}
