/** Slices as a timeline: lanes over time, with a strip of the whole, search, and what is selected. */

import { type Signal, useSignalEffect } from "@preact/signals";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { columnFormat, formatCount, formatNs, plural } from "../../base/format";
import type { Span } from "../../base/scale";
import { type Ns, ns } from "../../base/units";
import { AXIS_PX } from "../../draw/timeline/scene";
import { heightOfBands, laneBands } from "../../layout/lane-bands";
import { wordAt } from "../../wire/frame";
import type { FoundFacts } from "../../wire/questions";
import { Button } from "../common/button";
import type { SlicesProps } from "../common/context";
import { Marked, MatchSteps, SearchBox, Segmented, Tools } from "../common/parts";
import { tableId } from "../common/spoken-table";
import { Stage, useStage } from "../graph/stage";
import { TimelineCanvas } from "./timeline-canvas";
import { createFinder, type Finder, type ShowFound } from "./timeline-finder";
import { actOnTimelineKey } from "./timeline-keys";
import { TimelineMinimap } from "./timeline-minimap";
import { originOf, pathOf, stepAt } from "./timeline-model";
import { createTimelineModels } from "./timeline-models";
import { TimelineMoves } from "./timeline-moves";
import { TimelinePanel, WaitLine } from "./timeline-panel";
import { TimelineTable } from "./timeline-table";
import { describeSlice, isAll, stepsText } from "./timeline-words";

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
  const query = store.search(view);
  const moves = useMemo(
    () => new TimelineMoves(createTimelineModels(report, view, frame), store.timeline(view), store),
    [view, frame],
  );
  const painter = useRef<TimelineCanvas | null>(null);
  const showFound: ShowFound = (slice, facts) => {
    if (facts === null) moves.select(slice);
    else moves.selectNamed(slice, facts.name, facts.kind);
    moves.bringIn(facts === null ? moves.spanOf(slice) : spanOfFound(facts));
    painter.current?.show(slice);
  };
  const finder = useMemo(() => createFinder(moves, query, showFound), [moves]);
  useEffect(() => finder.follow(), [finder]);
  useReveal(report, flame?.revealAs ?? view.name, query, () => finder.goToNearest());
  useSelectionRow(report, moves);
  useRangeInView(report, moves);
  useDetail(moves, painter);
  const isOnlyThreads = flame !== undefined;
  const stage = { report, view, moves, finder, painter, isOnlyThreads };
  return (
    <div class="tp-view tp-timeline">
      <Tools>
        <Search query={query} finder={finder} />
        <span class="tp-tools-note" title={placeText(moves)}>
          {placeText(moves)}
          {isLate(moves) && " · Loading…"}
        </span>
        {flame?.tools}
        <LayerChoice moves={moves} />
        <ZoomButtons moves={moves} />
      </Tools>
      {!isOnlyThreads && <WaitLine report={report} moves={moves} range={store.range.value} />}
      {view.answer && (
        <p class="tp-answer tp-wait-line">
          <Marked text={view.answer} />
        </p>
      )}
      <ExcerptNote moves={moves} />
      <div class="tp-timeline-body">
        <div class="tp-timeline-main">
          <TimelineMinimap report={report} moves={moves} />
          <TimelineStage {...stage} />
        </div>
        <TimelinePanel report={report} moves={moves} onShow={(slice) => showFound(slice, null)} />
      </div>
      <TimelineTable id={tableId(report.id, view.name)} moves={moves} />
      <div class="tp-aloud" aria-live="polite">
        {aloud(moves)}
      </div>
    </div>
  );
}

interface TimelineSearchProps {
  readonly query: Signal<string>;
  readonly finder: Finder;
}

function Search({ query, finder }: TimelineSearchProps) {
  const found = finder.found.value;
  return (
    <>
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
    </>
  );
}

interface MovesProps {
  readonly moves: TimelineMoves;
}

function LayerChoice({ moves }: MovesProps) {
  const { layers } = moves.overview.view;
  return (
    <Segmented
      label="Threads show"
      options={layers.map(({ title, column }) => ({ name: column, title }))}
      chosen={moves.chosenLayer}
      onChoose={(column) => {
        moves.state.layer.value = column;
      }}
    />
  );
}

type PainterRef = RefObject<TimelineCanvas | null>;

interface StageProps extends MovesProps {
  readonly report: SlicesProps["report"];
  readonly view: SlicesProps["view"];
  readonly finder: Finder;
  readonly painter: PainterRef;
  readonly isOnlyThreads: boolean;
}

function TimelineStage({ report, view, moves, finder, painter, isOnlyThreads }: StageProps) {
  const { store, look } = report;
  const parts = useStage(painter, moves, (parts, abort) => {
    const inputs = { moves, store, look, matches: finder.marks, isOnlyThreads };
    return new TimelineCanvas(parts, inputs, abort);
  });
  const { start, end } = moves.span;
  const row = moves.state.row.value;
  const onKey = (event: KeyboardEvent) => {
    const anchor = () => painter.current?.anchor() ?? moves.span.start;
    if (!actOnTimelineKey(event, moves, anchor)) return;
    if (moves.state.row.value >= 0) painter.current?.show(moves.state.row.value);
  };
  const range = store.range.value;
  return (
    <Stage
      parts={parts}
      kind="timeline"
      label={`${view.title}: ${plural(view.excerpt?.slices ?? moves.model.frame.rows, "slice")}. Arrow keys move the selection, W and S zoom, A and D pan, Enter zooms to the selection, R chooses it as the range, Space folds its lane, P dims what is not on the critical path, Escape goes back.`}
      table={tableId(report.id, view.name)}
      class="tp-stage-canvas"
      isBusy={moves.models.source?.windows.isComplete.value === false}
      wantedPx={wantedPx(moves, isOnlyThreads)}
      shown={{
        "data-tp-start": Math.round(start),
        "data-tp-end": Math.round(end),
        "data-tp-row": row,
        "data-tp-selected": store.selection.value?.name ?? "",
        "data-tp-range":
          range === null ? "" : `${Math.round(range.start)}-${Math.round(range.end)}`,
        "data-tp-matches": finder.found.value?.count ?? 0,
        "data-tp-layer": moves.layer,
        "data-tp-complete": moves.isComplete,
      }}
      onKey={onKey}
    />
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

function ZoomButtons({ moves }: MovesProps) {
  const { overview: model, state } = moves;
  const { start, end } = moves.span;
  const step = stepAt(model, (start + end) / 2) ?? model.steps[0];
  return (
    <fieldset class="tp-segmented" aria-label="Show">
      <Button onClick={() => moves.fit()}>All</Button>
      {step !== undefined && <Button onClick={() => moves.showStep(step)}>Step</Button>}
      <Button disabled={state.row.value < 0} onClick={() => moves.focus(state.row.value)}>
        Selection
      </Button>
      {pathOf(model) !== null && (
        <Button
          aria-pressed={state.isPath.value}
          title="Dim what is not on the path (P)"
          onClick={() => moves.togglePath()}
        >
          Path
        </Button>
      )}
    </fieldset>
  );
}

/** "step 5 · 0 – 64.0 ms of 220 ms", "step 5 · 220 ms", "steps 4–6 · 0 – 684 ms". */
function placeText({ overview: model, span }: TimelineMoves): string {
  const { origin, step } = originOf(model, span);
  const { format, suffix } = columnFormat("ns", Math.max(Math.abs(span.end - origin), 1));
  const part = `${format(span.start - origin)} – ${format(span.end - origin)} ${suffix}`;
  if (step === undefined) {
    const what = stepsText(model, span) || (isAll(model, span) ? "all that was recorded" : "");
    return [what, part].filter(Boolean).join(" · ");
  }
  const long = formatNs(step.end - step.start);
  const isWhole = span.start <= step.start && span.end >= step.end;
  return `step ${step.number} · ${isWhole ? long : `${part} of ${long}`}`;
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
function useDetail(moves: TimelineMoves, painter: PainterRef): void {
  useSignalEffect(() => moves.askForDetail());
  const { detailed } = moves.models;
  useSignalEffect(() => {
    const slice = detailed.value ?? -1;
    if (slice >= 0 && slice === moves.state.row.peek()) painter.current?.show(slice);
  });
}

/** Says that short slices are merged, where they cannot be had one by one. */
function ExcerptNote({ moves }: MovesProps) {
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
