/**
 * The checks and types of a report's header. Written by `scripts/generate_header.py` from the structs in
 * `torchprof_magic/render/header.py`: change those.
 */

import {
  type Checked,
  flag,
  listOf,
  mapOf,
  number,
  oneOf,
  orNull,
  record,
  scalar,
  text,
  tupleOf,
} from "./check";

/**
 * What every view has.
 *
 * `count` is shown beside the title, if it is known, and `empty` in place of the view when there
 * is no data. `place` is in a tab, as a grouping of a tab, in the strip of the steps, or in "About
 * this run". `tab` is the tab that a grouping belongs to, and `group` what it is called there.
 */
const tabHeader = {
  name: text,
  title: text,
  count: orNull(number),
  empty: orNull(text),
  place: oneOf("about", "group", "strip", "tab"),
  tab: text,
  group: text,
};

/**
 * A view with columns: its first byte in the container, -1 when it must be pulled, and how many
 * there are.
 */
const framedHeader = { ...tabHeader, offset: number, length: number };

/** A piece of the verdict's text. Pieces with the style `code` are names. */
export const spanHeader = record({ text: text, style: oneOf("", "code", "strong") });
export type SpanHeader = Checked<typeof spanHeader>;

/** The line of the program that a verdict names; `spot` is where the view of the source has it. */
export const codeHeader = record({ line: number, source: text, spot: text });
export type CodeHeader = Checked<typeof codeHeader>;

/**
 * What limits the speed, the line to look at if one is known, and what speaks against it, the
 * gravest first.
 *
 * `text` is the sentence that says so, and `more` what follows it. `without_advice` stands where
 * no rule for advice applies: what to record instead, where the limit is what is done once, or
 * what could gain.
 */
export const verdictHeader = record({
  title: text,
  text: listOf(spanHeader),
  more: listOf(spanHeader),
  code: orNull(codeHeader),
  doubts: listOf(text),
  without_advice: text,
});
export type VerdictHeader = Checked<typeof verdictHeader>;

/** One part of a bar: its column, and the phase that gives its hue; empty for that of the row. */
export const barPart = record({ column: text, phase: text });
export type BarPart = Checked<typeof barPart>;

/**
 * One column of a shape: its name, title and unit, and an exact definition.
 *
 * `is_minor` columns are hidden first if the view is narrow; `has_bar` draws a bar behind the
 * number. Text of an `is_verbatim` column keeps its spaces and is not shortened, as source code.
 * An `is_sum` column adds up over the recorded steps, so it can be shown per step; `share` is the
 * part of the steps that it is of. Numbers of an `is_change` column are differences, drawn from a
 * middle line to either side. A bar with `parts` is the sum of other columns, each in the hue of a
 * phase.
 */
export const column = record({
  name: text,
  title: text,
  unit: oneOf("bool", "bytes", "code", "count", "flop", "ns", "phase", "ratio", "step", "text"),
  definition: text,
  is_minor: flag,
  has_bar: flag,
  is_verbatim: flag,
  is_sum: flag,
  share: number,
  is_change: flag,
  parts: listOf(barPart),
});
export type Column = Checked<typeof column>;

/**
 * The columns that draw each row of a table as a bar, stacked by phase, all on one scale.
 *
 * `number` labels a bar, `start` is when it began, `total` is its length, and `parts` gives the
 * column of each phase. `complete` is false for a bar that was cut. `left_out` says why a bar does
 * not count, and is empty for those that do. `line` is drawn below the parts on the same scale.
 * `lost` is how many launches of a bar have no work in the file; a bar with some is marked.
 */
export const bars = record({
  number: text,
  start: text,
  total: text,
  complete: text,
  left_out: text,
  parts: mapOf(text),
  line: orNull(text),
  lost: orNull(text),
});
export type Bars = Checked<typeof bars>;

/**
 * What a device can do at most: operations per second, or bytes per second of its memory; 0 for
 * the other.
 */
export const roof = record({ title: text, flops_per_s: number, bytes_per_s: number });
export type Roof = Checked<typeof roof>;

/**
 * The columns that draw each row of a table as a point below `roofs`, on axes that both grow by
 * factors.
 *
 * `x` is operations per byte and `y` operations per second. A row without operations stands at the
 * left edge, as high below the roof of the memory as the bytes per second in `x_of_none` are.
 * `size` is the area of a point, and `phase` its hue.
 */
export const points = record({
  x: text,
  y: text,
  x_of_none: text,
  size: text,
  phase: text,
  roofs: listOf(roof),
});
export type Points = Checked<typeof points>;

/**
 * The columns that make rows a tree: the `id` of each row, and that of the row around it, empty
 * for none.
 *
 * Rows stand after the row around them. Those up to `open_levels` deep are open at first, except
 * those that are true in the column `closed`. Rows that are true in the column `aside` repeat
 * others to explain the row around them; filters and searches for a name skip them. Rows that are
 * true in the column `extra` stand for others or for a rest, and all rows but these count; without
 * that column, those in no other row do.
 */
export const outline = record({
  id: text,
  parent: text,
  open_levels: number,
  closed: orNull(text),
  aside: orNull(text),
  extra: orNull(text),
});
export type Outline = Checked<typeof outline>;

/**
 * One part of the bar of a rank: its column, title and look.
 *
 * The look is the hue of a phase, `both` for that of computation and communication at once, or
 * `idle` for waiting.
 */
export const rankPart = record({ column: text, title: text, look: text });
export type RankPart = Checked<typeof rankPart>;

/**
 * A line of the user's as it is and as it should be, without its indent, and its number in its
 * file.
 */
export const lineChange = record({ line: number, before: text, after: text });
export type LineChange = Checked<typeof lineChange>;

/**
 * One piece of advice. Code in its texts stands between backticks.
 *
 * `saving_ns` is what a step would be shorter, `saving_bytes` what less memory would be used; None
 * if unknown. `per` follows the bytes: ` a step` if it is so much less with each step. `place` is
 * the line to change, or empty, `at` what stands before it, `view` the view that shows it, and
 * `spot` the line in that view, as `file:line`. `level` is how sure it is, from 1 for a guess to 3
 * for what was measured; `certainty` says so in words. `can_try` is set if it can be measured on
 * this machine, with what was recorded. `changes` are lines to write instead, and `is_whole` is
 * set if they are all of `fix`.
 */
export const card = record({
  rule: text,
  title: text,
  fix: text,
  place: text,
  evidence: text,
  saving_ns: orNull(number),
  saving_bytes: orNull(number),
  certainty: text,
  level: number,
  view: text,
  spot: text,
  at: text,
  per: text,
  can_try: flag,
  changes: listOf(lineChange),
  is_whole: flag,
});
export type Card = Checked<typeof card>;

/**
 * The columns that draw each row of a table as a rank: a bar in parts, and numbers beside it.
 *
 * `number` is the number of the rank, `total` the length of its bar, and `late` is true for the
 * rank that the verdict names. `beside` are the columns shown as numbers. `waits` is the view with
 * what each rank waits in each collective, empty for none. `cards` say what to change.
 */
export const rankBars = record({
  number: text,
  total: text,
  late: text,
  parts: listOf(rankPart),
  beside: listOf(text),
  waits: text,
  cards: listOf(card),
});
export type RankBars = Checked<typeof rankBars>;

/**
 * Of what summed device time consists: its parts add up to it.
 *
 * `busy_ns` is the time in the steps that count in which each of the `devices` did anything,
 * `overlap_ns` that of work beyond it, at the same time as other work of its device, and
 * `outside_ns` that of work outside of these steps. Where the trace `has_steps` no, they are the
 * time from the first op to the last work.
 */
export const deviceTime = record({
  devices: number,
  busy_ns: number,
  overlap_ns: number,
  outside_ns: number,
  has_steps: flag,
});
export type DeviceTime = Checked<typeof deviceTime>;

/** A view of the shape `Table`. */
export const tableHeader = record({
  ...framedHeader,
  shape: oneOf("table"),
  columns: listOf(column),
  sort_by: orNull(text),
  bars: orNull(bars),
  points: orNull(points),
  outline: orNull(outline),
  is_sparse: flag,
  ranks: orNull(rankBars),
  note: orNull(text),
  device: orNull(deviceTime),
  answer: text,
  rest: orNull(text),
});
export type TableHeader = Checked<typeof tableHeader>;

/**
 * One measure for the boxes of a tree: columns `self_<name>` and `total_<name>`; `share` as for a
 * column.
 */
export const weight = record({
  name: text,
  title: text,
  unit: oneOf("bool", "bytes", "code", "count", "flop", "ns", "phase", "ratio", "step", "text"),
  share: number,
});
export type Weight = Checked<typeof weight>;

/** A thread, and the time in which it had boxes. */
export const hostThread = record({ name: text, host_ns: number });
export type HostThread = Checked<typeof hostThread>;

/** A view of the shape `Tree`. */
export const treeHeader = record({
  ...framedHeader,
  shape: oneOf("tree"),
  weights: listOf(weight),
  threads: listOf(hostThread),
  device: orNull(deviceTime),
});
export type TreeHeader = Checked<typeof treeHeader>;

/** A moment worth showing on a series, such as its peak or, on `EVERY_LANE`, the start of a step. */
export const mark = record({
  lane: text,
  time_ns: number,
  label: text,
  kind: oneOf("peak", "step"),
});
export type Mark = Checked<typeof mark>;

/** A stretch of a step that one phase takes most of; `phase` is one of `PHASES`. */
export const phaseSpan = record({ start_ns: number, end_ns: number, phase: text });
export type PhaseSpan = Checked<typeof phaseSpan>;

/**
 * One call of a module, by the path of its attributes from the model or from the part that holds
 * all of them.
 */
export const moduleSpan = record({ start_ns: number, end_ns: number, name: text });
export type ModuleSpan = Checked<typeof moduleSpan>;

/** A view of the shape `Series`. */
export const seriesHeader = record({
  ...framedHeader,
  shape: oneOf("series"),
  bands: listOf(column),
  stacked: listOf(column),
  marks: listOf(mark),
  phases: listOf(phaseSpan),
  modules: listOf(moduleSpan),
});
export type SeriesHeader = Checked<typeof seriesHeader>;

/**
 * What the levels of a curve mean: 0 is `low` and `MOST_LEVEL` is `high`, in `unit`, which may be
 * empty.
 *
 * `least` and `most` are the smallest and the largest value that there are.
 */
export const scale = record({ low: number, high: number, unit: text, least: number, most: number });
export type Scale = Checked<typeof scale>;

/**
 * One row of a timeline: a thread, its calls of the device's interface, a stream, or what one
 * waits for.
 *
 * `group` is the thread or device that it belongs to, whose lanes stand together. A lane of kind
 * `counters` has no slices: it heads the counters of its group, and folds them at first if it
 * `is_folded`. Each `counter` is a curve on its `scale`, on which the slices give the levels.
 */
export const sliceLane = record({
  title: text,
  kind: oneOf(
    "annotations",
    "calls",
    "counter",
    "counters",
    "host_waits",
    "queue",
    "steps",
    "stream",
    "thread",
    "waits",
  ),
  group: text,
  scale: orNull(scale),
  is_folded: flag,
});
export type SliceLane = Checked<typeof sliceLane>;

/**
 * One choice of what a timeline shows of the threads: its column gives the depth of a slice, -1
 * for hidden.
 */
export const layer = record({ title: text, column: text });
export type Layer = Checked<typeof layer>;

/**
 * Says that slices are only a picture of more: of how many, and from when to when.
 *
 * Those shorter than `bucket_ns` are merged where they begin in the same multiple of it.
 */
export const excerpt = record({
  slices: number,
  start_ns: number,
  end_ns: number,
  bucket_ns: number,
});
export type Excerpt = Checked<typeof excerpt>;

/** A view of the shape `Slices`. */
export const slicesHeader = record({
  ...framedHeader,
  shape: oneOf("slices"),
  lanes: listOf(sliceLane),
  layers: listOf(layer),
  columns: listOf(column),
  excerpt: orNull(excerpt),
  typical_step: orNull(number),
  waits_from_ns: number,
  answer: text,
});
export type SlicesHeader = Checked<typeof slicesHeader>;

/** A view with columns that is built, and described, when it is first shown. */
export const waitingHeader = record({ ...tabHeader, shape: oneOf("waiting") });
export type WaitingHeader = Checked<typeof waitingHeader>;

/**
 * One number or one text with its label.
 *
 * `value` is in `unit`, which is `text` for a text; None means unknown. `note` says how the number
 * is defined or what it is compared with, and `op` names the op that the fact is about. `phase`
 * colors its bar. `view` is the view that shows more of it, and `spot` the line in it that the
 * fact is about, as `file:line`, or empty.
 */
export const fact = record({
  label: text,
  value: orNull(scalar),
  unit: oneOf("bool", "bytes", "code", "count", "flop", "ns", "phase", "ratio", "step", "text"),
  note: text,
  op: text,
  phase: text,
  view: text,
  spot: text,
});
export type Fact = Checked<typeof fact>;

/**
 * One quantity over a whole run, as a value for each of equally long parts; None where it is not
 * known.
 *
 * `most` is the largest single value that went into it, which can be larger than any mean.
 */
export const lane = record({
  title: text,
  unit: oneOf("bool", "bytes", "code", "count", "flop", "ns", "phase", "ratio", "step", "text"),
  values: listOf(orNull(number)),
  most: number,
});
export type Lane = Checked<typeof lane>;

/**
 * Facts under one title.
 *
 * With the kind `phases` the labels are phases, and the values add up to a whole. With `bars` all
 * values are of one unit, and are drawn as bars on one scale; with `stack` they add up to a whole,
 * and stand in one bar, too. With `memory` the facts stand below the curve of the memory. With
 * `strip` they stand below `lanes` on one axis of time, in which `marks` are the parts with
 * recorded steps. `aside` says what the numbers are. Those of the group `top` stand side by side,
 * and those of `more` and `about` are folded away.
 */
export const section = record({
  title: text,
  facts: listOf(fact),
  kind: oneOf("bars", "facts", "memory", "phases", "stack", "strip"),
  aside: text,
  group: oneOf("about", "main", "more", "top"),
  lanes: listOf(lane),
  marks: listOf(number),
});
export type Section = Checked<typeof section>;

/** A view of the shape `Facts`. */
export const factsHeader = record({
  ...tabHeader,
  shape: oneOf("facts"),
  sections: listOf(section),
  cards: listOf(card),
});
export type FactsHeader = Checked<typeof factsHeader>;

/**
 * One kind of problem, with its count.
 *
 * `code` is stable and dotted (`chrome.unclosed_event`), `message` says what happened and what was
 * lost, `fix` says what to do about it.
 */
export const problem = record({
  code: text,
  severity: oneOf("data_loss", "info", "warning"),
  count: number,
  message: text,
  fix: text,
});
export type Problem = Checked<typeof problem>;

/** A view of the shape `Problems`. */
export const problemsHeader = record({
  ...tabHeader,
  shape: oneOf("problems"),
  problems: listOf(problem),
});
export type ProblemsHeader = Checked<typeof problemsHeader>;

/**
 * One entry of the export menu: a file to save, or the trace for the Perfetto UI.
 *
 * `aside` is what the title does not say.
 */
export const exportHeader = record({
  name: text,
  title: text,
  aside: text,
  kind: oneOf("perfetto", "save"),
  filename: text,
  mime: text,
});
export type ExportHeader = Checked<typeof exportHeader>;

/**
 * One of two compared runs: whether the other tabs show it, its step times in ns, and the typical
 * one if known.
 *
 * `left_out` are the places in `steps` of those that do not count in the typical one.
 */
export const runHeader = record({
  title: text,
  is_shown: flag,
  steps: listOf(number),
  left_out: listOf(number),
  typical: orNull(number),
});
export type RunHeader = Checked<typeof runHeader>;

/**
 * The change from an earlier run to this one, which the tab Compare shows above its views.
 *
 * `numbers` are the step times with the interval of the difference, `answer` is what changed most,
 * `opens` the view that shows it, and `evidence` why that is known or not. `runs` are those before
 * and after, and each of `settings` has the name of a setting that differs, its value before, and
 * that after. `same` says what is the same where none differs.
 */
export const changeHeader = record({
  kind: oneOf("faster", "slower", "unclear"),
  title: text,
  numbers: text,
  answer: text,
  opens: text,
  evidence: text,
  warnings: listOf(text),
  runs: listOf(runHeader),
  settings: listOf(tupleOf(text, text, text)),
  same: text,
});
export type ChangeHeader = Checked<typeof changeHeader>;

/** A tab that has nothing to show, and the flag that brings it. */
export const missingHeader = record({ title: text, flag: text });
export type MissingHeader = Checked<typeof missingHeader>;

/** The checks of a view by its shape. */
const VIEWS = {
  table: tableHeader,
  tree: treeHeader,
  series: seriesHeader,
  slices: slicesHeader,
  waiting: waitingHeader,
  facts: factsHeader,
  problems: problemsHeader,
};

const shaped = record({ shape: oneOf(...(Object.keys(VIEWS) as readonly Shape[])) });
export type Shape = keyof typeof VIEWS;
export type ViewHeader = { [S in Shape]: Checked<(typeof VIEWS)[S]> }[Shape];
export const view = (value: unknown, at: string): ViewHeader =>
  VIEWS[shaped(value, at).shape](value, at);

/**
 * All that a page knows of a report.
 *
 * `parent` is the page that it was opened from. `steps` is how many steps count, by which sums are
 * divided, `step_ns` is the typical one, null without steps, and `titles` are the names of kernels
 * that have a shorter one, with it. `generated` are files of generated code with their texts.
 * `ranged` are the views that the kernel computes for a range of time, `first` is the view to
 * open, if not the first tab, and `exports` is what the menu offers, in a saved file only what it
 * contains. `can_compare` says that the page can ask for a comparison with another run,
 * `can_choose_steps` that it can choose which steps count, `can_try` that it can have advice
 * measured; `change_line` says how the steps changed since the last run of the cell. Texts are
 * empty where nothing is known.
 */
export const reportHeader = record({
  version: oneOf(14),
  run_id: text,
  title: text,
  verdict: verdictHeader,
  views: listOf(view),
  exports: listOf(exportHeader),
  parent: text,
  subtitle: text,
  code: text,
  machine: text,
  notice: text,
  steps: number,
  step_ns: orNull(number),
  titles: listOf(tupleOf(text, text)),
  generated: listOf(tupleOf(text, text)),
  can_compare: flag,
  can_choose_steps: flag,
  can_try: flag,
  change_line: text,
  change: orNull(changeHeader),
  ranged: listOf(text),
  first: text,
  missing: listOf(missingHeader),
});
export type ReportHeader = Checked<typeof reportHeader>;
