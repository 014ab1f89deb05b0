/** The width of an element, kept up to date. */

import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

// A usual cell, until the element is measured.
const FIRST_PX = 1000;

export function useWidth<T extends Element>(): {
  readonly ref: RefObject<T | null>;
  readonly width: number;
} {
  const ref = useRef<T>(null);
  const width = useSignal(FIRST_PX);
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const measure = () => {
      if (element.clientWidth > 0) width.value = element.clientWidth;
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  return { ref, width: width.value };
}
