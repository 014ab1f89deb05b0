/** Slices as a timeline: lanes over time, with a strip of the whole, search, and what is selected. */

import { useComputed } from "@preact/signals";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { columnFormat, formatNs, plural } from "../../base/format";
import { displayName } from "../../base/names";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import { AXIS_PX } from "../../draw/timeline-painter";
import { heightOfBands, laneBands } from "../../layout/lane-bands";
import type { SlicesProps } from "../common/context";
import { focusable } from "../common/focusable";
import { MatchSteps, SearchBox, Segmented, Tools } from "../common/parts";
import { tableId } from "../common/spoken-table";
import { Minimap } from "./minimap";
import { TimelineCanvas } from "./timeline-canvas";
import { actOnTimelineKey } from "./timeline-keys";
import { createTimelineModel, originOf, stepAt, type TimelineModel } from "./timeline-model";
import { TimelineMoves } from "./timeline-moves";
import { TimelinePanel, WaitLine } from "./timeline-panel";
import { searchSlices } from "./timeline-search";
import { TimelineTable } from "./timeline-table";
import { describeSlice } from "./timeline-words";

interface TimelineProps extends SlicesProps {
  /** Shown as a flame graph in time order: threads only, as deep as they are known. */
  readonly flame?: {
    readonly tools: ComponentChildren;
    /** The view under which other views ask for a name. */
    readonly revealAs: string;
  };
}

export function TimelineView({ report, view, frame, flame }: TimelineProps) {
  const { store } = report;
  const state = store.timeline(view);
  const query = store.search(view);
  const model = useMemo(
    () => createTimelineModel(view, frame, (name) => displayName(report.titleOf(name))),
    [view, frame],
  );
  const moves = useMemo(() => new TimelineMoves(model, state, store), [model]);
  const matches = useComputed(() => searchSlices(model, moves.layer, query.value));
  const isOnlyThreads = flame !== undefined;
  const parts = useStage(moves, report, matches, isOnlyThreads);
  const show = (row: number) => {
    moves.select(row);
    moves.bringIn(row);
    parts.painter.current?.showRow(row);
  };
  const goTo = (match: number) => {
    const rows = matches.value?.rows;
    if (rows === undefined || rows.length === 0) return;
    const row = rows[((match % rows.length) + rows.length) % rows.length] ?? -1;
    state.match.value = row;
    show(row);
  };
  const at = matches.value === null ? -1 : matches.value.rows.indexOf(state.match.value);
  useReveal(report, flame?.revealAs ?? view.name, query, () =>
    goTo(nearest(moves, matches.value?.rows)),
  );
  useSelectionRow(report, moves);
  return (
    <div class="tp-view tp-timeline">
      <Tools>
        <SearchBox
          text={query}
          label="Search: gemm, wait >1ms, /re/"
          onEnter={(isBack) => goTo(at + (isBack ? -1 : 1))}
        />
        <MatchSteps
          at={at}
          count={matches.value?.rows.length ?? null}
          note={matches.value === null ? "" : formatNs(matches.value.ns)}
          onStep={(step) => goTo(at + step)}
        />
        <span class="tp-tools-note">{placeText(moves)}</span>
        {flame?.tools}
        <Segmented
          label="Threads show"
          options={view.layers.map(({ title, column }) => ({ name: column, title }))}
          chosen={moves.layer}
          onChoose={(column) => {
            state.layer.value = column;
          }}
        />
        <ZoomButtons moves={moves} />
      </Tools>
      <div class="tp-timeline-body">
        <div class="tp-timeline-main">
          <Minimap report={report} moves={moves} />
          <StageView
            moves={moves}
            parts={parts}
            report={report}
            view={view}
            matches={matches.value?.rows.length ?? 0}
            isOnlyThreads={isOnlyThreads}
          />
          {flame === undefined && <WaitLine moves={moves} range={store.range.value} />}
        </div>
        <TimelinePanel report={report} moves={moves} onShow={show} />
      </div>
      <TimelineTable id={tableId(report.id, view.name)} moves={moves} />
      <div class="tp-aloud" aria-live="polite">
        {state.row.value >= 0 ? aloud(model, state.row.value) : ""}
      </div>
    </div>
  );
}

interface Stage {
  readonly canvas: RefObject<HTMLCanvasElement | null>;
  readonly scroller: RefObject<HTMLDivElement | null>;
  readonly spacer: RefObject<HTMLDivElement | null>;
  readonly painter: { current: TimelineCanvas | null };
}

function useStage(
  moves: TimelineMoves,
  { store, look }: SlicesProps["report"],
  matches: ConstructorParameters<typeof TimelineCanvas>[1]["matches"],
  isOnlyThreads: boolean,
): Stage {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const spacer = useRef<HTMLDivElement>(null);
  const painter = useRef<TimelineCanvas | null>(null);
  useEffect(() => {
    if (canvas.current === null || scroller.current === null || spacer.current === null) return;
    const abort = new AbortController();
    const parts = { canvas: canvas.current, scroller: scroller.current, spacer: spacer.current };
    painter.current = new TimelineCanvas(
      parts,
      { moves, store, look, matches, isOnlyThreads },
      abort.signal,
    );
    return () => abort.abort();
  }, [moves]);
  return { canvas, scroller, spacer, painter };
}

interface StageViewProps {
  readonly moves: TimelineMoves;
  readonly parts: Stage;
  readonly report: SlicesProps["report"];
  readonly view: SlicesProps["view"];
  readonly matches: number;
  readonly isOnlyThreads: boolean;
}

/** The canvas in its scrolling box; its `data-` attributes describe what it shows. */
function StageView({ moves, parts, report, view, matches, isOnlyThreads }: StageViewProps) {
  const { start, end } = moves.span;
  const row = moves.state.row.value;
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape" && moves.back()) event.preventDefault();
    const anchor = () => parts.painter.current?.anchor() ?? moves.span.start;
    if (!actOnTimelineKey(event, moves, anchor)) return;
    if (moves.state.row.value >= 0) parts.painter.current?.showRow(moves.state.row.value);
  };
  const range = report.store.range.value;
  return (
    <div
      class="tp-stage"
      ref={parts.scroller}
      style={{ "--tp-wanted": `${wantedPx(moves, isOnlyThreads)}px` }}
    >
      {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: a canvas with its own keys has the role application. */}
      <canvas
        class="tp-stage-canvas"
        ref={parts.canvas}
        tabIndex={0}
        role="application"
        aria-roledescription="timeline"
        aria-details={tableId(report.id, view.name)}
        aria-label={`${view.title}: ${plural(moves.model.frame.rows, "slice")}. Arrow keys move the selection, W and S zoom, A and D pan, Enter zooms to the selection, R chooses it as the range, Space folds its lane, Escape goes back.`}
        data-tp-start={Math.round(start)}
        data-tp-end={Math.round(end)}
        data-tp-row={row}
        data-tp-selected={report.store.selection.value?.name ?? ""}
        data-tp-range={range === null ? "" : `${Math.round(range.start)}-${Math.round(range.end)}`}
        data-tp-matches={matches}
        data-tp-layer={moves.layer}
        {...focusable(onKey)}
      />
      <div ref={parts.spacer} class="tp-stage-spacer" />
    </div>
  );
}

/** The height of all lanes, unfolded. */
function wantedPx({ model }: TimelineMoves, isOnlyThreads: boolean): number {
  const { start, end } = model.whole;
  const lanes = {
    lanes: model.view.lanes,
    index: model.ops,
    start,
    end,
    toggled: new Set<number>(),
    isOnlyThreads,
  };
  return AXIS_PX + heightOfBands(laneBands(lanes));
}

function ZoomButtons({ moves }: { readonly moves: TimelineMoves }) {
  const { model, state } = moves;
  const { start, end } = moves.span;
  const step = stepAt(model, (start + end) / 2) ?? model.steps[0];
  return (
    <fieldset class="tp-segmented" aria-label="Show">
      <button type="button" onClick={() => moves.fit()} {...focusable()}>
        All
      </button>
      {step !== undefined && (
        <button type="button" onClick={() => moves.showStep(step)} {...focusable()}>
          Step
        </button>
      )}
      <button
        type="button"
        disabled={state.row.value < 0}
        onClick={() => moves.focus(state.row.value)}
        {...focusable()}
      >
        Selection
      </button>
    </fieldset>
  );
}

/** "step 5 · 0 – 64.0 of 220 ms", "steps 4–6 · 0 – 684 ms". */
function placeText({ model, span }: TimelineMoves): string {
  const { origin, step } = originOf(model, span);
  const { format, suffix } = columnFormat("ns", Math.max(Math.abs(span.end - origin), 1));
  const part = `${format(span.start - origin)} – ${format(span.end - origin)} ${suffix}`;
  if (step === undefined) return [stepsText(model, span), part].filter(Boolean).join(" · ");
  return `step ${step.number} · ${part} of ${formatNs(step.end - step.start)}`;
}

function stepsText(model: TimelineModel, { start, end }: Span<Ns>): string {
  const shown = model.steps.filter((step) => step.start < end && step.end > start);
  const [first, last] = [shown[0], shown.at(-1)];
  if (first === undefined || last === undefined) return "";
  return first === last ? `step ${first.number}` : `steps ${first.number}–${last.number}`;
}

function aloud(model: TimelineModel, row: number): string {
  const { name, facts } = describeSlice(model, row);
  return `${name}, ${facts.join(", ")}`;
}

/** The position of the first match in the window, or the first of all. */
function nearest(moves: TimelineMoves, rows: Int32Array | undefined): number {
  const { start, end } = moves.span;
  const at = (rows ?? new Int32Array(0)).findIndex((row) => {
    const begin = moves.model.start[row] ?? 0;
    return begin >= start && begin < end;
  });
  return Math.max(0, at);
}

/** Shows the slices of a name that another view asked for, by searching for it. */
function useReveal(
  { store }: SlicesProps["report"],
  view: string,
  query: { value: string },
  go: () => void,
): void {
  const wish = store.reveal.value;
  useEffect(() => {
    if (wish?.view !== view) return;
    store.reveal.value = null;
    query.value = wish.name;
    requestAnimationFrame(go);
  }, [wish]);
}

/** Without a selection in other views there is none here. */
function useSelectionRow({ store }: SlicesProps["report"], moves: TimelineMoves): void {
  const name = store.selection.value?.name;
  useEffect(() => {
    // Another slice may have been selected since this was rendered.
    const selected = store.selection.peek()?.name ?? "";
    const { row } = moves.state;
    const own = moves.model.names.words[moves.model.names.keys[row.value] ?? -1];
    // A wait without a name is selected as such.
    if (row.value >= 0 && own !== selected) row.value = -1;
  }, [name]);
}
