/** What is selected in a timeline, and what runs in the chosen range. */

import { useSignal } from "@preact/signals";
import { columnFormat, formatCount, formatNs, formatRatio, plural } from "../../base/format";
import { shortenName } from "../../base/names";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import { type RangeSum, selfByKey, sumByKey } from "../../layout/range-sums";
import { coveredIn, type SliceRow } from "../../layout/slice-index";
import { sumWaits } from "../../layout/waits";
import { wordAt } from "../../wire/frame";
import type { ReportContext } from "../common/context";
import { focusable } from "../common/focusable";
import { PhaseDot, Segmented } from "../common/parts";
import type { TimelineModel } from "./timeline-model";
import type { TimelineMoves } from "./timeline-moves";
import { type Detail, describeSlice, detailsOf } from "./timeline-words";

const NAME_CHARS = 60;
const MOST_ROWS = 12;

interface PanelProps {
  readonly report: ReportContext;
  readonly moves: TimelineMoves;
  readonly onShow: (row: number) => void;
}

/** The side panel; empty panels say what brings something into them. */
export function TimelinePanel({ report, moves, onShow }: PanelProps) {
  const row = moves.state.row.value;
  const range = report.store.range.value;
  return (
    <aside class="tp-side" aria-label="Selection and range">
      {row >= 0 ? (
        <SelectionPart report={report} moves={moves} row={row} onShow={onShow} />
      ) : (
        <p class="tp-side-hint">
          Click a bar to see what it is, what launched it and what it waited for.
        </p>
      )}
      {range !== null ? (
        <RangePart model={moves.model} range={range} />
      ) : (
        <p class="tp-side-hint">
          Drag over the lanes to choose a range. All tables then count only what runs in it.
        </p>
      )}
    </aside>
  );
}

function SelectionPart({ report, moves, row, onShow }: PanelProps & { readonly row: number }) {
  const { model } = moves;
  const item = describeSlice(model, row);
  return (
    <section class="tp-side-part" data-tp-slice={row}>
      <h3 title={wordAt(model.names, row) || item.name}>
        <PhaseDot report={report} phase={item.phase} />
        <bdi class={item.isCode ? "tp-code" : ""}>{shortenName(item.name, NAME_CHARS)}</bdi>
      </h3>
      <dl>
        {detailsOf(model, row).map((detail, index) => (
          <DetailRow key={`${index}-${detail.label}`} detail={detail} onShow={onShow} />
        ))}
      </dl>
    </section>
  );
}

function DetailRow({
  detail,
  onShow,
}: {
  readonly detail: Detail;
  readonly onShow: (row: number) => void;
}) {
  const { label, value, whole = value, isCode, row } = detail;
  const text = <bdi class={isCode ? "tp-code" : ""}>{value}</bdi>;
  return (
    <div class="tp-side-row" data-tp-detail={label}>
      <dt>{label}</dt>
      <dd title={whole}>
        {row === undefined ? (
          text
        ) : (
          <button type="button" class="tp-link" onClick={() => onShow(row)} {...focusable()}>
            {text}
          </button>
        )}
      </dd>
    </div>
  );
}

const TABLES = [
  { name: "ops", title: "Ops" },
  { name: "kernels", title: "Kernels" },
  { name: "waits", title: "Waits" },
] as const;

/** The tables of a range: ops, kernels, and why the device waits. */
function RangePart({ model, range }: { readonly model: TimelineModel; readonly range: Span<Ns> }) {
  const chosen = useSignal<string>("ops");
  const hasDevice = model.devices.length > 0;
  const tables = hasDevice ? TABLES : TABLES.slice(0, 1);
  return (
    <section class="tp-side-part" data-tp-range={`${range.start}-${range.end}`}>
      <h3>Range of {formatNs(range.end - range.start)}</h3>
      {model.devices.map((device) => (
        <p key={device.lane}>
          {device.title} busy <strong>{formatNs(busyIn(model, device.busy, range))}</strong> (
          {formatRatio(busyIn(model, device.busy, range) / Math.max(1, range.end - range.start))})
        </p>
      ))}
      <Segmented
        label="Table"
        options={tables}
        chosen={chosen.value}
        onChoose={(name) => {
          chosen.value = name;
        }}
      />
      <RangeTable model={model} range={range} table={hasDevice ? chosen.value : "ops"} />
    </section>
  );
}

function busyIn(model: TimelineModel, row: SliceRow | null, range: Span<Ns>): number {
  return row === null ? 0 : coveredIn(model.ops, row, range.start, range.end);
}

interface RangeTableProps {
  readonly model: TimelineModel;
  readonly range: Span<Ns>;
  readonly table: string;
}

function RangeTable({ model, range, table }: RangeTableProps) {
  const { rows, first, count, time } = rangeRows(model, range, table);
  if (rows.length === 0) return <p class="tp-side-hint">Nothing ran in this range.</p>;
  const { format, suffix } = columnFormat("ns", rows[0]?.ns ?? 0);
  const hidden = rows.length - MOST_ROWS;
  return (
    <>
      <table class="tp-side-table">
        <thead>
          <tr>
            <th>{first}</th>
            <th>{count}</th>
            <th>{`${time} ${suffix}`}</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST_ROWS).map((each) => (
            <tr key={each.name}>
              <td title={each.name}>
                <bdi class="tp-code">{shortenName(each.name, 40)}</bdi>
              </td>
              <td>{formatCount(each.count)}</td>
              <td>{format(each.ns)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {hidden > 0 && <p class="tp-side-hint">and {plural(hidden, "more row")}</p>}
    </>
  );
}

interface NamedSum {
  readonly name: string;
  readonly count: number;
  readonly ns: number;
}

function rangeRows(
  model: TimelineModel,
  range: Span<Ns>,
  table: string,
): {
  readonly rows: readonly NamedSum[];
  readonly first: string;
  readonly count: string;
  readonly time: string;
} {
  const { start, end } = range;
  const named = (sums: readonly RangeSum[], other: string): readonly NamedSum[] =>
    sums.map(({ key, count, ns }) => ({ name: model.titles[key] ?? other, count, ns }));
  if (table === "waits") {
    const causes = model.devices.flatMap(({ waits }) =>
      waits === null ? [] : sumWaits(waits, start, end),
    );
    const rows = causes.map(({ cause, count, ns }) => ({
      name: model.causes[cause] ?? "",
      count,
      ns,
    }));
    return { rows, first: "Cause", count: "Gaps", time: "Waits" };
  }
  if (model.devices.length === 0) {
    const lanes = model.view.lanes.flatMap(({ kind }, lane) => (kind === "thread" ? [lane] : []));
    const sums = selfByKey(model.ops, lanes, start, end, (row) => model.names.keys[row] ?? -1);
    return { rows: named(sums, ""), first: "Op", count: "Calls", time: "Self" };
  }
  const streams = model.devices
    .flatMap((device) => device.streams)
    .flatMap((lane) => model.ops.ofLane[lane] ?? []);
  const keyOf =
    table === "kernels"
      ? (row: number) => model.names.keys[row] ?? -1
      : (row: number) => model.names.keys[model.op[row] ?? -1] ?? -1;
  const sums = sumByKey(model.ops, streams, start, end, keyOf);
  const first = table === "kernels" ? "Kernel" : "Op";
  return { rows: named(sums, "launched by no known op"), first, count: "Kernels", time: "GPU" };
}

/** "why the device waits" in the window, as one line. */
export function WaitLine({
  moves,
  range,
}: {
  readonly moves: TimelineMoves;
  readonly range: Span<Ns> | null;
}) {
  const { model } = moves;
  const span = range ?? moves.span;
  const device = model.devices.find(({ waits }) => waits !== null);
  if (device?.waits === null || device === undefined) return null;
  const causes = sumWaits(device.waits, span.start, span.end);
  const whole = causes.reduce((sum, { ns }) => sum + ns, 0);
  return (
    <p class="tp-wait-line" data-tp-waits={Math.round(whole)}>
      <strong>Why {device.title} waits</strong>
      <span>
        {formatNs(whole)} of {formatNs(span.end - span.start)}
      </span>
      {causes.map(({ cause, ns, count }) => (
        <span key={cause} data-tp-cause={model.causes[cause]}>
          {model.causes[cause]}
          {count > 1 && `, ${plural(count, "gap")}`} <strong>{formatNs(ns)}</strong>
        </span>
      ))}
    </p>
  );
}

/** The name of a slice for the live region. */
export function nameOfRow(model: TimelineModel, row: number): string {
  return wordAt(model.names, row);
}
