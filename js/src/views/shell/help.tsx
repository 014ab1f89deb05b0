/** All keys, on `?`. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";
import { type Hint, viewKeys } from "./footer";

const KEYS: readonly Hint[] = [
  [["/"], "search or filter this view"],
  [["Enter", "⇧Enter"], "next, previous match"],
  [["W", "S", "Ctrl+wheel"], "zoom at the pointer"],
  [["A", "D", "⇧wheel"], "pan"],
  [["+", "−", "0"], "zoom in, zoom out, fit"],
  [["←", "↑", "↓", "→"], "row, frame, step"],
  [["drag"], "choose a range of time; pan the flame graph"],
  [["R"], "choose the selected slice, or the window, as the range"],
  [["⇧←", "⇧→"], "choose a range on a chart; width of a column"],
  [["Space"], "fold the lane of the selected slice, and unfold it"],
  [["P"], "dim what is not on the critical path"],
  [["click"], "select, everywhere"],
  [["double click", "Enter"], "focus: zoom to it, open it"],
  [["Esc"], "one step back: match, range, focus, selection"],
  [["F", "T", "O", "L"], "show the selection in Flame, Timeline, Ops, Source"],
  [["X"], "in Compare: exchange before and after"],
  [["M"], "fill the window, and back"],
  [["?"], "this list"],
];

export function Help({ report }: { readonly report: ReportContext }) {
  return report.store.isHelpOpen.value ? <Keys report={report} /> : null;
}

function Keys({ report }: { readonly report: ReportContext }) {
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const page = button.current?.getRootNode() as Document | ShadowRoot | undefined;
    const before = page?.activeElement;
    button.current?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const close = () => {
    report.store.isHelpOpen.value = false;
  };
  return (
    <section class="tp-help" role="dialog" aria-label="Keys">
      <h2>
        Keys
        <Button ref={button} class="tp-button" aria-label="Close" onClick={close}>
          ×
        </Button>
      </h2>
      <dl>
        {[...viewKeys(report), ...KEYS].map(([keys, what]) => (
          <div key={what} class="tp-help-row">
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
