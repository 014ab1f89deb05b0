/** The keys that work in every view. */

import { type Store, showView } from "../../state/store";
import { type ReportContext, shownView, tabsOf } from "../common/context";
import { focusView } from "../common/focus-view";
import { focusable, isPlain, isTyping } from "../common/focusable";
import { swapRuns } from "../compare/compare-menu";

/**
 * Handles the report's own keys, and keeps all keys from the notebook. A report that has its window for itself also takes
 * those that are pressed while nothing in it has the focus, as when its file has just been opened.
 */
export function listenToKeys(
  root: HTMLElement,
  report: () => ReportContext | null,
  signal: AbortSignal,
  { isAlone }: { readonly isAlone: boolean },
): void {
  const act = (event: KeyboardEvent) => {
    const shown = report();
    if (shown === null || !isPlain(event) || isTyping(event.target)) return;
    if (!actOnKey(event, root, shown)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  // Captures, because focused elements stop the propagation of their keys.
  root.addEventListener("keydown", act, { signal, capture: true });
  const goBack = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    // After the element's own handlers, which may have had something to close.
    setTimeout(() => {
      const shown = report();
      if (shown !== null && !event.defaultPrevented) back(shown.store);
    });
  };
  root.addEventListener("keydown", goBack, { signal, capture: true });
  root.addEventListener("keydown", focusable().onKeyDown, { signal });
  if (!isAlone) return;
  const page = root.ownerDocument;
  const unfocused = (event: KeyboardEvent) => {
    if (event.target !== page.body && event.target !== page.documentElement) return;
    act(event);
    goBack(event);
  };
  page.addEventListener("keydown", unfocused, { signal });
}

function actOnKey(event: KeyboardEvent, root: HTMLElement, report: ReportContext): boolean {
  const { store } = report;
  if (event.key === "/") {
    const search = root.querySelector<HTMLInputElement>(".tp-panel .tp-search");
    search?.focus();
    search?.select();
    return search !== null;
  }
  if (event.key === "?") {
    store.isHelpOpen.value = !store.isHelpOpen.value;
    return true;
  }
  if (event.key === "Escape" && store.isHelpOpen.value) {
    store.isHelpOpen.value = false;
    return true;
  }
  if (event.key.toLowerCase() === "m" && report.canMaximize) {
    store.isMaximized.value = !store.isMaximized.value;
    return true;
  }
  if (event.key.toLowerCase() === "x" && shownView(report)?.tab === "compare") {
    return swapRuns(report);
  }
  if (/^[1-9]$/.test(event.key)) return openTab(root, report, Number(event.key) - 1);
  return showSelection(report, event.key.toLowerCase());
}

function openTab(root: HTMLElement, report: ReportContext, index: number): boolean {
  const tab = tabsOf(report)[index];
  if (tab === undefined) return false;
  focusView(root);
  showView(report.store, tab.name);
  return true;
}

const LETTERS = new Map([
  ["f", "tree"],
  ["t", "slices"],
  ["o", "table"],
  ["l", "source"],
]);

/** F, T, O, L: the selection in the flame graph, on the timeline, among the ops, or its line. */
function showSelection(report: ReportContext, key: string): boolean {
  const wanted = LETTERS.get(key);
  const selection = report.store.selection.value;
  if (wanted === undefined || selection === null) return false;
  const target = report.targets(selection.name).find(({ kind }) => kind === wanted);
  target?.open();
  return target !== undefined;
}

/** What Esc does where nothing is nearer: the range, then the selection, then the window. */
function back(store: Store): void {
  if (store.range.value !== null) store.range.value = null;
  else if (store.selection.value !== null) store.selection.value = null;
  else if (store.isMaximized.value) store.isMaximized.value = false;
}
