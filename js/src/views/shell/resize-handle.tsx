/** The handle that changes the height of a report. */

import { screenScale } from "../../draw/screen-scale";
import { Button } from "../common/button";
import { forgetHeight, rememberHeight, setHeight } from "./height";

const STEP_PX = 40;

/** A grip in the corner: drag it, or use the arrow keys on it; a double click goes back to the height that fits. */
export function ResizeHandle({ root }: { readonly root: HTMLElement }) {
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? STEP_PX : event.key === "ArrowUp" ? -STEP_PX : 0;
    if (step === 0) return;
    event.preventDefault();
    setHeight(root, root.offsetHeight + step);
    rememberHeight(root);
  };
  const pointer = {
    onPointerDown: (event: PointerEvent) => followPointer(event, root),
    onDblClick: () => forgetHeight(root),
  };
  return (
    <>
      <div class="tp-edge" aria-hidden="true" {...pointer} />
      <Button
        class="tp-handle"
        aria-label="Report height: drag or use the arrow keys"
        title="Drag to resize; double click to fit"
        {...pointer}
        onKey={onKey}
      >
        <svg width="11" height="11" viewBox="0 0 11 11" stroke="currentColor" aria-hidden="true">
          <path d="M1 10 10 1M5.5 10 10 5.5M9.5 10l.5-.5" />
        </svg>
      </Button>
    </>
  );
}

function followPointer(event: PointerEvent, root: HTMLElement): void {
  const handle = event.currentTarget as HTMLElement;
  const scale = screenScale(root);
  const extra = root.offsetHeight - event.clientY / scale;
  const abort = new AbortController();
  const { signal } = abort;
  handle.setPointerCapture(event.pointerId);
  const move = (to: PointerEvent) => {
    if (to.clientY !== event.clientY) setHeight(root, to.clientY / scale + extra);
  };
  handle.addEventListener("pointermove", move, { signal });
  const end = () => {
    rememberHeight(root);
    abort.abort();
  };
  handle.addEventListener("pointerup", end, { signal });
  handle.addEventListener("pointercancel", end, { signal });
}
