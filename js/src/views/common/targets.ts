/** Where a name can be shown: the views that have it. */

import type { ReportSource } from "../../state/python-sync";
import { revealIn, type Store } from "../../state/store";
import { keyOf } from "../../wire/frame";
import type { FramedHeader, ViewHeader } from "../../wire/header";
import type { Target } from "./context";

/** The views that show a name. A view that was not loaded yet may have it. */
export function targetsOf(source: ReportSource, store: Store, name: string): readonly Target[] {
  return source.header.views.flatMap((view) => {
    const kind = kindOf(view);
    if (kind === null || view.empty !== null || !mayHave(source, view as FramedHeader, name))
      return [];
    return [{ kind, title: titleOf(source, view), view, open: () => revealIn(store, view, name) }];
  });
}

function kindOf(view: ViewHeader): Target["kind"] | null {
  if (view.shape === "tree" || view.shape === "slices") return view.shape;
  if (view.shape !== "table" || view.place === "strip" || view.name.startsWith("ops_")) return null;
  return view.columns.some(({ is_verbatim }) => is_verbatim) ? "source" : "table";
}

function titleOf(source: ReportSource, view: ViewHeader): string {
  const tab = source.header.views.find(({ name }) => name === view.tab) ?? view;
  return view.place === "group" ? view.title : tab.title;
}

function mayHave(source: ReportSource, view: FramedHeader, name: string): boolean {
  if (!source.isAtHand(view)) return view.place === "tab";
  if (view.shape === "slices" && view.excerpt !== null) return true;
  const state = source.frame(view).value;
  if (state.kind !== "ready") return false;
  return ["name", "source"].some((column) => {
    const words = state.frame.columns.get(column);
    return words?.kind === "text" && keyOf(words, name) >= 0;
  });
}
