/** One flame graph with search, minimap, path and legend. */

import { type ReadonlySignal, type Signal, useComputed, useSignalEffect } from "@preact/signals";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { FlameOptions } from "../../base/flame-options";
import { formatRatio, formatValue, plural } from "../../base/format";
import { CODE_CHAR_PX, shortenName } from "../../base/names";
import { phaseColor } from "../../base/palette";
import { ROW_PX } from "../../draw/flame-painter";
import { BEFORE } from "../../layout/alive";
import { beforeGenerated, fitCrumbs, toldOf } from "../../layout/crumbs";
import { type FlameMatches, heaviestRow, searchFlame } from "../../layout/flame-search";
import { hottestPath, pathTo } from "../../layout/flame-tree";
import { type Frame, type Numbers, rowsOf, wordAt } from "../../wire/frame";
import type { TreeHeader, WeightHeader } from "../../wire/header";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";
import {
  Legend,
  MatchSteps,
  phaseEntries,
  SearchBox,
  Segmented,
  Sentence,
  Tools,
} from "../common/parts";
import { tableId } from "../common/spoken-table";
import { useWidth } from "../common/use-width";
import { Stage, useStage } from "../graph/stage";
import { FlameCanvas } from "./flame-canvas";
import { actOnFlameKey } from "./flame-keys";
import { FlameMinimap } from "./flame-minimap";
import {
  AWAITS,
  describeBox,
  describeWhole,
  type FlameModel,
  flameModelOf,
  isAwaiting,
  weightDivisor,
  weightOf,
} from "./flame-model";
import { FlameMoves } from "./flame-moves";
import { FlameTable } from "./flame-table";

const CRUMB_CHARS = 40;
// What stands beside the path, and the margins.
const CRUMB_TOTAL_PX = 202;
// The mark before the outer boxes, and the margins.
const OUTER_CHARS = 6;

interface GraphProps {
  readonly report: ReportContext;
  readonly view: TreeHeader;
  /** The view under which other views ask for a name. */
  readonly revealAs: string;
  readonly frame: Frame;
  readonly tools: ComponentChildren;
  readonly title: string;
  readonly options: Signal<FlameOptions>;
  readonly folded: number;
  /** How many steps the tree adds up; 1 where they are not known. */
  readonly recorded: number;
}

export function FlameGraph(props: GraphProps) {
  const { report, view, frame, tools, title, recorded } = props;
  const { store } = report;
  const state = store.flame(view);
  const query = store.search(view);
  const steps = store.isPerStep.value ? recorded : 1;
  const moves = useMemo(() => {
    const { weights, threads, device } = view;
    const model = flameModelOf(frame, weights, report.titleOf, steps, recorded, threads, device);
    return new FlameMoves(model, state, store);
  }, [frame, steps]);
  useFreshPlace(moves, frame);
  const { model } = moves;
  const matches = useComputed(() =>
    searchFlame(model.tree, moves.extent, model.names, query.value),
  );
  const painter = useRef<FlameCanvas | null>(null);
  useSelectionRow(moves, report);
  const goTo = (match: number) => goToMatch(match, moves, matches.value, painter);
  useReveal(props, query, moves, goTo);
  const weight = weightOf(model, state.weight.value);
  return (
    <div class="tp-view tp-flame">
      <Tools>
        {title !== "" && <strong>{title}</strong>}
        <Search
          query={query}
          at={state.match.value}
          found={matches.value}
          weight={weight}
          goTo={goTo}
        />
        <span class="tp-tools-note" />
        {tools}
        <Segmented
          label="Box width"
          options={model.weights}
          chosen={weight.name}
          onChoose={(name) => moves.weigh(name)}
        />
      </Tools>
      <Hottest moves={moves} weight={weight} />
      <FlameMinimap report={report} moves={moves} />
      <Crumbs moves={moves} weight={weight} />
      <Outer moves={moves} />
      <FlameStage {...props} moves={moves} painter={painter} matches={matches} />
      <div class="tp-flame-foot">
        <FlameLegend model={model} weight={weight.name} theme={report.look.value.theme} />
        {hasMergedModules(model) && <span>×: calls{model.steps > 1 && " per step"}</span>}
        {props.folded > 0 && <span>{plural(props.folded, "wrapper")} folded</span>}
        <Actions moves={moves} options={props.options} />
      </div>
      <FlameTable id={tableId(report.id, view.name)} moves={moves} weight={weight} />
      <div class="tp-aloud" aria-live="polite">
        {state.row.value >= 0 ? aloud(model, state.row.value, weight) : ""}
      </div>
    </div>
  );
}

type PainterRef = RefObject<FlameCanvas | null>;

/** Goes to a match by its number, from the last on to the first again. */
function goToMatch(
  match: number,
  moves: FlameMoves,
  matches: FlameMatches | null,
  painter: PainterRef,
): void {
  const rows = matches?.rows ?? [];
  if (rows.length === 0) return;
  const at = ((match % rows.length) + rows.length) % rows.length;
  moves.state.match.value = at;
  const row = rows[at] ?? 0;
  moves.reveal(row);
  requestAnimationFrame(() => painter.current?.show(row));
}

interface FlameSearchProps {
  readonly query: Signal<string>;
  /** The match that was gone to, -1 for none. */
  readonly at: number;
  readonly found: FlameMatches | null;
  readonly weight: WeightHeader;
  goTo(match: number): void;
}

function Search({ query, at, found, weight, goTo }: FlameSearchProps) {
  return (
    <>
      <SearchBox
        text={query}
        label="Search names"
        onEnter={(isBack) => goTo(at + (isBack ? -1 : 1))}
      />
      <MatchSteps
        at={found === null ? -1 : Math.min(at, found.rows.length - 1)}
        count={found?.rows.length ?? null}
        note={found === null ? "" : `${formatRatio(found.ratio)} of ${weight.title}`}
        onStep={(step) => goTo(at + step)}
      />
    </>
  );
}

/** A row number means nothing in another tree. */
function useFreshPlace(moves: FlameMoves, frame: Frame): void {
  const seen = useRef(frame);
  if (seen.current === frame) return;
  seen.current = frame;
  const { place, history, row, match } = moves.state;
  place.value = { focus: 0, span: null };
  history.value = [];
  row.value = -1;
  match.value = -1;
}

interface FlameStageProps extends GraphProps {
  readonly moves: FlameMoves;
  readonly painter: PainterRef;
  readonly matches: ReadonlySignal<FlameMatches | null>;
}

function FlameStage({ moves, painter, report, view, matches }: FlameStageProps) {
  const { model, state } = moves;
  const { store, look } = report;
  const parts = useStage(
    painter,
    moves,
    (parts, abort) => new FlameCanvas(parts, { moves, store, look, matches }, abort),
  );
  const weight = weightOf(model, state.weight.value);
  const isWeightless = (moves.extent.total[0] ?? 0) <= 0;
  const onKey = (event: KeyboardEvent) => {
    actOnFlameKey(event, moves, () => painter.current?.anchor() ?? moves.span.start);
    if (state.row.value >= 0) painter.current?.show(state.row.value);
  };
  const rows = model.tree.deepest + 1 - (model.tree.depth[moves.top] ?? 0);
  return (
    <Stage
      parts={parts}
      kind="flame graph"
      label={`${view.title}: ${plural(model.tree.rows, "box")}. Arrow keys move the selection, Enter zooms in, Escape goes back.`}
      table={tableId(report.id, view.name)}
      class="tp-flame-canvas"
      wantedPx={(rows + 1) * ROW_PX}
      shown={{
        "data-tp-focus": wordAt(model.names, state.place.value.focus),
        "data-tp-selected": store.selection.value?.name ?? "",
        "data-tp-matches": matches.value?.rows.length ?? 0,
        "data-tp-zoom": moves.zoom.toFixed(2),
        "data-tp-weight": weight.name,
      }}
      onKey={onKey}
    >
      {isWeightless && <Sentence>Nothing was recorded for {weight.title}.</Sentence>}
    </Stage>
  );
}

function aloud(model: FlameModel, row: number, weight: WeightHeader): string {
  const { name, facts } = describeBox(model, row, weight);
  return `${name}, ${facts.join(", ")}`;
}

interface MovesProps {
  readonly moves: FlameMoves;
}

function titleOf({ titles, names }: FlameModel, row: number): string {
  return titles[names.keys[row] ?? -1] ?? "";
}

// The end of a hot path says where the time goes, and the last line and module of the user's where that is called.
const OWN_KINDS = [["line", "python"], ["module"]];
// Files in the cache of torch.compile, with their lines.
const GENERATED = /torchinductor_|[/\\]c[a-z2-7]{40,}\.py\(/;
// Boxes whose memory differs by less hold the same.
const NEARLY = 1.01;

/** What to say of a path, with … for what is left out. */
function hotNames(model: FlameModel, path: readonly number[]): string {
  const own = OWN_KINDS.map((kinds) => (row: number) => kinds.includes(wordAt(model.kinds, row)));
  const said = toldOf(path, own).map((row) =>
    row === null ? "…" : shortenName(titleOf(model, row), CRUMB_CHARS),
  );
  return said.join(" › ");
}

/** What no path leads to: waiting for other threads, and memory from before the recording. */
function asideOf({ names, awaits }: FlameModel, weight: WeightHeader, total: Numbers) {
  const before = names.words.indexOf(BEFORE);
  if (before < 0) return weight.name === "cpu_ns" ? awaits : null;
  return total.map((size, row) => (names.keys[row] === before ? size : 0));
}

/** The path that has most of the weight, as a sentence; a click selects its last box. */
function Hottest({ moves, weight }: MovesProps & { readonly weight: WeightHeader }) {
  const { model } = moves;
  const { total } = moves.extent;
  const hot = beforeGenerated(
    hottestPath(model.tree, total, asideOf(model, weight, total)),
    (row) => wordAt(model.kinds, row) === "library",
    (row) => GENERATED.test(wordAt(model.names, row)),
  );
  // All memory comes from the same functions of the allocator: what first holds all of it says more.
  const size = (row: number) => total[row] ?? 0;
  const leaf = size(hot.at(-1) ?? 0);
  const first = hot.findIndex((row) => size(row) <= leaf * NEARLY);
  const path = weight.unit === "bytes" && first > 0 ? hot.slice(0, first + 1) : hot;
  const last = path.at(-1) ?? 0;
  if (last === 0 || model.runs !== null) return null;
  const names = path.slice(1).map((row) => titleOf(model, row));
  const isBare = path.length === 2 && wordAt(model.kinds, last) === "kernel";
  // Waits stand beside the work that they are for, and may be wider.
  const hasWaits = weight.name === "cpu_ns" && (model.awaits?.[0] ?? 0) > 0;
  return (
    <p class="tp-answer">
      {isBare && "No code path was recorded, nor which op launched this work. "}
      {hasWaits && "Not counting waits, "}
      <strong>{formatValue(size(last) / weightDivisor(model, weight), weight.unit)}</strong>
      {model.steps > 1 && " per step"} in{" "}
      <Button class="tp-link" title={names.join(" › ")} onClick={() => moves.select(last)}>
        <bdi class="tp-code">{hotNames(model, path.slice(1))}</bdi>
      </Button>
    </p>
  );
}

/** The boxes around the first that branches, as one row that opens. */
function Outer({ moves }: MovesProps) {
  const path = pathTo(moves.model.tree, moves.firstTop).slice(0, -1);
  return path.length === 0 ? null : <OuterRow moves={moves} path={path} />;
}

function OuterRow({ moves, path }: MovesProps & { readonly path: readonly number[] }) {
  const { model, state } = moves;
  const { ref, width } = useWidth<HTMLButtonElement>();
  const whole = path.map((row) => titleOf(model, row));
  const count = plural(path.length, "outer box");
  const { hidden, texts } = fitCrumbs(
    whole,
    Math.floor(width / CODE_CHAR_PX) - count.length - OUTER_CHARS,
  );
  return (
    <Button
      class="tp-outer"
      ref={ref}
      title={whole.join(" › ")}
      aria-expanded={state.showsOuter.value}
      onClick={() => {
        state.showsOuter.value = !state.showsOuter.value;
      }}
    >
      <span aria-hidden="true">{state.showsOuter.value ? "▾" : "▸"}</span> {count}:{" "}
      <bdi class="tp-code">{(hidden > 0 ? ["…", ...texts] : texts).join(" › ")}</bdi>
    </Button>
  );
}

/** The path from the root to the focused box, its end in sight; a click zooms out to a box on it. */
function Crumbs({ moves, weight }: MovesProps & { readonly weight: WeightHeader }) {
  const { model, state } = moves;
  const { ref, width } = useWidth<HTMLElement>();
  const path = pathTo(model.tree, state.place.value.focus);
  const names = path.map((row) => titleOf(model, row));
  const { hidden, texts } = fitCrumbs(names, Math.floor((width - CRUMB_TOTAL_PX) / CODE_CHAR_PX));
  const focus = path.at(-1) ?? 0;
  return (
    <nav class="tp-crumbs" aria-label="Path to the focused box" ref={ref}>
      <div class="tp-crumb-list">
        {hidden > 0 && (
          <span class="tp-crumb">
            <Button
              title={names.slice(0, hidden).join(" › ")}
              aria-label={`${plural(hidden, "outer box")}, up to ${names[hidden - 1]}`}
              onClick={() => moves.focus(path[hidden - 1] ?? 0)}
            >
              …
            </Button>
          </span>
        )}
        {path.slice(hidden).map((row, index) => (
          <span key={row} class="tp-crumb">
            {hidden + index > 0 && <span aria-hidden="true">›</span>}
            <Button
              title={wordAt(model.names, row)}
              aria-current={row === focus ? "location" : undefined}
              onClick={() => moves.focus(row)}
            >
              <bdi>{texts[index]}</bdi>
            </Button>
          </span>
        ))}
      </div>
      <span class="tp-crumb-total">
        {focus === 0 && <span class="tp-crumb-of">{describeWhole(model, weight)}</span>}
        <span>{describeBox(model, focus, weight).facts[1]}</span>
      </span>
    </nav>
  );
}

/** What can be done with the selected box. */
function Actions({ moves, options }: MovesProps & { readonly options: Signal<FlameOptions> }) {
  const { model, state } = moves;
  const row = state.row.value;
  if (row <= 0) return null;
  const name = wordAt(model.names, row);
  const leaveOut = (kind: "drop" | "hide" | "file", text: string) => {
    const now = options.value;
    options.value = { ...now, changes: [...now.changes, { kind, text }] };
  };
  const file = /^(.+)\(\d+\): /.exec(name)?.[1];
  const button = (label: string, title: string, act: () => void) => (
    <Button class="tp-button" title={title} onClick={act}>
      {label}
    </Button>
  );
  return (
    <span class="tp-flame-actions">
      {button("Focus", "Zoom to this box (Enter)", () => moves.focus(row))}
      {button("Drop", "Leave out boxes of this name and what is in them", () =>
        leaveOut("drop", name),
      )}
      {button("Hide", "Leave out boxes of this name; what is in them stays", () =>
        leaveOut("hide", name),
      )}
      {file !== undefined &&
        button("Hide file", `Leave out frames of ${file}; what they call stays`, () =>
          leaveOut("file", file),
        )}
    </span>
  );
}

/** Whether a box says how many calls of modules it stands for. */
function hasMergedModules({ calls, kinds, steps }: FlameModel): boolean {
  const module = kinds.words.indexOf("module");
  return calls?.some((count, row) => count > steps && kinds.keys[row] === module) ?? false;
}

/** What the tones are, by kind. */
function toneText(kinds: readonly string[]): string {
  const own = [
    ["module", "modules"],
    ["line", "lines"],
    ["python", "your files"],
  ].flatMap(([kind = "", title = ""]) => (kinds.includes(kind) ? [title] : []));
  const ops = kinds.includes("op") ? ["ops"] : [];
  const library = kinds.includes("library") ? ["paler: libraries"] : [];
  const kernels = kinds.includes("kernel") ? ["kernels"] : [];
  const strong = own.length > 0 ? [`strong: ${own.join(", ")}`] : [];
  return [
    "color: main phase",
    ...strong,
    ...(own.length > 0 ? [`pale: ${[...ops, ...kernels].join(", ")}`] : []),
    ...library,
  ].join(" · ");
}

interface FlameLegendProps {
  readonly model: FlameModel;
  readonly weight: string;
  readonly theme: "light" | "dark";
}

function FlameLegend({ model, weight, theme }: FlameLegendProps) {
  return model.runs === null ? (
    <PhaseLegend {...{ model, weight, theme }} />
  ) : (
    <ul class="tp-legend" aria-label="Legend">
      <li>
        <span class="tp-dot" style={{ background: phaseColor("same", theme) }} /> in both
      </li>
      <li>
        <span class="tp-dot tp-saved" /> ▼ saved
      </li>
      <li>
        <span class="tp-dot tp-slower" /> ▲ added
      </li>
    </ul>
  );
}

/** What the colors are of the boxes that have any of the weight; the first one is of all. */
function PhaseLegend({ model, weight, theme }: FlameLegendProps) {
  const seen = useMemo(() => {
    const { total } = model.extent(weight);
    const drawn = rowsOf(model.frame).filter((row) => row > 0 && (total[row] ?? 0) > 0);
    return new Set(
      drawn.map((row) => (isAwaiting(model, row, weight) ? AWAITS : wordAt(model.phases, row))),
    );
  }, [model, weight]);
  const isOthers = seen.has(AWAITS) && !seen.has("waiting");
  const all = phaseEntries(isOthers ? new Set([...seen, "waiting"]) : seen, theme);
  const entries = all.map((entry) =>
    isOthers && entry.phase === "waiting"
      ? { ...entry, title: "waiting for other threads" }
      : entry,
  );
  return (
    <>
      <Legend entries={entries} />
      <span>{toneText(model.kinds.words)}</span>
    </>
  );
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

/** Shows the boxes that another view asked for, by searching for their name; the heaviest first. */
function useReveal(
  { report, revealAs }: GraphProps,
  query: Signal<string>,
  moves: FlameMoves,
  goTo: (match: number) => void,
): void {
  const { store } = report;
  const wish = store.reveal.value;
  useEffect(() => {
    if (wish?.view !== revealAs) return;
    store.reveal.value = null;
    const row = heaviestRow(moves.extent, moves.model.names, wish.name);
    if (row < 0) return;
    query.value = wish.name;
    goTo(
      Math.max(
        0,
        searchFlame(moves.model.tree, moves.extent, moves.model.names, wish.name)?.rows.indexOf(
          row,
        ) ?? 0,
      ),
    );
  }, [wish]);
}
