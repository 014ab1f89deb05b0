/** The table of ops or kernels for a range of time, counted from the timeline. */

import { useMemo } from "preact/hooks";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import { kernelsIn, opsIn, type RangeRow, STEP } from "../../layout/range-tables";
import type { SliceSource } from "../../state/slice-source";
import { type Column, type Frame, rowsOf, stringAt } from "../../wire/frame";
import type { SlicesHeader, TableHeader } from "../../wire/header";
import { useAskedRange } from "../common/asked-range";
import type { ReportContext, TableProps } from "../common/context";
import { Sentence } from "../common/parts";
import { createTimelineModel, type TimelineModel } from "../timeline/timeline-model";
import { TableView } from "./grid";

const NOTHING = "Nothing ran in this range.";
const NO_OP = "under no op";

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

/** The table for a range, counted by the kernel where the page has only parts of the timeline. */
export function RangeTable(props: RangeProps) {
  const timeline = timelineOf(props.report);
  if (timeline?.excerpt == null) return <OwnRangeTable {...props} timeline={timeline} />;
  const source = props.report.source.slices(timeline);
  if (source === null) {
    return <Sentence>This file cannot count the ops and kernels of a range.</Sentence>;
  }
  return <AskedRangeTable {...props} source={source} />;
}

interface OwnProps extends RangeProps {
  readonly timeline: SlicesHeader | null;
}

function OwnRangeTable({ report, view, range, timeline }: OwnProps) {
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
  if (made.frame.rows === 0) return <Sentence>{NOTHING}</Sentence>;
  return <TableView report={report} view={made.view} frame={made.frame} />;
}

interface AskedProps extends RangeProps {
  readonly source: SliceSource;
}

function AskedRangeTable({ report, view, range, source }: AskedProps) {
  const asked = useAskedRange(source.range, range, true);
  const frame = view.name === "ops" ? asked?.ops : asked?.kernels;
  const made = useMemo(() => (frame == null ? null : askedTable(view, frame)), [view, frame]);
  const state = source.range.state.value;
  if (made !== null && made.frame.rows === 0) return <Sentence>{NOTHING}</Sentence>;
  if (made !== null) return <TableView report={report} view={made.view} frame={made.frame} />;
  return <Sentence>{state.kind === "failed" ? state.message : "Counting…"}</Sentence>;
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
  const sort = columns.some(({ name }) => name === view.sort) ? view.sort : null;
  return { ...view, columns, outline: null, sort };
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

/** The table that the kernel counted, without the steps, which are no ops. */
function askedTable(view: TableHeader, frame: Frame): Made {
  const shown = shownIn(view);
  const rows = rowsOf(frame).filter((row) => stringAt(frame, "name", row) !== STEP);
  const columns = shown.columns.map(({ name }): [string, Column] => {
    const column = frame.columns.get(name);
    if (column?.kind === "number") {
      return [
        name,
        { kind: "number", values: Float64Array.from(rows, (row) => column.values[row] ?? 0) },
      ];
    }
    return [name, textColumn(rows.map((row) => stringAt(frame, name, row) || NO_OP))];
  });
  return { view: shown, frame: { rows: rows.length, columns: new Map(columns) } };
}

function textColumn(texts: readonly string[]): Column {
  const words = Array.from(new Set(texts));
  const keyOf = new Map(words.map((word, key) => [word, key]));
  return { kind: "text", words, keys: Int32Array.from(texts, (text) => keyOf.get(text) ?? -1) };
}
