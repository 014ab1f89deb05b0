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
}

/** The view under the active tab. */
export function shownView({ source, store }: ReportContext): ViewHeader | undefined {
  return source.header.views.find((view) => view.name === store.view.value);
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
