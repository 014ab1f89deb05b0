/** What does every part of one shown report know? */

import type { ReadonlySignal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import type { ReportSource } from "../state/python-sync";
import type { Store } from "../state/store";
import type { Frame } from "../wire/frame";
import type { ViewHeader } from "../wire/header";
import type { Look } from "./theme-watch";

export interface ReportContext {
  /** Begins all ids of this report: there may be several on one page. */
  readonly id: string;
  readonly source: ReportSource;
  readonly store: Store;
  readonly look: ReadonlySignal<Look>;
}

export interface ViewProps {
  readonly report: ReportContext;
  readonly view: ViewHeader;
  readonly frame: Frame;
}

export type ViewComponent = FunctionComponent<ViewProps>;
