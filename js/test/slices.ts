/** Timelines made by hand: of the whole recording, or of a part in which some slices are merged. */

import type { Column, Frame } from "../src/wire/frame";
import type { SliceLane, SlicesHeader } from "../src/wire/header";

export interface TestSlice {
  readonly lane: number;
  readonly start: number;
  readonly dur: number;
  readonly name?: string;
  readonly kind?: string;
  readonly depth?: number;
  readonly note?: string;
  readonly source?: number;
  readonly op?: number;
  /** The number in the whole recording, and how many it stands for. */
  readonly slice?: number;
  readonly merged?: number;
}

const KINDS = ["step", "op", "runtime", "idle", "kernel"];

/** A lane; only counters have a scale, and only their heads are folded at first. */
export function sliceLane(
  title: string,
  kind: SliceLane["kind"],
  group: string,
  more: Partial<SliceLane> = {},
): SliceLane {
  return { title, kind, group, scale: null, is_folded: false, ...more };
}

export const LANES: readonly SliceLane[] = [
  sliceLane("Steps", "steps", ""),
  sliceLane("main", "thread", "main"),
  sliceLane("calls", "calls", "main"),
  sliceLane("Device 0", "waits", "Device 0"),
  sliceLane("stream 7", "stream", "Device 0"),
];

export function slicesHeader(more: Partial<SlicesHeader> = {}): SlicesHeader {
  return {
    name: "timeline",
    title: "Timeline",
    count: null,
    empty: null,
    place: "tab",
    tab: "timeline",
    group: "",
    offset: 0,
    length: 1,
    shape: "slices",
    lanes: LANES,
    layers: [{ title: "Ops", column: "depth" }],
    columns: [],
    excerpt: null,
    typical_step: null,
    waits_from_ns: 0,
    answer: "",
    ...more,
  };
}

function texts(values: readonly string[]): Column {
  const words = Array.from(new Set(values));
  return { kind: "text", words, keys: Int32Array.from(values, (value) => words.indexOf(value)) };
}

function numbers(values: readonly number[]): Column {
  return { kind: "number", values: Float64Array.from(values) };
}

/** The frame of some slices, in order of lane and start; those of a part have numbers. */
export function slicesFrame(slices: readonly TestSlice[]): Frame {
  const columns = new Map<string, Column>([
    ["lane", numbers(slices.map(({ lane }) => lane))],
    ["depth", numbers(slices.map(({ depth = 0 }) => depth))],
    ["start_ns", numbers(slices.map(({ start }) => start))],
    ["dur_ns", numbers(slices.map(({ dur }) => dur))],
    ["name", texts(slices.map(({ name = "a" }) => name))],
    ["kind", texts(slices.map(({ lane, kind = KINDS[lane] ?? "" }) => kind))],
    ["phase", texts(slices.map(() => "forward"))],
    ["note", texts(slices.map(({ note = "" }) => note))],
    ["source", numbers(slices.map(({ source = -1 }) => source))],
    ["op", numbers(slices.map(({ op = -1 }) => op))],
    ["count", numbers(slices.map(({ kind }) => (kind === "idle" ? 2 : 1)))],
  ]);
  if (slices.some(({ slice }) => slice !== undefined)) {
    columns.set("slice", numbers(slices.map(({ slice = -1 }) => slice)));
    columns.set("merged", numbers(slices.map(({ merged = 1 }) => merged)));
  }
  return { rows: slices.length, columns };
}
