/** Keeps the focus in a report when the element that has it goes, as it does with every change of view. */

import { focusView, waiting } from "../common/focus-view";

/** Until `signal`, gives the focus that would fall to the page to what is shown in its place. */
export function keepFocus(root: HTMLElement, signal: AbortSignal): void {
  let isOurs = false;
  root.addEventListener("focusin", () => (isOurs = true), { signal });
  const leave = ({ target }: FocusEvent) => {
    // An element that is removed loses the focus as well, before or after it is gone.
    queueMicrotask(() => {
      if ((target as Node).isConnected && !hasFocus(root)) isOurs = false;
    });
  };
  root.addEventListener("focusout", leave, { signal });
  const observer = new MutationObserver(() => {
    if (!isOurs || !root.isConnected) return;
    if (isNowhere(root) || (waiting.has(root) && activeIn(root) === root)) focusView(root);
  });
  observer.observe(root, { childList: true, subtree: true });
  signal.addEventListener("abort", () => observer.disconnect());
}

function activeIn(root: HTMLElement): Element | null {
  return (root.getRootNode() as Document | ShadowRoot).activeElement;
}

function hasFocus(root: HTMLElement): boolean {
  return root.contains(activeIn(root));
}

/** Whether nothing has the focus: the page has it, or within a shadow tree nothing. */
function isNowhere({ ownerDocument: { activeElement, body } }: HTMLElement): boolean {
  return activeElement === null || activeElement === body;
}
