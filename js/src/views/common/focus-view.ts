/** The element of a view that takes its keys. */

// What a view is moved with: its canvas, table or page.
const OF_VIEW = '.tp-panel [tabindex="0"]:not(input)';
/** Reports that have the focus in place of their view, which is not there yet. */
export const waiting = new WeakSet<HTMLElement>();

/** Puts the focus on the view of the report that `element` is in; on the report until there is one. */
export function focusView(element: HTMLElement): void {
  const root = element.closest<HTMLElement>(".tp-report");
  if (root === null) return;
  const view = root.querySelector<HTMLElement>(OF_VIEW);
  (view ?? root).focus({ preventScroll: true });
  if (view === null) waiting.add(root);
  else waiting.delete(root);
}
