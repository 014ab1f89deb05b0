/** Slices of a small timeline: a thread, its calls, and a device with its waits and one stream. */

import type { Column, Frame } from "../src/wire/frame";
import type { SlicesHeader } from "../src/wire/header";

export interface Slice {
  readonly lane: number;
  readonly start: number;
  readonly dur: number;
  readonly name: string;
  readonly kind: string;
  readonly phase?: string;
  readonly depth?: number;
  readonly note?: string;
  readonly source?: number;
  readonly op?: number;
  readonly count?: number;
  readonly grid?: string;
  readonly shapes?: string;
}

export const SLICES_VIEW = {
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
  excerpt: null,
  answer: "",
  lanes: [
    { title: "Steps", kind: "steps", group: "" },
    { title: "main", kind: "thread", group: "main" },
    { title: "calls", kind: "calls", group: "main" },
    { title: "Device 0", kind: "waits", group: "Device 0" },
    { title: "stream 7", kind: "stream", group: "Device 0" },
  ],
  layers: [{ title: "Ops", column: "depth" }],
  columns: [
    { name: "shapes", title: "Shapes" },
    { name: "grid", title: "Grid" },
  ],
} as unknown as SlicesHeader;

function text(values: readonly string[]): Column {
  const words = [...new Set(values)];
  return { kind: "text", words, keys: Int32Array.from(values, (value) => words.indexOf(value)) };
}

function numbers(values: readonly number[]): Column {
  return { kind: "number", values: Float64Array.from(values) };
}

/** 2 where a gap begins, as Python writes it; waits that touch are one gap. */
function beginsAt(slice: Slice, before: Slice | undefined): number {
  const goesOn =
    before?.kind === "idle" &&
    before.lane === slice.lane &&
    before.start + before.dur === slice.start;
  return slice.kind === "idle" && !goesOn ? 2 : 1;
}

/** The columns of some slices, which are in order of lane and start. */
export function sliceFrame(slices: readonly Slice[]): Frame {
  return {
    rows: slices.length,
    columns: new Map([
      ["lane", numbers(slices.map(({ lane }) => lane))],
      ["depth", numbers(slices.map(({ depth = 0 }) => depth))],
      ["start_ns", numbers(slices.map(({ start }) => start))],
      ["dur_ns", numbers(slices.map(({ dur }) => dur))],
      ["name", text(slices.map(({ name }) => name))],
      ["kind", text(slices.map(({ kind }) => kind))],
      ["phase", text(slices.map(({ phase = "forward" }) => phase))],
      ["note", text(slices.map(({ note = "" }) => note))],
      ["source", numbers(slices.map(({ source = -1 }) => source))],
      ["op", numbers(slices.map(({ op = -1 }) => op))],
      ["count", numbers(slices.map((slice, at) => slice.count ?? beginsAt(slice, slices[at - 1])))],
      ["shapes", text(slices.map(({ shapes = "" }) => shapes))],
      ["grid", text(slices.map(({ grid = "" }) => grid))],
    ]),
  };
}
