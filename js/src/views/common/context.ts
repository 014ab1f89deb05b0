/** What every part of one shown report may use. */

import type { ReadonlySignal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import type { ReportSource } from "../../state/python-sync";
import type { Store } from "../../state/store";
import type { Frame } from "../../wire/frame";
import type { ViewHeader } from "../../wire/header";
import type { Look } from "./theme-watch";

export interface ReportContext {
  /** Begins all ids of this report: there may be several on one page. */
  readonly id: string;
  readonly source: ReportSource;
  readonly store: Store;
  readonly look: ReadonlySignal<Look>;
}

/** A view of the report by its name. */
export function viewNamed({ source }: ReportContext, name: string): ViewHeader | undefined {
  return source.header.views.find((view) => view.name === name);
}

/** The view under the active tab. */
export function shownView(report: ReportContext): ViewHeader | undefined {
  return viewNamed(report, report.store.view.value);
}

/** The view in which a name is found as a box of a flame graph. */
export function firstTree({ source }: ReportContext): ViewHeader | undefined {
  return source.header.views.find((view) => view.shape === "tree" && !view.empty);
}

export interface ViewProps {
  readonly report: ReportContext;
  readonly view: ViewHeader;
  readonly frame: Frame;
}

export type ViewComponent = FunctionComponent<ViewProps>;
