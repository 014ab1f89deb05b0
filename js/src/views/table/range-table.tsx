/** The table of ops or kernels for a range of time, counted from the timeline. */

import { useMemo } from "preact/hooks";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import { kernelsIn, opsIn, type RangeRow } from "../../layout/range-tables";
import type { Column, Frame } from "../../wire/frame";
import type { SlicesHeader, TableHeader } from "../../wire/header";
import type { ReportContext, TableProps } from "../common/context";
import { Sentence } from "../common/parts";
import { createTimelineModel, type TimelineModel } from "../timeline/timeline-model";
import { TableView } from "./grid";

/** Tables that can be counted for a range. */
export function canFollowRange(report: ReportContext, view: TableHeader): boolean {
  return (view.name === "ops" || view.name === "kernels") && timelineOf(report) !== null;
}

function timelineOf({ source }: ReportContext): SlicesHeader | null {
  const view = source.header.views.find(({ shape, empty }) => shape === "slices" && empty === null);
  return view?.shape === "slices" ? view : null;
}

interface RangeProps extends TableProps {
  readonly range: Span<Ns>;
}

export function RangeTable({ report, view, range }: RangeProps) {
  const timeline = timelineOf(report);
  const state = timeline === null ? null : report.source.frame(timeline).value;
  const frame = state?.kind === "ready" ? state.frame : null;
  const model = useMemo(
    () => (timeline === null || frame === null ? null : createTimelineModel(timeline, frame)),
    [timeline, frame],
  );
  const made = useMemo(
    () => (model === null ? null : tableIn(view, model, range)),
    [model, view, range],
  );
  if (state?.kind === "failed") return <Sentence>{state.message}</Sentence>;
  if (made === null) return <Sentence>Reading the timeline…</Sentence>;
  if (made.frame.rows === 0) return <Sentence>Nothing ran in this range.</Sentence>;
  return <TableView report={report} view={made.view} frame={made.frame} />;
}

const COLUMNS: Readonly<Record<string, readonly (keyof RangeRow)[]>> = {
  ops: ["calls", "self_cpu_ns", "self_cpu_ratio", "total_cpu_ns", "self_device_ns"],
  kernels: ["calls", "sum_ns", "sum_ratio", "mean_ns", "max_ns"],
};

function tableIn(
  view: TableHeader,
  model: TimelineModel,
  range: Span<Ns>,
): { readonly view: TableHeader; readonly frame: Frame } {
  const rows = view.name === "ops" ? opsIn(model, range) : kernelsIn(model, range);
  const known = COLUMNS[view.name] ?? [];
  const shown = view.columns.filter(
    ({ name }) => name === "name" || name === "phase" || known.includes(name as keyof RangeRow),
  );
  const columns = new Map<string, Column>([
    ["name", textColumn(rows.map(({ key }) => model.names.words[key] ?? "under no op"))],
    ["phase", textColumn(rows.map(({ phase }) => model.phases.words[phase] ?? "python"))],
    ...known.map((name): [string, Column] => [
      name,
      { kind: "number", values: Float64Array.from(rows, (row) => row[name]) },
    ]),
  ]);
  const sort = shown.some(({ name }) => name === view.sort) ? view.sort : null;
  return {
    view: { ...view, columns: shown, outline: null, sort },
    frame: { rows: rows.length, columns },
  };
}

function textColumn(texts: readonly string[]): Column {
  const words = Array.from(new Set(texts));
  const keyOf = new Map(words.map((word, key) => [word, key]));
  return { kind: "text", words, keys: Int32Array.from(texts, (text) => keyOf.get(text) ?? -1) };
}
