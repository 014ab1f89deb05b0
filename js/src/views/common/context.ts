/** What every part of one shown report may use. */

import type { ReadonlySignal } from "@preact/signals";
import type { ReportSource } from "../../state/python-sync";
import type { Store } from "../../state/store";
import type { Frame } from "../../wire/frame";
import type {
  FramedHeader,
  SeriesHeader,
  TableHeader,
  TreeHeader,
  ViewHeader,
} from "../../wire/header";
import type { Look } from "./theme-watch";

export interface ReportContext {
  /** Begins all ids of this report: there may be several on one page. */
  readonly id: string;
  readonly source: ReportSource;
  readonly store: Store;
  readonly look: ReadonlySignal<Look>;
}

/** The view under the active tab. */
export function shownView({ source, store }: ReportContext): ViewHeader | undefined {
  return source.header.views.find((view) => view.name === store.view.value);
}

/** The view in which a name is found as a box of a flame graph. */
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
