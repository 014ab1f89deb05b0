/** Props for focusable elements that keep their keys from reaching the notebook. */

export interface KeyProps {
  readonly "data-lm-suppress-shortcuts": "true";
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

/**
 * Props for one focusable element. Notebook shortcuts such as `b` act on the focused element itself,
 * so both the attribute and the stopped event must sit there; on the root alone they do not help.
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

/** Whether a key is pressed without a modifier that would make it a command of the browser. */
export function isPlain(event: KeyboardEvent): boolean {
  return !event.ctrlKey && !event.metaKey && !event.altKey;
}

/** Whether the element takes typed text, so that letters are not ours. */
export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement;
}
