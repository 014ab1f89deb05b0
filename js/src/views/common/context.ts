/** The context that all parts of a shown report share. */

import type { ReadonlySignal } from "@preact/signals";
import type { ReportSource } from "../../state/python-sync";
import type { Store } from "../../state/store";
import type { Frame } from "../../wire/frame";
import type {
  FramedHeader,
  SeriesHeader,
  SlicesHeader,
  TableHeader,
  TreeHeader,
  ViewHeader,
} from "../../wire/header";
import type { Look } from "./theme-watch";

export interface ReportContext {
  /** Prefix of all ids of this report, because a page can have several reports. */
  readonly id: string;
  readonly source: ReportSource;
  readonly store: Store;
  readonly look: ReadonlySignal<Look>;
  /** What of the report is still to come; empty if it is complete. */
  readonly progress: ReadonlySignal<string>;
  /** False in a file of its own, which fills the window already. */
  readonly canMaximize: boolean;
  /** What a name is called where there is little room. */
  titleOf(name: string): string;
  /** The views that can show a name, and how to open each. */
  targets(name: string): readonly Target[];
}

/** A view in which the selection can be shown. */
export interface Target {
  readonly kind: "tree" | "slices" | "table" | "source";
  readonly title: string;
  readonly view: ViewHeader;
  open(): void;
}

/** The view that is shown: that of the active tab, in the chosen grouping. */
export function shownView(report: ReportContext): ViewHeader | undefined {
  const { source, store } = report;
  const tab = source.header.views.find((view) => view.name === store.view.value);
  return tab === undefined ? undefined : groupingIn(report, tab);
}

/** The views that have a tab, in order. */
export function tabsOf({ source }: ReportContext): readonly ViewHeader[] {
  return source.header.views.filter(({ place, empty }) => place === "tab" && empty === null);
}

/** The groupings of a tab, itself first. */
export function groupingsOf({ source }: ReportContext, tab: string): readonly ViewHeader[] {
  return source.header.views.filter(
    (view) => view.tab === tab && (view.place === "tab" || view.place === "group"),
  );
}

/** The view that a tab shows: itself, or the grouping that is chosen for it. */
function groupingIn(report: ReportContext, tab: ViewHeader): ViewHeader {
  // A comparison opens on what explains the change.
  const opens = tab.tab === "compare" ? report.source.header.change?.opens : undefined;
  const chosen = report.store.grouping(tab).value ?? opens;
  return groupingsOf(report, tab.name).find(({ name }) => name === chosen) ?? tab;
}

/** The first flame graph of the report, in which names can be found. */
export function firstTree({ source }: ReportContext): ViewHeader | undefined {
  return source.header.views.find((view) => view.shape === "tree" && !view.empty);
}

interface FramedProps<V extends FramedHeader> {
  readonly report: ReportContext;
  readonly view: V;
  readonly frame: Frame;
}

export type TableProps = FramedProps<TableHeader>;
export type TreeProps = FramedProps<TreeHeader>;
export type SeriesProps = FramedProps<SeriesHeader>;
export type SlicesProps = FramedProps<SlicesHeader>;
