/** Hides the static copy of a report while a live report of the same run is shown. */

const HIDDEN = "tpHidden";

/** Hides `[data-tp-static="<runId>"]`, also when it comes later, until `abort`. */
export function hideStatic(root: HTMLElement, runId: string, abort: AbortSignal): void {
  if (runId === "") return;
  const page = root.ownerDocument;
  const hideAll = () => {
    for (const element of staticsOf(page, runId)) hide(element);
  };
  hideAll();
  const observer = new MutationObserver((records) => {
    if (records.some((record) => !root.contains(record.target))) hideAll();
  });
  observer.observe(page.body, { childList: true, subtree: true });
  abort.addEventListener("abort", () => {
    observer.disconnect();
    if (hasOtherLive(root, runId)) return;
    for (const element of staticsOf(page, runId)) show(element);
  });
}

/** The id is compared as text, not put into a selector, because it is untrusted. */
function staticsOf(page: Document, runId: string): readonly HTMLElement[] {
  const all = page.querySelectorAll<HTMLElement>("[data-tp-static]");
  return Array.from(all).filter((element) => element.dataset.tpStatic === runId);
}

/** Looks in the page, because each model has its own copy of this module. */
function hasOtherLive(root: HTMLElement, runId: string): boolean {
  const all = root.ownerDocument.querySelectorAll<HTMLElement>("[data-tp-run]");
  return Array.from(all).some((other) => other !== root && other.dataset.tpRun === runId);
}

function hide(element: HTMLElement): void {
  if (element.dataset[HIDDEN] !== undefined) return;
  element.dataset[HIDDEN] = "true";
  element.style.setProperty("display", "none", "important");
}

function show(element: HTMLElement): void {
  if (element.dataset[HIDDEN] === undefined) return;
  delete element.dataset[HIDDEN];
  element.style.removeProperty("display");
}
