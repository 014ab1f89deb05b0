/** The data of a timeline, indexed once from a decoded frame. */

import { keptBy, keptPer } from "../../base/kept";
import { displayName } from "../../base/names";
import type { Span } from "../../base/scale";
import { type Ns, ns } from "../../base/units";
import {
  buildSliceIndex,
  durationAt,
  firstStarting,
  type SliceIndex,
  type SliceRow,
} from "../../layout/slice-index";
import { buildWaits, type GapCount, type Waits } from "../../layout/waits";
import {
  type Frame,
  type Numbers,
  numbersOf,
  type TextColumn,
  textOf,
  wordAt,
} from "../../wire/frame";
import type { SliceLane, SlicesHeader } from "../../wire/header";

// A window that is hardly longer than a step shows this step.
const WITHIN_STEPS = 1.5;

export interface Step {
  readonly row: number;
  readonly number: number;
  readonly start: Ns;
  readonly end: Ns;
}

/** A device: its waits with their causes, when it was busy, and its streams. */
export interface Device {
  readonly title: string;
  readonly lane: number;
  readonly waits: Waits | null;
  readonly busy: SliceRow | null;
  readonly streams: readonly number[];
  /** The gaps between its work; found on the first call. */
  gaps(): readonly Gap[];
}

export interface TimelineModel {
  readonly frame: Frame;
  readonly view: SlicesHeader;
  readonly names: TextColumn;
  /** What each name is called in a box. */
  readonly titles: readonly string[];
  readonly kinds: TextColumn;
  readonly phases: TextColumn;
  readonly notes: TextColumn;
  readonly lane: Numbers;
  readonly start: Numbers;
  readonly dur: Numbers;
  readonly source: Numbers;
  readonly op: Numbers;
  readonly count: Numbers;
  /** How many slices each row stands for; null where each is one. */
  readonly merged: Numbers | null;
  /** The span of the recording, and its steps, also where the frame is only a part of it. */
  readonly whole: Span<Ns>;
  readonly steps: readonly Step[];
  readonly devices: readonly Device[];
  /** Titles of the causes of waits. */
  readonly causes: readonly string[];
  /** The number of a slice in the recording: that of a row, or the longest of the merged ones. */
  sliceAt(row: number): number;
  /** The row of a slice, or of the merged ones that it names; -1 for none. */
  rowOf(slice: number): number;
  /** The index of a layer; built on the first call. */
  index(column: string): SliceIndex;
  /** The first layer, which has all slices that are not on threads. */
  readonly ops: SliceIndex;
}

/** The model of a timeline, or of a part of one whose `overview` is known. */
export function createTimelineModel(
  view: SlicesHeader,
  frame: Frame,
  titleOf: (name: string) => string = displayName,
  overview: TimelineModel | null = null,
  bucket = view.excerpt?.bucket_ns ?? 0,
): TimelineModel {
  const start = numbersOf(frame, "start_ns");
  const dur = numbersOf(frame, "dur_ns");
  const lane = numbersOf(frame, "lane");
  const merged = optionalNumbers(frame, "merged");
  const slices = optionalNumbers(frame, "slice");
  const index = keptBy(String, (column) => {
    const depth = numbersOf(frame, column);
    const columns = { lane, depth, start_ns: start, dur_ns: dur, merged, bucket };
    return buildSliceIndex(columns, view.lanes.length);
  });
  const ops = index(view.layers[0]?.column ?? "depth");
  const names = textOf(frame, "name");
  const notes = textOf(frame, "note");
  const causes = causeTitles(view.lanes, ops, notes);
  return {
    frame,
    view,
    names,
    titles: names.words.map(titleOf),
    kinds: textOf(frame, "kind"),
    phases: textOf(frame, "phase"),
    notes,
    lane,
    start,
    dur,
    source: numbersOf(frame, "source"),
    op: numbersOf(frame, "op"),
    count: numbersOf(frame, "count"),
    merged,
    whole: overview?.whole ?? wholeOf(view, ops),
    steps: overview?.steps ?? stepsIn(view, ops, frame, start, dur),
    devices: devicesIn(view, { start, dur, merged }, ops, notes, causes, gapCounts(frame)),
    causes,
    sliceAt: (row) => (slices === null ? row : (slices[row] ?? -1)),
    rowOf: (slice) => (slices === null ? rowIn(slice, frame) : slices.indexOf(slice)),
    index,
    ops,
  };
}

/** The model of a whole view, kept for the next time that it is shown; `titleOf` is that of the report. */
export const timelineModelOf = keptPer(
  (frame: Frame, view: SlicesHeader, titleOf: (name: string) => string): TimelineModel =>
    createTimelineModel(view, frame, (name) => displayName(titleOf(name))),
);

/** The critical path by the lanes that it goes through, in order of time; null without one. */
export const pathOf = keptPer(
  ({ kinds, start, dur, count, lane }: TimelineModel): ReadonlyMap<number, Span<Ns>[]> | null => {
    const kind = kinds.words.indexOf("path");
    if (kind < 0) return null;
    const found = new Map<number, Span<Ns>[]>();
    for (let row = 0; row < lane.length; row += 1) {
      if (kinds.keys[row] !== kind) continue;
      const [at = 0, begin = 0] = [count[row], start[row]];
      const spans = found.get(at) ?? [];
      spans.push({ start: ns(begin), end: ns(begin + (dur[row] ?? 0)) });
      found.set(at, spans);
    }
    return found;
  },
);

function rowIn(slice: number, { rows }: Frame): number {
  return slice < rows ? slice : -1;
}

function optionalNumbers(frame: Frame, name: string): Numbers | null {
  const column = frame.columns.get(name);
  return column?.kind === "number" ? column.values : null;
}

/** How many slices a row stands for. */
export function countAt({ merged }: TimelineModel, row: number): number {
  return merged?.[row] ?? 1;
}

export function spanOfSlice({ start, dur }: TimelineModel, row: number): Span<Ns> {
  const from = start[row] ?? 0;
  return { start: ns(from), end: ns(from + (dur[row] ?? 0)) };
}

/** A time without work on a device, by one wait or several. */
export interface Gap {
  readonly start: number;
  readonly end: number;
  /** Rows of the frame, in order of time. */
  readonly rows: readonly number[];
  /** False where it begins or ends somewhere in merged waits. */
  readonly isExact: boolean;
}

function gapsIn(
  { start, dur, merged }: Times,
  ops: SliceIndex,
  waits: SliceRow | undefined,
  gapsOf: (row: number) => GapCount,
): readonly Gap[] {
  const gaps: { start: number; end: number; rows: number[]; isExact: boolean }[] = [];
  if (waits === undefined) return gaps;
  for (let at = waits.first; at < waits.last; at += 1) {
    const row = ops.row[at] ?? -1;
    const begin = start[row] ?? 0;
    const time = dur[row] ?? 0;
    const last = gaps.at(-1);
    if (last !== undefined && gapsOf(row).gaps === 0) {
      // The waits of a gap have nothing between them, and merged ones the sum of their times.
      last.end += time;
      last.rows.push(row);
      continue;
    }
    // Merged waits may begin with the last ones of the gap before.
    const isMerged = (merged?.[row] ?? 1) > 1;
    if (last !== undefined && isMerged) last.isExact = false;
    gaps.push({ start: begin, end: begin + time, rows: [row], isExact: !isMerged });
  }
  return gaps;
}

/** The gap that a wait belongs to. */
export function gapOf(model: TimelineModel, row: number): Gap | undefined {
  const device = model.devices.find(({ lane }) => lane === model.lane[row]);
  return device?.gaps().find(({ rows }) => rows.includes(row));
}

/** The work of a device that ended last before a span, and that begins first after it; -1 for none. */
export function workAround(
  { ops }: TimelineModel,
  { streams }: Device,
  start: number,
  end: number,
): { readonly before: number; readonly after: number } {
  let before = -1;
  let after = -1;
  let latest = -Infinity;
  let earliest = Infinity;
  for (const row of streams.flatMap((lane) => ops.ofLane[lane] ?? [])) {
    const next = firstStarting(ops, row, end);
    const begin = ops.start[next] ?? Infinity;
    if (next < row.last && begin < earliest) {
      earliest = begin;
      after = ops.row[next] ?? -1;
    }
    const last = firstStarting(ops, row, start) - 1;
    const done = (ops.start[last] ?? 0) + durationAt(ops, last);
    if (last >= row.first && done > latest) {
      latest = done;
      before = ops.row[last] ?? -1;
    }
  }
  return { before, after };
}

/** The first part of a note is a cause or a size, the second a place. */
export function noteParts(model: TimelineModel, row: number): readonly [string, string] {
  const [first = "", second = ""] = wordAt(model.notes, row).split("\t");
  return [first, second];
}

function causeTitles(lanes: readonly SliceLane[], index: SliceIndex, notes: TextColumn) {
  const seen = new Set<string>();
  for (const row of index.rows) {
    if (lanes[row.lane]?.kind !== "waits" || row.depth !== 0) continue;
    for (let at = row.first; at < row.last; at += 1) {
      seen.add(causeIn(notes, index.row[at] ?? -1));
    }
  }
  return Array.from(seen);
}

function causeIn(notes: TextColumn, row: number): string {
  const note = wordAt(notes, row);
  const end = note.indexOf("\t");
  return end < 0 ? note : note.slice(0, end);
}

// What Python writes into the count of a wait: 1 where a cause begins in a gap, 2 where the gap itself does.
const GAP_BEGINS = 2;

/** How many gaps begin in each row, and in how many its cause does: where waits are merged, as they were counted then. */
function gapCounts(frame: Frame): (row: number) => GapCount {
  const begins = numbersOf(frame, "count");
  const gaps = optionalNumbers(frame, "gaps");
  const ofCause = optionalNumbers(frame, "cause_gaps");
  return (row) => ({
    gaps: gaps?.[row] ?? (begins[row] === GAP_BEGINS ? 1 : 0),
    ofCause: ofCause?.[row] ?? Math.sign(begins[row] ?? 0),
  });
}

type Times = Pick<TimelineModel, "start" | "dur" | "merged">;

function devicesIn(
  view: SlicesHeader,
  times: Times,
  index: SliceIndex,
  notes: TextColumn,
  causes: readonly string[],
  gapsOf: (row: number) => GapCount,
): readonly Device[] {
  // Notes repeat, so each word is looked up once.
  const causeOfWord = notes.words.map((word) => causes.indexOf(word.split("\t")[0] ?? ""));
  return view.lanes.flatMap(({ kind, title }, lane) => {
    if (kind !== "waits") return [];
    const rows = index.ofLane[lane] ?? [];
    const idle = rows.find(({ depth }) => depth === 0);
    const streams = view.lanes.flatMap((each, number) =>
      each.kind === "stream" && each.group === title ? [number] : [],
    );
    const causeOf = (row: number) => causeOfWord[notes.keys[row] ?? -1] ?? 0;
    const waits =
      idle === undefined ? null : buildWaits(index, idle, causes.length, causeOf, gapsOf);
    let found: readonly Gap[] | undefined;
    const gaps = () => {
      found ??= gapsIn(times, index, idle, gapsOf);
      return found;
    };
    const busy = rows.find(({ depth }) => depth === 1) ?? null;
    return [{ title, lane, waits, busy, streams, gaps }];
  });
}

function stepsIn(
  view: SlicesHeader,
  index: SliceIndex,
  frame: Frame,
  start: Numbers,
  dur: Numbers,
): readonly Step[] {
  const lane = view.lanes.findIndex(({ kind }) => kind === "steps");
  const row = (index.ofLane[lane] ?? []).find(({ depth }) => depth === 0);
  if (row === undefined) return [];
  const count = numbersOf(frame, "count");
  return Array.from(index.row.subarray(row.first, row.last), (at) => ({
    row: at,
    number: count[at] ?? 0,
    start: ns(start[at] ?? 0),
    end: ns((start[at] ?? 0) + (dur[at] ?? 0)),
  }));
}

function wholeOf({ excerpt }: SlicesHeader, ops: SliceIndex): Span<Ns> {
  if (excerpt === null) return extentOf(ops);
  return { start: ns(excerpt.start_ns), end: ns(excerpt.end_ns) };
}

function extentOf(index: SliceIndex): Span<Ns> {
  let start = Infinity;
  let end = -Infinity;
  for (const row of index.rows) {
    start = Math.min(start, index.start[row.first] ?? Infinity);
    end = Math.max(end, index.reach[row.last - 1] ?? -Infinity);
  }
  return start < end ? { start: ns(start), end: ns(end) } : { start: ns(0), end: ns(1) };
}

/** The typical step as the report knows it, else the one with the median duration; all without steps. */
export function typicalSpan({ steps, whole, view }: TimelineModel): Span<Ns> {
  const known = steps.find(({ number }) => number === view.typical_step);
  if (known !== undefined) return { start: known.start, end: known.end };
  const inOrder = steps.toSorted((a, b) => a.end - a.start - (b.end - b.start));
  const middle = inOrder[Math.floor(inOrder.length / 2)];
  return middle === undefined ? whole : { start: middle.start, end: middle.end };
}

/** The moment from which times in a window are counted, with the step that they are counted in, if it is one. */
export function originOf(
  model: TimelineModel,
  { start, end }: Span<Ns>,
): { readonly origin: number; readonly step: Step | undefined } {
  const step = stepAt(model, (start + end) / 2);
  const isWithin = step !== undefined && end - start <= WITHIN_STEPS * (step.end - step.start);
  if (isWithin) return { origin: step.start, step };
  const first = model.steps.find((each) => each.end > start && each.start < end);
  const isInView = first !== undefined && first.start >= start;
  return { origin: isInView ? first.start : model.whole.start, step: undefined };
}

/** The row of the phases of the steps; null when they have none. */
export function phasesOf({ view, ops }: TimelineModel): SliceRow | null {
  const lane = view.lanes.findIndex(({ kind }) => kind === "steps");
  return ops.ofLane[lane]?.find(({ depth }) => depth === 1) ?? null;
}

/** The step that holds a moment. */
export function stepAt({ steps }: TimelineModel, time: number): Step | undefined {
  return steps.find(({ start, end }) => start <= time && time < end);
}
