/** The handle that changes the height of a report. */

import { focusable } from "../common/focusable";

const LEAST_PX = 280;
const STEP_PX = 40;

/** A bar at the lower edge: drag it, or use the arrow keys on it. */
export function ResizeHandle({ root }: { readonly root: HTMLElement }) {
  const resize = (heightPx: number) => {
    root.style.setProperty("--tp-height", `${Math.max(LEAST_PX, heightPx)}px`);
  };
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? STEP_PX : event.key === "ArrowUp" ? -STEP_PX : 0;
    if (step === 0) return;
    event.preventDefault();
    resize(root.offsetHeight + step);
  };
  return (
    <button
      type="button"
      class="tp-handle"
      aria-label="Report height: drag, or use the up and down arrow keys"
      onPointerDown={(event) => followPointer(event, root, resize)}
      {...focusable(onKey)}
    />
  );
}

function followPointer(
  event: PointerEvent,
  root: HTMLElement,
  resize: (heightPx: number) => void,
): void {
  const handle = event.currentTarget as HTMLElement;
  const extra = root.offsetHeight - event.clientY;
  const abort = new AbortController();
  const { signal } = abort;
  handle.setPointerCapture(event.pointerId);
  handle.addEventListener("pointermove", (move) => resize(move.clientY + extra), { signal });
  for (const end of ["pointerup", "pointercancel"]) {
    handle.addEventListener(end, () => abort.abort(), { signal });
  }
}
