/** Connects the flame graph to its canvas and the pointer. */

import { MERGED_ROW } from "../../base/boxes";
import { linearScale, type Scale } from "../../base/scale";
import { px, type Weight } from "../../base/units";
import type { CanvasSize } from "../../draw/canvas-view";
import type { Colors } from "../../draw/colors";
import type { FillTable } from "../../draw/fills";
import { paintFlame, ROW_PX } from "../../draw/flame-painter";
import { pointOn } from "../../draw/screen-scale";
import { fitContent } from "../../draw/scrolled-canvas";
import { BoxBuffer, boxAt, depthsOf, layoutFlame } from "../../layout/flame-layout";
import type { FlameMatches } from "../../layout/flame-search";
import type { FooterItem } from "../../state/store";
import { keyOf } from "../../wire/frame";
import { GraphCanvas, type GraphInputs } from "../graph/graph-canvas";
import { describeBox, isAwaiting, sizeOf, weightOf } from "./flame-model";
import { Motion } from "./flame-motion";
import type { FlameMoves } from "./flame-moves";

type FlameInputs = GraphInputs<FlameMoves, FlameMatches>;

/** Draws a flame graph until `abort`. */
export class FlameCanvas extends GraphCanvas<Weight, FlameMoves, FlameInputs> {
  protected override get kernelTone(): number {
    return this.inputs.moves.model.kernelTone;
  }
  readonly #boxes = new BoxBuffer();
  readonly #motion = new Motion();
  #weight = "";

  override show(row: number): void {
    const { scroller, spacer } = this.parts;
    const { moves } = this.inputs;
    const { depth } = moves.model.tree;
    const top = ((depth[row] ?? 0) - (depth[moves.top] ?? 0)) * ROW_PX;
    // The spacer may still have the height of another tree or window.
    if (spacer.offsetHeight < top + ROW_PX) spacer.style.height = `${top + 2 * ROW_PX}px`;
    const isAbove = top < scroller.scrollTop;
    const isBelow = top + ROW_PX > scroller.scrollTop + scroller.clientHeight;
    if (isAbove || isBelow) scroller.scrollTop = Math.max(0, top - scroller.clientHeight / 2);
  }

  override follow(): void {
    super.follow();
    const { moves } = this.inputs;
    void moves.state.showsOuter.value;
    const { name } = weightOf(moves.model, moves.state.weight.value);
    if (name !== this.#weight || this.drag !== null) this.#motion.jump(moves.span);
    else this.#motion.aim(moves.span, performance.now());
    this.#weight = name;
  }

  protected override scale(): Scale<Weight> {
    const span = this.#motion.at(performance.now()) ?? this.inputs.moves.span;
    return linearScale(span, this.view.size.width);
  }

  protected override paint(
    context: CanvasRenderingContext2D,
    size: CanvasSize,
    colors: Colors,
    fills: FillTable,
  ): void {
    const { moves, store, matches } = this.inputs;
    const { model, extent, state } = moves;
    layoutFlame(model.tree, extent, this.scale(), this.#boxes, moves.top);
    fitContent(this.parts, depthsOf(this.#boxes) * ROW_PX, size);
    const selected = store.selection.value?.name;
    const weight = weightOf(model, state.weight.value);
    const scene = {
      boxes: this.#boxes,
      names: model.names,
      titles: model.titles,
      calls: model.calls,
      sizeOf: (row: number) => sizeOf(model, row, weight),
      parents: model.tree.parent,
      isAwaiting: (row: number) => isAwaiting(model, row, weight.name),
      steps: model.steps,
      phases: model.phases,
      kinds: model.kinds,
      runs: model.runs === null ? null : { ...model.runs, whole: extent.total },
      scrollTop: px(this.parts.scroller.scrollTop),
      selectedKey: selected === undefined ? -1 : keyOf(model.names, selected),
      selectedRow: state.row.value,
      hoverRow: this.hovered,
      matches: matches.value?.isMatch ?? null,
      currentMatch: matches.value?.rows[state.match.value] ?? -1,
      colors,
    };
    paintFlame(context, size, scene, this.texts, fills);
    if (this.#motion.isMoving(performance.now())) this.view.requestRedraw();
  }

  /** -1 also for a box of merged rows. */
  protected override rowAt(event: MouseEvent): number {
    const { x, y } = pointOn(this.parts.canvas, event);
    const depth = Math.floor((y + this.parts.scroller.scrollTop) / ROW_PX);
    const box = boxAt(this.#boxes, depth, x);
    return box < 0 ? -1 : (this.#boxes.row[box] ?? MERGED_ROW);
  }

  protected override describe(row: number): FooterItem {
    const { model, state } = this.inputs.moves;
    return describeBox(model, row, weightOf(model, state.weight.value));
  }

  protected override cursorAt(_x: number, row: number): string {
    return row < 0 ? "default" : "pointer";
  }

  protected override sideways({ deltaX, deltaY }: WheelEvent): number {
    return Math.abs(deltaX) > Math.abs(deltaY) && this.inputs.moves.zoom > 1 ? deltaX : 0;
  }
}
