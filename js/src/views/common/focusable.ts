/** Props that keep the keys of focusable elements from triggering notebook shortcuts. */

export interface KeyProps {
  readonly "data-lm-suppress-shortcuts": "true";
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

/**
 * Props for one focusable element. Notebook shortcuts such as `b` act on the focused element itself,
 * so both the attribute and the handler must be on it; on the root alone they have no effect.
 */
export function focusable(onKey?: (event: KeyboardEvent) => void): KeyProps {
  return {
    "data-lm-suppress-shortcuts": "true",
    onKeyDown: (event) => {
      onKey?.(event);
      event.stopPropagation();
    },
  };
}

/** Whether a key is pressed without a modifier that makes it a browser shortcut. */
export function isPlain(event: KeyboardEvent): boolean {
  return !event.ctrlKey && !event.metaKey && !event.altKey;
}

/** Whether the element accepts text, so that letters are not shortcuts. */
export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement;
}

/** Buttons below a step that only repeat what another one does are for the pointer. */
const MOVED_AMONG = "button:not(.tp-counts)";

/**
 * Moves the focus with the left and right arrow keys among the buttons of the element that matches `group`, of which
 * only one is reached with Tab.
 */
export function moveAmong(event: KeyboardEvent, group: string): void {
  const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  const from = event.currentTarget as HTMLElement;
  if (step === 0 || !isPlain(event)) return;
  const buttons = Array.from(from.closest(group)?.querySelectorAll<HTMLElement>(MOVED_AMONG) ?? []);
  const next = buttons[buttons.indexOf(from) + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}
