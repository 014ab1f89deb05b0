/** The handle that changes the height of a report. */

import { focusable } from "../common/focusable";
import { forgetHeight, rememberHeight, setHeight } from "./height";

const STEP_PX = 40;

/** A bar at the lower edge: drag it, or use the arrow keys on it; a double click goes back to the height that fits. */
export function ResizeHandle({ root }: { readonly root: HTMLElement }) {
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? STEP_PX : event.key === "ArrowUp" ? -STEP_PX : 0;
    if (step === 0) return;
    event.preventDefault();
    setHeight(root, root.offsetHeight + step);
    rememberHeight(root);
  };
  return (
    <button
      type="button"
      class="tp-handle"
      aria-label="Report height: drag, or use the up and down arrow keys"
      onPointerDown={(event) => followPointer(event, root)}
      onDblClick={() => forgetHeight(root)}
      {...focusable(onKey)}
    />
  );
}

function followPointer(event: PointerEvent, root: HTMLElement): void {
  const handle = event.currentTarget as HTMLElement;
  const extra = root.offsetHeight - event.clientY;
  const abort = new AbortController();
  const { signal } = abort;
  handle.setPointerCapture(event.pointerId);
  const move = (to: PointerEvent) => {
    if (to.clientY !== event.clientY) setHeight(root, to.clientY + extra);
  };
  handle.addEventListener("pointermove", move, { signal });
  const end = () => {
    rememberHeight(root);
    abort.abort();
  };
  handle.addEventListener("pointerup", end, { signal });
  handle.addEventListener("pointercancel", end, { signal });
}
