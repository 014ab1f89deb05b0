/** The blocks of memory that a moment of the curve consists of. */

import { useMemo } from "preact/hooks";
import { aliveAt, BEFORE, type BlockGroup, grownSince, largestFirst } from "../../layout/alive";
import { type LaneSeries, placeOfTime } from "../../layout/series-lane";
import { type Frame, numberAt, rowsOf, stringAt } from "../../wire/frame";
import type { MarkHeader, SeriesHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";

export type Listed = "peak" | "picked" | "grown";

/** What is left behind by each step, from one place. */
export interface Leak {
  readonly bytes: number;
  readonly steps: number;
  readonly where: string;
  readonly op: string;
  /** What keeps it, and the line that puts it there; empty where that is not known. */
  readonly keeper: string;
  readonly keptAt: string;
  /** Whether the memory certainly grows, or what is left may replace what was there before. */
  readonly isCertain: boolean;
}

export interface Blocks {
  /** "none" where the report has no blocks. */
  readonly state: "none" | "loading" | "failed" | "ready";
  readonly message: string;
  readonly listed: Listed;
  /** The moment that is listed; null for what has grown. */
  readonly time: number | null;
  /** All that is in use then, in bytes. */
  readonly total: number;
  readonly groups: readonly BlockGroup[];
  readonly leaks: readonly Leak[];
  /** What is in use as steps begin, where something leaks. */
  readonly trend: readonly { readonly time_ns: number; readonly value: number }[];
  /** What is in use over the recording; null without a curve. */
  readonly rise: Rise | null;
  /** What was allocated and kept, the largest first, where more is in use at the end than at the start. */
  readonly grown: readonly BlockGroup[];
}

/** The bytes in use when the recording begins, at most, and when it ends. */
export interface Rise {
  readonly start: number;
  readonly most: number;
  readonly end: number;
}

const NO_LEAKS: readonly Leak[] = [];
const NO_TREND: Blocks["trend"] = [];
const UNKNOWN = {
  category: "unknown",
  title: BEFORE,
  place: "",
  op: "",
  count: 1,
  first: Number.NaN,
  last: Number.NaN,
};

export function useBlocks(
  report: ReportContext,
  view: SeriesHeader,
  lane: string,
  series: LaneSeries,
  marks: readonly MarkHeader[],
): Blocks {
  const state = report.store.memory(view);
  const { state: kind, message, frame } = useView(report, "allocations");
  const growth = useView(report, "leaks").frame;
  const leaks = useMemo(() => leaksOf(growth, lane), [growth, lane]);
  const listed = state.listed.value;
  const start = series.time_ns[0] ?? 0;
  const peak = marks.find((mark) => mark.kind === "peak")?.time_ns ?? start;
  const picked = state.picked.value;
  const time = listed === "grown" ? null : listed === "picked" ? (picked ?? peak) : peak;
  const levels = series.bands[0]?.values ?? [];
  const total = time === null ? 0 : (levels[placeOfTime(series.time_ns, time)] ?? 0);
  const groups = useMemo(() => {
    if (frame === null) return [];
    const found = time === null ? grownSince(frame, lane, start) : aliveAt(frame, lane, time);
    const rest = total - found.reduce((sum, { bytes }) => sum + bytes, 0);
    if (rest <= 0 || time === null) return found;
    return [...found, { ...UNKNOWN, bytes: rest }].toSorted(largestFirst);
  }, [frame, lane, time, start, total]);
  const trend = useMemo(
    () => (leaks.length === 0 ? NO_TREND : trendOf(series, marks)),
    [leaks, series, marks],
  );
  const sum = groups.reduce((all, { bytes }) => all + bytes, 0);
  const rise = levels.length === 0 ? null : riseOf(levels);
  const grows = rise !== null && rise.end > rise.start;
  const grown = useMemo(
    () => (grows && frame !== null ? grownSince(frame, lane, start) : []),
    [grows, frame, lane, start],
  );
  const whole = { listed, time, total: total || sum, groups };
  return { state: kind, message, ...whole, leaks, trend, rise, grown };
}

function riseOf(levels: ArrayLike<number | null>): Rise {
  let most = 0;
  for (let at = 0; at < levels.length; at += 1) most = Math.max(most, levels[at] ?? 0);
  return { start: levels[0] ?? 0, most, end: levels[levels.length - 1] ?? 0 };
}

/** A view of the report by name, which is embedded or asked for. */
function useView(
  { source }: ReportContext,
  name: string,
): { readonly state: Blocks["state"]; readonly message: string; readonly frame: Frame | null } {
  const view = source.header.views.find((each) => each.name === name && each.empty === null);
  if (view?.shape === "waiting") {
    const state = source.late(view).value;
    const frame = state.kind === "ready" ? state.late.frame : null;
    return { state: state.kind, message: state.kind === "failed" ? state.message : "", frame };
  }
  if (view?.shape !== "table") return { state: "none", message: "", frame: null };
  const state = source.frame(view).value;
  const frame = state.kind === "ready" ? state.frame : null;
  const message = state.kind === "failed" ? state.message : "";
  return { state: state.kind === "empty" ? "none" : state.kind, message, frame };
}

/** What certainly grows, or else what may. */
function leaksOf(frame: Frame | null, lane: string): readonly Leak[] {
  if (frame === null) return NO_LEAKS;
  const rows = rowsOf(frame).filter((row) => stringAt(frame, "device", row) === lane);
  const found = rows.map((row) => {
    return {
      bytes: numberAt(frame, "bytes_per_step", row),
      steps: numberAt(frame, "steps", row),
      where: placeAt(frame, "", row),
      op: stringAt(frame, "op", row),
      keeper: stringAt(frame, "kept_in", row),
      keptAt: placeAt(frame, "kept_", row),
      isCertain: stringAt(frame, "certainty", row) === "measured",
    };
  });
  const certain = found.filter(({ isCertain }) => isCertain);
  return certain.length > 0 ? certain : found;
}

function placeAt(frame: Frame, prefix: string, row: number): string {
  const file = stringAt(frame, `${prefix}file`, row);
  const line = numberAt(frame, `${prefix}line`, row);
  return file === "" || Number.isNaN(line)
    ? ""
    : `${file.slice(file.lastIndexOf("/") + 1)}:${line}`;
}

function trendOf({ time_ns, bands }: LaneSeries, marks: readonly MarkHeader[]): Blocks["trend"] {
  const levels = bands[0]?.values ?? [];
  const last = time_ns.at(-1) ?? 0;
  const starts = marks.filter(({ kind }) => kind === "step").map((mark) => mark.time_ns);
  return [...starts, last].map((time) => ({
    time_ns: time,
    value: levels[placeOfTime(time_ns, time)] ?? 0,
  }));
}
