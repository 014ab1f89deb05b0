/** A tree as a flame graph, with search, path and colours. */

import { type ReadonlySignal, useComputed, useSignalEffect } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { cssColor, parseColor } from "../../base/color";
import { formatRatio, plural } from "../../base/format";
import { shortenName } from "../../base/names";
import { phaseColor, phases } from "../../base/palette";
import { kernelColor } from "../../draw/flame-painter";
import { type FlameMatches, heaviestRow, searchFlame } from "../../layout/flame-search";
import { pathTo } from "../../layout/flame-tree";
import { wordAt } from "../../wire/frame";
import type { TreeHeader, WeightHeader } from "../../wire/header";
import type { ReportContext, TreeProps } from "../common/context";
import { focusable } from "../common/focusable";
import { Legend, SearchBox, Segmented, Sentence, Tools } from "../common/parts";
import { FlameCanvas } from "./flame-canvas";
import { actOnKey } from "./flame-keys";
import { createFlameModel, describeBox, type FlameModel, weightOf } from "./flame-model";
import { FlameMoves } from "./flame-moves";

const CRUMB_CHARS = 40;

/** Any tree of a report. */
export function FlameView({ report, view, frame }: TreeProps) {
  const { store, look } = report;
  const state = store.flame(view);
  const query = store.search(view);
  const moves = useMemo(
    () => new FlameMoves(createFlameModel(view, frame), state, store),
    [view, frame],
  );
  const { model } = moves;
  const matches = useComputed(() =>
    searchFlame(model.tree, moves.extent, model.names, query.value),
  );
  const stage = useStage(moves, report, matches);
  useSelectionRow(moves, report);
  useReveal(moves, view.name, report, stage);
  const weight = weightOf(model, state.weight.value);
  return (
    <div class="tp-view tp-flame">
      <Tools>
        <SearchBox
          text={query}
          label="Search names"
          onEnter={() => stage.canvas.current?.focus()}
        />
        <MatchNote matches={matches.value} weightTitle={weight.title} />
        <Segmented
          label="Box width"
          options={model.weights}
          chosen={weight.name}
          onChoose={(name) => moves.weigh(name)}
        />
      </Tools>
      <Crumbs moves={moves} />
      <StageView moves={moves} stage={stage} report={report} view={view} matches={matches.value} />
      <FlameLegend model={model} theme={look.value.theme} />
      <div class="tp-aloud" aria-live="polite">
        {state.row.value >= 0 ? aloud(model, state.row.value, weight) : ""}
      </div>
    </div>
  );
}

/** The elements that the graph is drawn into, and its painter. */
interface Stage {
  readonly canvas: RefObject<HTMLCanvasElement | null>;
  readonly scroller: RefObject<HTMLDivElement | null>;
  readonly spacer: RefObject<HTMLDivElement | null>;
  readonly painter: { current: FlameCanvas | null };
}

function useStage(
  moves: FlameMoves,
  { store, look }: ReportContext,
  matches: ReadonlySignal<FlameMatches | null>,
): Stage {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const spacer = useRef<HTMLDivElement>(null);
  const painter = useRef<FlameCanvas | null>(null);
  useEffect(() => {
    if (canvas.current === null || scroller.current === null || spacer.current === null) return;
    const abort = new AbortController();
    const parts = { canvas: canvas.current, scroller: scroller.current, spacer: spacer.current };
    painter.current = new FlameCanvas(parts, { moves, store, look, matches }, abort.signal);
    return () => abort.abort();
  }, [moves]);
  return { canvas, scroller, spacer, painter };
}

interface StageViewProps {
  readonly moves: FlameMoves;
  readonly stage: Stage;
  readonly report: ReportContext;
  readonly view: TreeHeader;
  readonly matches: FlameMatches | null;
}

/** The canvas in its scrolling box; its `data-` attributes describe what it shows. */
function StageView({ moves, stage, report, view, matches }: StageViewProps) {
  const { model, state } = moves;
  const weight = weightOf(model, state.weight.value);
  const isWeightless = (moves.extent.total[0] ?? 0) <= 0;
  const onKey = (event: KeyboardEvent) => {
    actOnKey(event, moves, () => stage.painter.current?.anchor() ?? moves.span.start);
    if (state.row.value >= 0) stage.painter.current?.showRow(state.row.value);
  };
  return (
    <div class="tp-flame-scroll" ref={stage.scroller}>
      {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: a canvas with its own keys has the role application. */}
      <canvas
        class="tp-flame-canvas"
        ref={stage.canvas}
        tabIndex={0}
        role="application"
        aria-roledescription="flame graph"
        aria-label={`${view.title}: ${plural(model.tree.rows, "box")}. Arrow keys move the selection, Enter zooms in, Escape goes back.`}
        data-tp-focus={wordAt(model.names, state.place.value.focus)}
        data-tp-selected={report.store.selection.value?.name ?? ""}
        data-tp-matches={matches?.rows ?? 0}
        data-tp-zoom={moves.zoom.toFixed(2)}
        data-tp-weight={weight.name}
        {...focusable(onKey)}
      />
      <div ref={stage.spacer} class="tp-flame-spacer" />
      {isWeightless && <Sentence>Nothing was recorded for {weight.title}.</Sentence>}
    </div>
  );
}

function aloud(model: FlameModel, row: number, weight: WeightHeader): string {
  const { name, facts } = describeBox(model, row, weight);
  return `${name}, ${facts.join(", ")}`;
}

interface MatchNoteProps {
  readonly matches: FlameMatches | null;
  readonly weightTitle: string;
}

/** "14 matches · 21.3 % of CPU": the total weight of the matching boxes. */
function MatchNote({ matches, weightTitle }: MatchNoteProps) {
  if (matches === null) return <span class="tp-tools-note" role="status" />;
  return (
    <span class="tp-tools-note" role="status">
      {plural(matches.rows, "match")}
      {matches.rows > 0 && ` · ${formatRatio(matches.ratio)} of ${weightTitle}`}
    </span>
  );
}

/** The path from the root to the focused box; a click zooms out to a box on it. */
function Crumbs({ moves }: { readonly moves: FlameMoves }) {
  const path = pathTo(moves.model.tree, moves.state.place.value.focus);
  const last = path.length - 1;
  return (
    <nav class="tp-crumbs" aria-label="Path to the focused box">
      {path.map((row, index) => (
        <span key={row} class="tp-crumb">
          {index > 0 && <span aria-hidden="true">›</span>}
          <button
            type="button"
            title={wordAt(moves.model.names, row)}
            aria-current={index === last ? "location" : undefined}
            onClick={() => moves.focus(row)}
            {...focusable()}
          >
            <bdi>{shortenName(wordAt(moves.model.names, row), CRUMB_CHARS)}</bdi>
          </button>
        </span>
      ))}
    </nav>
  );
}

/** What the grey boxes are, by kind. */
const placeTitles = [
  ["line", "lines"],
  ["module", "modules"],
  ["python", "Python frames"],
] as const;

interface FlameLegendProps {
  readonly model: FlameModel;
  readonly theme: "light" | "dark";
}

function FlameLegend({ model, theme }: FlameLegendProps) {
  const shown = phases.filter(({ name }) => model.phases.words.includes(name));
  const entries = shown.map(({ name, title }) => ({ title, color: phaseColor(name, theme) }));
  const places = placeTitles.filter(([kind]) => model.kinds.words.includes(kind));
  const place = { title: places.map(([, title]) => title).join(", "), color: "var(--tp-neutral)" };
  const kernel = model.kinds.words.includes("kernel") ? [kernelEntry(theme)] : [];
  return <Legend entries={[...entries, ...kernel, ...(places.length > 0 ? [place] : [])]} />;
}

/** Kernels are lighter than their phase; the legend uses the forward phase as an example. */
function kernelEntry(theme: "light" | "dark") {
  const hue = parseColor(phaseColor("forward", theme)) ?? [128, 128, 128];
  return { title: "kernels (lighter)", color: cssColor(kernelColor(hue)) };
}

/** Selects the heaviest box of a name that was selected in another view. */
function useSelectionRow(moves: FlameMoves, report: ReportContext): void {
  useSignalEffect(() => {
    const name = report.store.selection.value?.name;
    const row = moves.state.row.peek();
    if (name === undefined) moves.state.row.value = -1;
    else if (row < 0 || wordAt(moves.model.names, row) !== name) {
      moves.state.row.value = heaviestRow(moves.extent, moves.model.names, name);
    }
  });
}

/** Shows the box that another view asked for, zoomed to its parent. */
function useReveal(
  moves: FlameMoves,
  view: string,
  { store }: ReportContext,
  { painter }: Stage,
): void {
  const wish = store.reveal.value;
  useEffect(() => {
    if (wish?.view !== view) return;
    store.reveal.value = null;
    const row = heaviestRow(moves.extent, moves.model.names, wish.name);
    if (row < 0) return;
    moves.select(row);
    moves.focus(Math.max(0, moves.model.tree.parent[row] ?? 0));
    painter.current?.showRow(row);
  }, [wish]);
}
