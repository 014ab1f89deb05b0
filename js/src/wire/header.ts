/**
 * The metadata of a report besides the bytes of its columns. Python writes the header in `render/page.py` and
 * `render/header.py`; the tests of both languages compare it with the files in `tests/golden`.
 */

import type { Unit } from "../base/format";
import { failure, messageOf, type Result, success } from "../base/result";
import {
  type Check,
  type Checked,
  flag,
  listOf,
  number,
  oneOf,
  orNull,
  record,
  text,
} from "./check";

const VERSION = 9;

const unit = oneOf<Unit>(
  "text",
  "code",
  "count",
  "ns",
  "bytes",
  "flop",
  "ratio",
  "phase",
  "step",
  "bool",
);

const column = record({
  name: text,
  title: text,
  unit,
  definition: text,
  /** Hidden first when there is little room. */
  minor: flag,
  /** Shows a bar behind its numbers. */
  bar: flag,
  /** Keeps spaces and is not shortened, as source code. */
  verbatim: flag,
  /** Adds up over the steps, so it can be shown a step. */
  sum: flag,
  /** A difference: drawn to either side of a middle line. */
  change: flag,
});

/** The columns that make rows a tree: their ids, and those of the rows around them. */
const outline = record({
  id: text,
  parent: text,
  /** Rows up to this depth are open at first. */
  open_levels: number,
  /** The column that is 1 for rows that are closed at first; null for none. */
  closed: orNull(text),
  /** The column that is 1 for rows that repeat others to explain the row around them; null for none. */
  aside: orNull(text),
});

/** The columns that draw each row as a bar, stacked by phase. */
const bars = record({
  number: text,
  /** When a bar began. */
  start: text,
  /** The length of a bar. */
  total: text,
  /** False for a partial step. */
  complete: text,
  parts: listOf(record({ phase: text, column: text })),
  /** A thin line on the same scale. */
  line: orNull(text),
});

/** One piece of advice. Code in its texts stands between backticks. */
const card = record({
  rule: text,
  title: text,
  fix: text,
  /** The line to change, "" if it is not known. */
  place: text,
  evidence: text,
  saving_ns: orNull(number),
  saving_bytes: orNull(number),
  certainty: text,
  /** How sure it is, from 1 to 3. */
  level: number,
  /** The view that shows the line, "" for none. */
  view: text,
  /** What stands before the place, such as " in". */
  at: text,
  /** What follows a saving of bytes: " per step", or nothing. */
  per: text,
});

/** The columns that draw each row as a rank of a job: a bar in parts, and numbers beside it. */
const rankBars = record({
  number: text,
  /** The length of a bar. */
  total: text,
  /** 1 for the rank that the verdict names. */
  late: text,
  /** The hue of a phase, that of computation and communication at once, or waiting. */
  parts: listOf(record({ column: text, title: text, look: text })),
  beside: listOf(text),
  /** The view with the waiting in each collective, "" for none. */
  waits: text,
  /** What to change. */
  cards: listOf(card),
});

/** A quantity for the width of boxes: its columns are `self_<name>` and `total_<name>`. */
const weight = record({ name: text, title: text, unit });

const band = record({ name: text, title: text, unit });

const mark = record({ lane: text, time_ns: number, label: text, kind: oneOf("peak", "step") });

/** A row of a timeline; lanes of one group stand together. */
const lane = record({
  title: text,
  kind: oneOf(
    "steps",
    "thread",
    "calls",
    "waits",
    "stream",
    "annotations",
    "queue",
    /** Heads the counters of its group, and has no slices. */
    "counters",
    "counter",
  ),
  group: text,
  /** The values of a counter at the lowest and highest level, their unit, and the least and the most that it has. */
  scale: orNull(record({ low: number, high: number, unit: text, least: number, most: number })),
  /** Whether the counters that it heads are folded until they are unfolded by hand. */
  is_folded: flag,
});

const fact = record({
  label: text,
  /** A number in `unit`, or a text; null when it is unknown. */
  value: (value: unknown, at: string) =>
    typeof value === "string" ? value : orNull(number)(value, at),
  unit,
  note: text,
  /** The op that the fact is about, "" for none. */
  op: text,
  /** The phase whose color its bar has. */
  phase: text,
  /** The view that shows more of it, "" for none. */
  view: text,
});

const section = record({
  title: text,
  /**
   * Phases: the labels are phases, and the values add up to a whole. Bars: drawn on one scale. Memory: below its curve.
   */
  kind: oneOf("facts", "phases", "bars", "memory"),
  /** What the numbers are. */
  aside: text,
  /** The main ones stand first, top lists side by side, and the rest is folded away. */
  group: oneOf("main", "top", "about"),
  facts: listOf(fact),
});

const problem = record({
  severity: oneOf("data_loss", "warning", "info"),
  code: text,
  message: text,
  count: number,
  fix: text,
});

/** The fields of every view. */
const tab = {
  name: text,
  title: text,
  count: orNull(number),
  /** The sentence to show when there is no data; null when there is. */
  empty: orNull(text),
  /** In a tab, as a grouping of a tab, in the strip of the steps, or in "About this run". */
  place: oneOf("tab", "group", "strip", "about"),
  /** The tab that it belongs to, its own name for a tab. */
  tab: text,
  /** What it is called among the groupings of its tab. */
  group: text,
};

/** The fields of a view with columns. */
const framed = {
  ...tab,
  /** First byte in the container; -1 when the view must be pulled. */
  offset: number,
  length: number,
};

const VIEWS = {
  table: record({
    ...framed,
    shape: oneOf("table"),
    columns: listOf(column),
    sort: orNull(text),
    bars: orNull(bars),
    outline: orNull(outline),
    /** Rows without any number but 0 are dim and show none. */
    sparse: flag,
    ranks: orNull(rankBars),
  }),
  tree: record({ ...framed, shape: oneOf("tree"), weights: listOf(weight) }),
  series: record({
    ...framed,
    shape: oneOf("series"),
    bands: listOf(band),
    /** Bands that add up to the first of `bands`; the first stands at the bottom. */
    stacked: listOf(band),
    marks: listOf(mark),
    phases: listOf(record({ start_ns: number, end_ns: number, phase: text })),
    /** Calls of the parts of a model, in order of time. */
    modules: listOf(record({ start_ns: number, end_ns: number, name: text })),
  }),
  slices: record({
    ...framed,
    shape: oneOf("slices"),
    lanes: listOf(lane),
    layers: listOf(record({ title: text, column: text })),
    columns: listOf(record({ name: text, title: text })),
    /** Set when the columns are only a picture of more slices: those shorter than `bucket_ns` are merged. */
    excerpt: orNull(
      record({ slices: number, start_ns: number, end_ns: number, bucket_ns: number }),
    ),
  }),
  /** A view with columns that is built, and described, when it is first shown. */
  waiting: record({ ...tab, shape: oneOf("waiting") }),
  facts: record({ ...tab, shape: oneOf("facts"), sections: listOf(section), cards: listOf(card) }),
  problems: record({ ...tab, shape: oneOf("problems"), problems: listOf(problem) }),
};

export type Shape = keyof typeof VIEWS;

const shaped = record({ shape: oneOf(...(Object.keys(VIEWS) as readonly Shape[])) });
const view: Check<ViewHeader> = (value, at) => VIEWS[shaped(value, at).shape](value, at);

const span = record({ text, style: oneOf("", "strong", "code") });

const pair: Check<readonly [string, string]> = (value, at) => {
  const [name = "", title = ""] = listOf(text)(value, at);
  return [name, title];
};

const run = record({
  title: text,
  /** Whether the other tabs show this run. */
  isShown: flag,
  steps: listOf(number),
  typical: orNull(number),
});

/** The change from an earlier run to this one, which the tab Compare shows above its views. */
const change = record({
  kind: oneOf("faster", "slower", "unclear"),
  title: text,
  /** The step times with the interval of the difference. */
  numbers: text,
  evidence: text,
  warnings: listOf(text),
  /** Before and after. */
  runs: listOf(run),
  /** Name, before and after of each setting that differs. */
  settings: listOf(listOf(text)),
});

const report = record({
  version: oneOf(VERSION),
  runId: text,
  /** The page that this one was opened from, "" for none. */
  parent: text,
  title: text,
  subtitle: text,
  code: text,
  machine: text,
  notice: text,
  verdict: record({
    title: text,
    text: listOf(span),
    /** The line of the program that it names. */
    code: orNull(record({ line: number, source: text })),
    doubts: listOf(text),
  }),
  /** Whether the page can ask for a comparison with another run. */
  canCompare: flag,
  /** How the steps changed since the last run of the cell, "" if that is not known. */
  changeLine: text,
  change: orNull(change),
  /** The views that the kernel computes for a range of time. */
  ranged: listOf(text),
  /** The view to open first, "" for the first tab. */
  first: text,
  /** How many complete steps there are, 1 without any: numbers a step are sums by this. */
  steps: number,
  /** Names of kernels that have a shorter one. */
  titles: listOf(pair),
  views: listOf(view),
  /** Tabs that have nothing to show, with the flag that brings it. */
  missing: listOf(record({ title: text, flag: text })),
  /** What the export menu offers. A saved file lists only what it contains. */
  exports: listOf(
    record({
      name: text,
      title: text,
      /** What the title does not say. */
      aside: text,
      /** A file to save, or the trace for the Perfetto UI. */
      kind: oneOf("save", "perfetto"),
      filename: text,
      mime: text,
    }),
  ),
});

export type ColumnHeader = Checked<typeof column>;
export type BarsHeader = Checked<typeof bars>;
export type RankBarsHeader = Checked<typeof rankBars>;
export type WeightHeader = Checked<typeof weight>;
export type MarkHeader = Checked<typeof mark>;
export type Fact = Checked<typeof fact>;
export type Section = Checked<typeof section>;
export type Card = Checked<typeof card>;
export type Problem = Checked<typeof problem>;
export type Span = Checked<typeof span>;
export type TableHeader = Checked<typeof VIEWS.table>;
export type TreeHeader = Checked<typeof VIEWS.tree>;
export type SeriesHeader = Checked<typeof VIEWS.series>;
export type SlicesHeader = Checked<typeof VIEWS.slices>;
export type SliceLane = Checked<typeof lane>;
export type WaitingHeader = Checked<typeof VIEWS.waiting>;
export type FactsHeader = Checked<typeof VIEWS.facts>;
export type ProblemsHeader = Checked<typeof VIEWS.problems>;
/** A view with columns, embedded or to be pulled. */
export type FramedHeader = TableHeader | TreeHeader | SeriesHeader | SlicesHeader;
export type ViewHeader = FramedHeader | WaitingHeader | FactsHeader | ProblemsHeader;
export type ReportHeader = Checked<typeof report>;
export type ChangeHeader = Checked<typeof change>;
export type ExportHeader = ReportHeader["exports"][number];

/** The header of a report, or why it cannot be read. */
export function parseHeader(json: unknown): Result<ReportHeader> {
  if (typeof json !== "string" || json === "") return failure("The report has no header.");
  try {
    return checkHeader(JSON.parse(json));
  } catch (error) {
    return failure(`The report's header cannot be read: ${messageOf(error)}`);
  }
}

/** The header of a view that came with its columns; `known` are the fields that the page had already. */
export function parseLateHeader(known: ViewHeader, json: string): FramedHeader {
  const value = { ...known, ...(JSON.parse(json) as object), offset: 0, length: 0 };
  const made = view(value, "");
  if (!("offset" in made)) throw new TypeError("the view has no columns");
  return made;
}

function checkHeader(value: unknown): Result<ReportHeader> {
  const { version } = record({ version: number })(value, "");
  if (version !== VERSION) {
    return failure(
      `This report has format ${version}, but the page expects format ${VERSION}. Restart the kernel and reload the page.`,
    );
  }
  return success(report(value, ""));
}
