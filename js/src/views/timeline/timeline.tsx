/** Slices as a timeline: lanes over time, with a strip of the whole, search, and what is selected. */

import { useSignalEffect } from "@preact/signals";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { columnFormat, formatCount, formatNs, plural } from "../../base/format";
import type { Span } from "../../base/scale";
import { type Ns, ns } from "../../base/units";
import { AXIS_PX } from "../../draw/timeline-painter";
import { heightOfBands, laneBands } from "../../layout/lane-bands";
import { wordAt } from "../../wire/frame";
import type { FoundFacts } from "../../wire/questions";
import type { SlicesProps } from "../common/context";
import { focusable } from "../common/focusable";
import { MatchSteps, SearchBox, Segmented, Tools } from "../common/parts";
import { tableId } from "../common/spoken-table";
import { Minimap } from "./minimap";
import { TimelineCanvas } from "./timeline-canvas";
import { createFinder, type ShowFound } from "./timeline-finder";
import { actOnTimelineKey } from "./timeline-keys";
import { originOf, stepAt, type TimelineModel } from "./timeline-model";
import { createTimelineModels } from "./timeline-models";
import { TimelineMoves } from "./timeline-moves";
import { TimelinePanel, WaitLine } from "./timeline-panel";
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
  const moves = useMemo(
    () => new TimelineMoves(createTimelineModels(report, view, frame), state, store),
    [view, frame],
  );
  const isOnlyThreads = flame !== undefined;
  const painter = useRef<TimelineCanvas | null>(null);
  const show = (slice: number) => showSlice(slice, null);
  const showSlice: ShowFound = (slice, facts) => {
    if (facts === null) moves.select(slice);
    else moves.selectNamed(slice, facts.name, facts.kind);
    moves.bringIn(facts === null ? moves.spanOf(slice) : spanOfFound(facts));
    painter.current?.showSlice(slice);
  };
  const finder = useMemo(() => createFinder(moves, query, showSlice), [moves]);
  useEffect(() => finder.follow(), [finder]);
  const parts = useStage(moves, report, finder.marks, isOnlyThreads, painter);
  const found = finder.found.value;
  useReveal(report, flame?.revealAs ?? view.name, query, () => finder.goToNearest());
  useSelectionRow(report, moves);
  useRangeInView(report, moves);
  useDetail(moves, painter);
  return (
    <div class="tp-view tp-timeline">
      <Tools>
        <SearchBox
          text={query}
          label="Search: gemm, wait >1ms, /re/"
          onEnter={(isBack) => finder.step(isBack ? -1 : 1)}
        />
        <MatchSteps
          at={found?.at ?? -1}
          count={found?.count ?? null}
          note={found === null ? "" : formatNs(found.ns)}
          onStep={(step) => finder.step(step)}
        />
        <span class="tp-tools-note">
          {placeText(moves)}
          {isLate(moves) && " · Loading…"}
        </span>
        {flame?.tools}
        <Segmented
          label="Threads show"
          options={view.layers.map(({ title, column }) => ({ name: column, title }))}
          chosen={moves.chosenLayer}
          onChoose={(column) => {
            state.layer.value = column;
          }}
        />
        <ZoomButtons moves={moves} />
      </Tools>
      <ExcerptNote moves={moves} />
      <div class="tp-timeline-body">
        <div class="tp-timeline-main">
          <Minimap report={report} moves={moves} />
          <StageView
            moves={moves}
            parts={parts}
            report={report}
            view={view}
            matches={found?.count ?? 0}
            isOnlyThreads={isOnlyThreads}
          />
          {flame === undefined && <WaitLine moves={moves} range={store.range.value} />}
        </div>
        <TimelinePanel report={report} moves={moves} onShow={show} />
      </div>
      <TimelineTable id={tableId(report.id, view.name)} moves={moves} />
      <div class="tp-aloud" aria-live="polite">
        {aloud(moves)}
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
  painter: Stage["painter"],
): Stage {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const spacer = useRef<HTMLDivElement>(null);
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
    if (moves.state.row.value >= 0) parts.painter.current?.showSlice(moves.state.row.value);
  };
  const range = report.store.range.value;
  return (
    <div
      class="tp-stage"
      ref={parts.scroller}
      aria-busy={moves.models.source?.windows.isComplete.value === false}
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
        aria-label={`${view.title}: ${plural(view.excerpt?.slices ?? moves.model.frame.rows, "slice")}. Arrow keys move the selection, W and S zoom, A and D pan, Enter zooms to the selection, R chooses it as the range, Space folds its lane, Escape goes back.`}
        data-tp-start={Math.round(start)}
        data-tp-end={Math.round(end)}
        data-tp-row={row}
        data-tp-selected={report.store.selection.value?.name ?? ""}
        data-tp-range={range === null ? "" : `${Math.round(range.start)}-${Math.round(range.end)}`}
        data-tp-matches={matches}
        data-tp-layer={moves.layer}
        data-tp-complete={moves.isComplete}
        {...focusable(onKey)}
      />
      <div ref={parts.spacer} class="tp-stage-spacer" />
    </div>
  );
}

/** The height of all lanes, unfolded. */
function wantedPx({ overview }: TimelineMoves, isOnlyThreads: boolean): number {
  const { start, end } = overview.whole;
  const lanes = {
    lanes: overview.view.lanes,
    index: overview.ops,
    start,
    end,
    toggled: new Set<number>(),
    isOnlyThreads,
  };
  return AXIS_PX + heightOfBands(laneBands(lanes));
}

function ZoomButtons({ moves }: { readonly moves: TimelineMoves }) {
  const { overview: model, state } = moves;
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
function placeText({ overview: model, span }: TimelineMoves): string {
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

function aloud(moves: TimelineMoves): string {
  const found = moves.find(moves.state.row.value);
  if (found === null) return "";
  const { name, facts } = describeSlice(found.model, found.row);
  return `${name}, ${facts.join(", ")}`;
}

function spanOfFound({ start_ns, dur_ns }: FoundFacts): Span<Ns> {
  return { start: ns(start_ns), end: ns(start_ns + dur_ns) };
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

/** Goes to a range that was chosen in another view, or with a step, and is not in sight. */
function useRangeInView({ store }: SlicesProps["report"], moves: TimelineMoves): void {
  const range = store.range.value;
  useEffect(() => {
    if (range === null) return;
    const { start, end } = moves.span;
    if (range.end <= start || range.start >= end) moves.jump(range);
  }, [range, moves]);
}

/** Without a selection in other views there is none here. */
function useSelectionRow({ store }: SlicesProps["report"], moves: TimelineMoves): void {
  const name = store.selection.value?.name;
  useEffect(() => {
    // Another slice may have been selected since this was rendered.
    const selected = store.selection.peek()?.name ?? "";
    const { row } = moves.state;
    const found = moves.find(row.value);
    // A wait without a name is selected as such.
    const own = found === null ? undefined : wordAt(found.model.names, found.row);
    if (own !== undefined && own !== selected) row.value = -1;
  }, [name]);
}

/** Asks for what belongs to the selection, and brings its lane into view when that is there. */
function useDetail(moves: TimelineMoves, painter: Stage["painter"]): void {
  useSignalEffect(() => moves.askForDetail());
  const { detailed } = moves.models;
  useSignalEffect(() => {
    const slice = detailed.value ?? -1;
    if (slice >= 0 && slice === moves.state.row.peek()) painter.current?.showSlice(slice);
  });
}

/** Says that short slices are merged, where they cannot be had one by one. */
function ExcerptNote({ moves }: { readonly moves: TimelineMoves }) {
  const { overview, source } = moves.models;
  const { excerpt } = overview.view;
  if (excerpt === null) return null;
  const state = source?.windows.state.value;
  if (state === undefined) {
    const shown = `${formatCount(overview.frame.rows)} bars stand for ${plural(excerpt.slices, "slice")}`;
    const merged = `those shorter than ${formatNs(excerpt.bucket_ns)} are merged`;
    return <Note>{`${shown}: ${merged}. Open the report in a notebook to see each of them.`}</Note>;
  }
  if (state.kind !== "failed") return null;
  return <Note>{`Finer detail needs the running kernel. ${state.message}`}</Note>;
}

function isLate({ models }: TimelineMoves): boolean {
  return models.source?.windows.state.value.kind === "loading";
}

function Note({ children }: { readonly children: string }) {
  return (
    <p class="tp-timeline-note" role="status">
      {children}
    </p>
  );
}
