/** The whole flame graph in a strip, with the part that is shown. */

import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { MERGED_ROW } from "../../base/boxes";
import { cssColor } from "../../base/color";
import { linearScale } from "../../base/scale";
import { px, weight } from "../../base/units";
import { type CanvasSize, CanvasView } from "../../draw/canvas-view";
import { readColors } from "../../draw/colors";
import { FillTable, FLAME_KERNEL_TONE } from "../../draw/fills";
import { KeptPicture } from "../../draw/kept-picture";
import { pointOn } from "../../draw/screen-scale";
import { BoxBuffer, layoutFlame } from "../../layout/flame-layout";
import { spanOf } from "../../layout/flame-place";
import type { ReportContext } from "../common/context";
import { weightOf } from "./flame-model";
import type { FlameMoves } from "./flame-moves";

const LEAST_WINDOW_PX = 4;

interface MinimapProps {
  readonly report: ReportContext;
  readonly moves: FlameMoves;
}

export function FlameMinimap({ report, moves }: MinimapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<Painter | null>(null);
  useEffect(() => {
    if (canvas.current === null) return;
    const abort = new AbortController();
    painter.current = new Painter(canvas.current, report, moves, abort.signal);
    return () => abort.abort();
  }, [moves]);
  useSignalEffect(() => {
    void report.look.value;
    void moves.state.place.value;
    void moves.state.weight.value;
    void moves.state.showsOuter.value;
    painter.current?.redraw();
  });
  // The graph under it has the same data and its keys.
  // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a canvas without tabIndex has no focus.
  return <canvas ref={canvas} class="tp-flame-minimap" aria-hidden="true" />;
}

/** Keeps a picture of the whole, and draws the window over it. */
class Painter {
  readonly #canvas: HTMLCanvasElement;
  readonly #report: ReportContext;
  readonly #moves: FlameMoves;
  readonly #view: CanvasView;
  readonly #whole = new KeptPicture();

  constructor(
    canvas: HTMLCanvasElement,
    report: ReportContext,
    moves: FlameMoves,
    abort: AbortSignal,
  ) {
    this.#canvas = canvas;
    this.#report = report;
    this.#moves = moves;
    this.#view = new CanvasView(canvas, (context, size) => this.#paint(context, size), abort);
    const go = (event: PointerEvent) => {
      if (event.buttons !== 1) return;
      const at = this.#scale().fromPx(px(pointOn(canvas, event).x));
      const { start, end } = moves.span;
      moves.panBy(weight(at - (start + end) / 2));
    };
    canvas.addEventListener(
      "pointerdown",
      (event) => {
        canvas.setPointerCapture(event.pointerId);
        go(event);
      },
      { signal: abort },
    );
    canvas.addEventListener("pointermove", go, { signal: abort });
  }

  redraw(): void {
    this.#view.requestRedraw();
  }

  #scale() {
    return linearScale(spanOf(this.#moves.extent, 0), px(Math.max(1, this.#view.size.width)));
  }

  #paint(context: CanvasRenderingContext2D, size: CanvasSize): void {
    const { model, state, top } = this.#moves;
    const look = this.#report.look.value;
    const chosen = weightOf(model, state.weight.value).name;
    const colors = readColors(this.#canvas, look.theme);
    this.#whole.paint(context, [look, chosen, top], () => this.#paintWhole(context, size));
    const scale = this.#scale();
    const { start, end } = this.#moves.span;
    const left = scale.toPx(start);
    context.strokeStyle = cssColor(colors.accent);
    context.lineWidth = 2;
    const width = Math.max(LEAST_WINDOW_PX, scale.toPx(end) - left);
    context.strokeRect(Math.max(1, left), 1, Math.min(width, size.width - 2), size.height - 2);
  }

  #paintWhole(context: CanvasRenderingContext2D, size: CanvasSize): void {
    const { model, extent, top } = this.#moves;
    const colors = readColors(this.#canvas, this.#report.look.value.theme);
    const fills = new FillTable(model.phases, model.kinds, colors, FLAME_KERNEL_TONE);
    const boxes = layoutFlame(model.tree, extent, this.#scale(), new BoxBuffer(), top);
    const levels = Math.max(1, boxes.depthStart.length - 1);
    const rowPx = Math.max(1, Math.min(4, (size.height - 4) / levels));
    for (let depth = 0; depth < levels; depth += 1) {
      for (
        let box = boxes.depthStart[depth] ?? 0;
        box < (boxes.depthStart[depth + 1] ?? 0);
        box += 1
      ) {
        const row = boxes.row[box] ?? MERGED_ROW;
        context.fillStyle = row === MERGED_ROW ? cssColor(colors.merged) : fills.at(row).box;
        context.fillRect(boxes.left[box] ?? 0, 2 + depth * rowPx, boxes.width[box] ?? 0, rowPx);
      }
    }
  }
}
