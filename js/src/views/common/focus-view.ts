/** The element of a view that takes its keys. */

// What a view is moved with: its canvas, table or page.
const OF_VIEW = '.tp-panel [tabindex="0"]:not(input)';

/** Puts the focus on the view of the report that `element` is in; on the report, and returns false, while it loads. */
export function focusView(element: HTMLElement): boolean {
  const root = element.closest<HTMLElement>(".tp-report");
  const view = root?.querySelector<HTMLElement>(OF_VIEW) ?? null;
  (view ?? root)?.focus({ preventScroll: true });
  return view !== null;
}
