/** The table of ops or kernels for a range of time, counted from the timeline. */

import { useMemo } from "preact/hooks";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import { kernelsIn, opsIn, type RangeRow } from "../../layout/range-tables";
import type { Column, Frame } from "../../wire/frame";
import type { SlicesHeader, TableHeader } from "../../wire/header";
import type { ReportContext, TableProps } from "../common/context";
import { Sentence } from "../common/parts";
import { type TimelineModel, timelineModelOf } from "../timeline/timeline-model";
import { NO_OP } from "../timeline/timeline-range";
import { TableView } from "./grid";

const NOTHING = "Nothing in this range.";

/** Tables that the page counts for a range itself, where it has no kernel that computes them. */
export function canCountRange(report: ReportContext, view: TableHeader): boolean {
  const isCounted = view.name === "ops" || view.name === "kernels";
  return isCounted && report.source.ranged(view) === null && timelineOf(report) !== null;
}

function timelineOf({ source }: ReportContext): SlicesHeader | null {
  const view = source.header.views.find(({ shape, empty }) => shape === "slices" && empty === null);
  return view?.shape === "slices" ? view : null;
}

interface RangeProps extends TableProps {
  readonly range: Span<Ns>;
}

/** The ops or kernels of a range in a file, which has no kernel to ask. */
export function RangeTable({ report, view, range }: RangeProps) {
  const timeline = timelineOf(report);
  const state = timeline === null ? null : report.source.frame(timeline).value;
  const frame = state?.kind === "ready" ? state.frame : null;
  const model = useMemo(
    () =>
      timeline === null || frame === null ? null : timelineModelOf(frame, timeline, report.titleOf),
    [timeline, frame],
  );
  const made = useMemo(
    () => (model === null ? null : tableIn(view, model, range)),
    [model, view, range],
  );
  if (timeline?.excerpt != null)
    return <Sentence>This file cannot count the ops and kernels of a range.</Sentence>;
  if (state?.kind === "failed") return <Sentence>{state.message}</Sentence>;
  if (made === null) return <Sentence>Reading the timeline…</Sentence>;
  if (made.frame.rows === 0) return <Sentence>{NOTHING}</Sentence>;
  return <TableView report={report} view={made.view} frame={made.frame} />;
}

const COLUMNS: Readonly<Record<string, readonly (keyof RangeRow)[]>> = {
  ops: ["calls", "self_cpu_ns", "self_cpu_ratio", "total_cpu_ns", "self_device_ns"],
  kernels: ["calls", "sum_ns", "sum_ratio", "mean_ns", "max_ns"],
};

interface Made {
  readonly view: TableHeader;
  readonly frame: Frame;
}

/** The columns that can be counted for a range. */
function shownIn(view: TableHeader): TableHeader {
  const known: readonly string[] = ["name", "phase", ...(COLUMNS[view.name] ?? [])];
  const columns = view.columns.filter(({ name }) => known.includes(name));
  const sort = columns.some(({ name }) => name === view.sort_by) ? view.sort_by : null;
  // What takes most of the whole may not do so in the range.
  return { ...view, columns, outline: null, sort_by: sort, answer: "" };
}

function tableIn(view: TableHeader, model: TimelineModel, range: Span<Ns>): Made {
  const rows = view.name === "ops" ? opsIn(model, range) : kernelsIn(model, range);
  const columns = new Map<string, Column>([
    ["name", textColumn(rows.map(({ key }) => model.names.words[key] ?? NO_OP))],
    ["phase", textColumn(rows.map(({ phase }) => model.phases.words[phase] ?? "python"))],
    ...(COLUMNS[view.name] ?? []).map((name): [string, Column] => [
      name,
      { kind: "number", values: Float64Array.from(rows, (row) => row[name]) },
    ]),
  ]);
  return { view: shownIn(view), frame: { rows: rows.length, columns } };
}

function textColumn(texts: readonly string[]): Column {
  const words = Array.from(new Set(texts));
  const keyOf = new Map(words.map((word, key) => [word, key]));
  return { kind: "text", words, keys: Int32Array.from(texts, (text) => keyOf.get(text) ?? -1) };
}
