/** The canvas of a graph in its scrolling box. */

import { effect } from "@preact/signals";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { focusable } from "../common/focusable";
import type { GraphParts } from "./graph-canvas";

/** The elements that a graph is drawn into. */
export interface StageParts {
  readonly canvas: RefObject<HTMLCanvasElement | null>;
  readonly scroller: RefObject<HTMLDivElement | null>;
  readonly spacer: RefObject<HTMLDivElement | null>;
}

interface Painter {
  follow(): void;
}

/** Keeps what `make` connects to the elements in `painter`: another one for another `of`. */
export function useStage<P extends Painter>(
  painter: { current: P | null },
  of: object,
  make: (parts: GraphParts, abort: AbortSignal) => P,
): StageParts {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const spacer = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (canvas.current === null || scroller.current === null || spacer.current === null) return;
    const abort = new AbortController();
    const parts = { canvas: canvas.current, scroller: scroller.current, spacer: spacer.current };
    const made = make(parts, abort.signal);
    painter.current = made;
    const stop = effect(() => made.follow());
    return () => {
      stop();
      abort.abort();
    };
  }, [of]);
  return { canvas, scroller, spacer };
}

interface StageProps {
  readonly parts: StageParts;
  /** What kind of graph it is, for screen readers. */
  readonly kind: string;
  readonly label: string;
  /** The id of the table with the same data. */
  readonly table: string;
  /** The class of the canvas. */
  readonly class: string;
  readonly isBusy?: boolean;
  readonly wantedPx: number;
  /** What the canvas shows, as `data-` attributes. */
  readonly shown: Readonly<Record<`data-${string}`, string | number | boolean>>;
  readonly onKey: (event: KeyboardEvent) => void;
  readonly children?: ComponentChildren;
}

export function Stage(props: StageProps) {
  const { parts } = props;
  return (
    <div
      class="tp-graph"
      ref={parts.scroller}
      aria-busy={props.isBusy}
      style={{ "--tp-wanted": `${props.wantedPx}px` }}
    >
      {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: a canvas with its own keys has the role application. */}
      <canvas
        class={`tp-graph-canvas ${props.class}`}
        ref={parts.canvas}
        tabIndex={0}
        role="application"
        aria-roledescription={props.kind}
        aria-details={props.table}
        aria-label={props.label}
        {...props.shown}
        {...focusable(props.onKey)}
      />
      <div ref={parts.spacer} class="tp-graph-spacer" />
      {props.children}
    </div>
  );
}
