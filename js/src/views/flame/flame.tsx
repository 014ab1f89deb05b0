/** A tree as a flame graph: merged, from the leaves up, or around one name. */

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { FlameOptions, FlameShape } from "../../base/flame-options";
import { keptPer } from "../../base/kept";
import { transformFlame } from "../../layout/flame-transform";
import type { Frame } from "../../wire/frame";
import { keyOf, textOf } from "../../wire/frame";
import type { SlicesHeader, TreeHeader } from "../../wire/header";
import { Button } from "../common/button";
import type { ReportContext, TreeProps } from "../common/context";
import { Groupings } from "../common/groupings";
import { Segmented, Sentence, Tools } from "../common/parts";
import { TimelineView } from "../timeline/timeline";
import { FlameGraph } from "./flame-graph";
import { AWAITS } from "./flame-model";

/** What the shape is called that shows the timeline instead of a tree. */
export const IN_TIME = "time";

type Shown = "merged" | typeof IN_TIME | "inverted" | "sandwich";

const SHAPES: readonly { readonly name: Shown; readonly title: string }[] = [
  { name: "merged", title: "Merged" },
  { name: IN_TIME, title: "In time order" },
  { name: "inverted", title: "Inverted" },
  { name: "sandwich", title: "Sandwich" },
];

/** Any tree of a report. */
export function FlameView({ report, view, frame }: TreeProps) {
  const state = report.store.flame(view);
  const options = state.options.value;
  const chosen = report.store.choice(view);
  const shown = SHAPES.find(({ name }) => name === chosen.value)?.name ?? "merged";
  const slices = slicesBeside(report, view);
  const shapes = SHAPES.filter(({ name }) => name !== IN_TIME || slices !== undefined);
  const shape = (
    <>
      <Groupings report={report} view={view} />
      <Segmented
        label="Shape"
        options={shapes}
        chosen={shown}
        onChoose={(next) => {
          chosen.value = next;
        }}
      />
    </>
  );
  if (shown === IN_TIME && slices !== undefined) {
    return <InTimeOrder report={report} view={view} slices={slices} tools={shape} />;
  }
  const tools = (
    <>
      {shape}
      <Fold options={options} onChange={(next) => (state.options.value = next)} frame={frame} />
    </>
  );
  const given = { report, view, frame, options, tools };
  if (shown === "sandwich") return <Sandwich {...given} />;
  return <OneGraph {...given} shape={shown === "inverted" ? "inverted" : "merged"} />;
}

/** The slices that a tree can be shown as; two runs have no common time. */
function slicesBeside(report: ReportContext, view: TreeHeader): SlicesHeader | undefined {
  if (view.tab !== view.name) return undefined;
  return report.source.header.views.find(
    (each): each is SlicesHeader => each.shape === "slices" && each.empty === null,
  );
}

/** The graphs around the selected name: what calls it, and what it calls. */
function Sandwich({ tools, ...given }: Omit<OneProps, "shape" | "title">) {
  const name = given.report.store.selection.value?.name ?? "";
  if (keyOf(textOf(given.frame, "name"), name) < 0) {
    return (
      <div class="tp-view">
        <Tools>{tools}</Tools>
        <Sentence>
          Select a box or an op first. Its callers are then above, and what it calls is below.
        </Sentence>
      </div>
    );
  }
  const around = { ...given, options: { ...given.options, name } };
  return (
    <div class="tp-view tp-sandwich">
      <OneGraph {...around} shape="callers" tools={tools} title="Called by" />
      <OneGraph {...around} shape="callees" title="Calls" />
    </div>
  );
}

interface InTimeProps {
  readonly report: ReportContext;
  readonly view: TreeHeader;
  readonly slices: SlicesHeader;
  readonly tools: ComponentChildren;
}

/** Every call where it happened, instead of equal paths merged: the threads of the timeline. */
function InTimeOrder({ report, view, slices, tools }: InTimeProps) {
  const state = report.source.frame(slices).value;
  // Zoom and search are kept apart from those of the timeline.
  const own = useMemo(
    () => ({ ...slices, name: `${view.name}:time`, layers: slices.layers.slice(-1) }),
    [slices, view],
  );
  if (state.kind === "ready") {
    const flame = { tools, revealAs: view.name };
    return <TimelineView report={report} view={own} frame={state.frame} flame={flame} />;
  }
  return (
    <div class="tp-view">
      <Tools>{tools}</Tools>
      <Sentence>{state.kind === "failed" ? state.message : "Loading…"}</Sentence>
    </div>
  );
}

interface OneProps {
  readonly report: ReportContext;
  readonly view: TreeHeader;
  readonly frame: Frame;
  readonly shape: FlameShape;
  readonly options: FlameOptions;
  readonly tools?: ComponentChildren;
  readonly title?: string;
}

/** Turns a tree into one shape, and keeps the result for the next time that it is shown. */
function turnerTo(shape: FlameShape) {
  return keptPer(
    (
      frame: Frame,
      { weights }: TreeHeader,
      name: string,
      foldsLibraries: boolean,
      collapsesRecursion: boolean,
      changes: FlameOptions["changes"],
    ) => {
      const options = { name, shape, foldsLibraries, collapsesRecursion, changes };
      const names = [
        ...weights.map((weight) => weight.name),
        ...(frame.columns.has(`total_${AWAITS}`) ? [AWAITS] : []),
      ];
      return transformFlame(frame, names, options);
    },
  );
}

const TURNERS = {
  merged: turnerTo("merged"),
  inverted: turnerTo("inverted"),
  callers: turnerTo("callers"),
  callees: turnerTo("callees"),
};

/** One tree, transformed; its state is kept apart from that of other shapes. */
function OneGraph({ report, view, frame, shape, options, tools, title }: OneProps) {
  const { header } = report.source;
  const { name, foldsLibraries, collapsesRecursion, changes } = options;
  const turn = TURNERS[shape];
  const made = turn(frame, view, name, foldsLibraries, collapsesRecursion, changes);
  const own = useMemo(
    () => (shape === "merged" ? view : { ...view, name: `${view.name}:${shape}` }),
    [view, shape],
  );
  return (
    <FlameGraph
      key={shape}
      report={report}
      view={own}
      revealAs={view.name}
      frame={made.frame}
      tools={tools}
      title={title ?? ""}
      options={report.store.flame(view).options}
      folded={made.folded}
      // A tree of a range, which described itself, has the steps of the range.
      recorded={header.views.includes(view) ? header.steps : 1}
    />
  );
}

interface FoldProps {
  readonly options: FlameOptions;
  readonly frame: Frame;
  readonly onChange: (options: FlameOptions) => void;
}

/** What is left out: wrappers of libraries, recursion, and what was dropped or hidden by hand. */
function Fold({ options, frame, onChange }: FoldProps) {
  const hasLibraries = textOf(frame, "kind").words.includes("library");
  const { foldsLibraries, collapsesRecursion, changes } = options;
  return (
    <>
      <fieldset class="tp-segmented" aria-label="Fold">
        {hasLibraries && (
          <Button
            aria-pressed={!foldsLibraries}
            title="Library frames that only call one other function"
            onClick={() => onChange({ ...options, foldsLibraries: !foldsLibraries })}
          >
            Libraries
          </Button>
        )}
        <Button
          aria-pressed={collapsesRecursion}
          title="Recursive calls count for the outermost box"
          onClick={() => onChange({ ...options, collapsesRecursion: !collapsesRecursion })}
        >
          Fold recursion
        </Button>
      </fieldset>
      {changes.length > 0 && (
        <Button
          class="tp-button"
          title={changes.map(({ kind, text }) => `${kind} ${text}`).join("\n")}
          onClick={() => onChange({ ...options, changes: [] })}
        >
          Undo {changes.length} left out
        </Button>
      )}
    </>
  );
}
