/** A button that opens a list; it closes on Esc, on a click elsewhere, and after a choice. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Button } from "./button";

interface MenuProps {
  readonly label: string;
  readonly class?: string;
  /** The entries; call `close` after a choice. */
  readonly children: (close: () => void) => ComponentChildren;
}

export function Menu({ label, children, ...rest }: MenuProps) {
  const isOpen = useSignal(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = () => {
    isOpen.value = false;
  };
  useCloseOutside(root, isOpen.value, close);
  const choose = () => {
    // Otherwise the focus goes with the entry, and the next key to the notebook.
    button.current?.focus();
    close();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape" && isOpen.value) {
      event.preventDefault();
      close();
      button.current?.focus();
    }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") moveFocus(event, root.current);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys are those of the buttons in it.
    <div class={`tp-menu-box ${rest.class ?? ""}`} ref={root} onKeyDown={onKey}>
      <Button
        ref={button}
        class="tp-button"
        aria-haspopup="true"
        aria-expanded={isOpen.value}
        onClick={() => {
          isOpen.value = !isOpen.value;
        }}
        onKey={onKey}
      >
        {label} <span aria-hidden="true">▾</span>
      </Button>
      {isOpen.value && <ul class="tp-menu">{children(choose)}</ul>}
    </div>
  );
}

interface ItemProps {
  readonly title: string;
  readonly aside?: string;
  readonly tab?: string;
  readonly isChosen?: boolean;
  readonly onChoose: () => void;
}

/** An entry that does something. */
export function MenuItem({ title, aside, tab, isChosen, onChoose }: ItemProps) {
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      moveFocus(event, (event.currentTarget as HTMLElement).closest(".tp-menu-box"));
    }
    if (event.key === "Escape") closeFrom(event.currentTarget as HTMLElement);
  };
  return (
    <li>
      <Button aria-current={isChosen} data-tp-tab={tab} onClick={onChoose} onKey={onKey}>
        <span>{title}</span>
        {aside !== undefined && <span class="tp-menu-aside">{aside}</span>}
      </Button>
    </li>
  );
}

function closeFrom(element: HTMLElement): void {
  const opener = element.closest(".tp-menu-box")?.querySelector<HTMLElement>(":scope > button");
  opener?.click();
  opener?.focus();
}

function moveFocus(event: KeyboardEvent, box: Element | null): void {
  const buttons = Array.from(box?.querySelectorAll<HTMLElement>("button") ?? []);
  const at = buttons.indexOf(event.target as HTMLElement);
  const next = buttons[at + (event.key === "ArrowDown" ? 1 : -1)];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}

function useCloseOutside(
  root: { readonly current: HTMLElement | null },
  isOpen: boolean,
  close: () => void,
): void {
  useEffect(() => {
    if (!isOpen) return;
    const abort = new AbortController();
    const onPointer = (event: PointerEvent) => {
      if (!event.composedPath().includes(root.current as EventTarget)) close();
    };
    document.addEventListener("pointerdown", onPointer, { signal: abort.signal, capture: true });
    return () => abort.abort();
  }, [isOpen]);
}
