/** How high a report is: as its view needs, within the window, as the user set it, or the whole window. */

import { effect } from "@preact/signals";
import { screenScale } from "../../draw/screen-scale";
import type { Store } from "../../state/store";

const KEY = "torchprof-height";
export const LEAST_PX = 280;
const WINDOW_SHARE = 0.8;
// In a frame of its own, as in VS Code and Colab, the window is as high as its content.
const UNKNOWN_WINDOW_PX = 640;
const LEAST_LIMIT_PX = 420;

/** Keeps the limits of the height in the style of `root`, until `abort`. */
export function keepHeight(root: HTMLElement, abort: AbortSignal): void {
  const limit = () => {
    const windowPx = window.innerHeight / screenScale(root);
    const most = isFramed() ? UNKNOWN_WINDOW_PX : windowPx * WINDOW_SHARE;
    root.style.setProperty("--tp-most", `${Math.round(Math.max(LEAST_LIMIT_PX, most))}px`);
  };
  limit();
  window.addEventListener("resize", limit, { signal: abort });
  const kept = recall();
  if (kept !== null) setHeight(root, kept);
}

function isFramed(): boolean {
  return window.parent !== window;
}

export function setHeight(root: HTMLElement, heightPx: number): void {
  root.style.setProperty("--tp-height", `${Math.round(Math.max(LEAST_PX, heightPx))}px`);
}

/** Remembers the height for the next reports of this browser; where storage is forbidden, for this one only. */
export function rememberHeight(root: HTMLElement): void {
  try {
    localStorage.setItem(KEY, String(root.offsetHeight));
  } catch {
    // A sandboxed frame has no storage.
  }
}

/** Back to the height that the view needs. */
export function forgetHeight(root: HTMLElement): void {
  root.style.removeProperty("--tp-height");
  try {
    localStorage.removeItem(KEY);
  } catch {
    // As above.
  }
}

function recall(): number | null {
  try {
    const kept = Number(localStorage.getItem(KEY));
    return Number.isFinite(kept) && kept > 0 ? kept : null;
  } catch {
    return null;
  }
}

/** Lets a report fill the window while the store says so; in a frame the screen, where the frame may. */
export function followMaximized(root: HTMLElement, store: Store, abort: AbortSignal): void {
  const stop = effect(() => {
    const isMaximized = store.isMaximized.value;
    const was = root.dataset.tpMaximized === "true";
    if (isMaximized === was) return;
    const place = root.parentElement;
    if (isMaximized) {
      // Keeps the notebook from scrolling while the report is out of its flow.
      if (place !== null) place.style.minHeight = `${root.offsetHeight}px`;
      root.dataset.tpMaximized = "true";
      showOnTop(root);
    } else {
      hideOnTop(root);
      delete root.dataset.tpMaximized;
      if (place !== null) place.style.minHeight = "";
    }
  });
  // The browser leaves the full screen on Esc without telling the report.
  const leave = () => {
    if (!root.matches(":fullscreen")) store.isMaximized.value = false;
  };
  root.addEventListener("fullscreenchange", leave, { signal: abort });
  abort.addEventListener("abort", () => {
    stop();
    hideOnTop(root);
  });
}

/** The browser's top layer: nothing of the notebook can cover or clip it. */
function showOnTop(root: HTMLElement): void {
  if (isFramed() && document.fullscreenEnabled) {
    void root.requestFullscreen().catch(() => showPopover(root));
    return;
  }
  showPopover(root);
}

function showPopover(root: HTMLElement): void {
  if (typeof root.showPopover !== "function") return;
  root.popover = "manual";
  root.showPopover();
}

function hideOnTop(root: HTMLElement): void {
  // Only a frame asks for the full screen, and only then is there something to leave.
  if (isFramed() && root.matches(":fullscreen")) void document.exitFullscreen();
  if (!root.hasAttribute("popover")) return;
  if (root.matches(":popover-open")) root.hidePopover();
  root.removeAttribute("popover");
}
