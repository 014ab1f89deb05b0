/** What is selected in a timeline, and what runs in the chosen range. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import {
  columnFormat,
  formatCount,
  formatNs,
  formatRatio,
  plural,
  unbroken,
} from "../../base/format";
import { displayName, shortenName } from "../../base/names";
import { isWaiting, phaseTitle } from "../../base/palette";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import { coveredIn } from "../../layout/slice-index";
import { HARDLY_IDLE } from "../../layout/waits";
import type { AskState, Latest } from "../../state/latest";
import type { LateView } from "../../state/python-sync";
import { wordAt } from "../../wire/frame";
import type { ReportHeader } from "../../wire/header.generated";
import type { Part } from "../../wire/pull";
import type { LaneSum, RangeQuestion } from "../../wire/questions";
import { useAsked } from "../common/asked-range";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";
import { Legend, PhaseDot, phaseEntries, Segmented } from "../common/parts";
import { stepsOf } from "../verdict/steps";
import { longestWaits, MOST_WAITS, waitingDevice } from "./longest-waits";
import type { Device, TimelineModel } from "./timeline-model";
import type { TimelineMoves } from "./timeline-moves";
import {
  askedSums,
  askedWaits,
  busyOf,
  hostPhases,
  hostWaits,
  inGaps,
  ownSums,
  ownWaits,
  type RangeSums,
  type WaitSum,
  waitSums,
} from "./timeline-range";
import {
  briefDetailsOf,
  type Detail,
  describeSlice,
  detailsOf,
  isAll,
  partTitle,
  waitWords,
  whenOf,
} from "./timeline-words";

// Kinds of bars in the color of their phase.
const SEEN = /^(op|annotation|line|module|python|runtime|kernel|memcpy|memset|phase|idle)$/;
const NAME_CHARS = 60;
// Of code on one line of the panel.
const SIDE_CHARS = 32;
const MOST_ROWS = 12;

interface PanelProps {
  readonly report: ReportContext;
  readonly moves: TimelineMoves;
  readonly onShow: (slice: number) => void;
}

/** The side panel; empty panels say what brings something into them. */
export function TimelinePanel({ report, moves, onShow }: PanelProps) {
  const slice = moves.state.row.value;
  const range = report.store.range.value;
  return (
    <aside class="tp-side" aria-label="Selection and range">
      {slice >= 0 ? (
        <SelectionPart report={report} moves={moves} slice={slice} onShow={onShow} />
      ) : (
        <>
          <LongestWaits moves={moves} range={range} onShow={onShow} />
          <p class="tp-side-hint">Click a bar to see what launched it and what it waited for.</p>
        </>
      )}
      {range !== null ? (
        <RangePart report={report} moves={moves} range={range} />
      ) : (
        <p class="tp-side-hint">Drag over lanes to limit all tables.</p>
      )}
      {range === null && slice < 0 && <Colors report={report} moves={moves} />}
    </aside>
  );
}

/** What the colors of the bars are. */
function Colors({ report, moves }: Pick<PanelProps, "report" | "moves">) {
  const { phases, kinds } = moves.models.overview;
  const seen = useMemo(() => {
    const rows = Array.from(phases.keys.keys()).filter((row) => SEEN.test(wordAt(kinds, row)));
    return new Set(rows.map((row) => wordAt(phases, row)));
  }, [phases, kinds]);
  return <Legend entries={phaseEntries(seen, report.look.value.theme)} />;
}

interface WaitsProps {
  readonly moves: TimelineMoves;
  readonly range: Span<Ns> | null;
  readonly onShow: (slice: number) => void;
}

/** When a device waits longest in the window or the range, with the main cause and its line. */
function LongestWaits({ moves, range, onShow }: WaitsProps) {
  const { model, overview } = moves;
  const span = range ?? moves.span;
  const device = waitingDevice(model);
  if (device === undefined) return <LongestHostWaits {...{ moves, range, onShow }} />;
  const found = longestWaits(device, model, span.start, span.end, MOST_WAITS);
  if (found.length === 0) return null;
  return (
    <section class="tp-side-part">
      <h3>
        {device.title} waits longest {range === null ? partTitle(overview, span) : "in this range"}
      </h3>
      <ol class="tp-gaps">
        {found.map((wait) => {
          const { long, what, name, where } = waitWords(model, wait);
          return (
            <li key={wait.row}>
              <Button class="tp-link" onClick={() => onShow(model.sliceAt(wait.row))}>
                <strong>{long}</strong> {what}
              </Button>
              {name !== "" && (
                <bdi class="tp-code" title={name}>
                  {shortenName(displayName(name), SIDE_CHARS)}
                </bdi>
              )}
              <small>{where}</small>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

interface SelectionProps extends PanelProps {
  readonly slice: number;
}

function SelectionPart({ report, moves, slice, onShow }: SelectionProps) {
  const found = moves.find(slice);
  if (found === null) return <PendingDetail moves={moves} />;
  const { model, row } = found;
  const item = describeSlice(model, row);
  const details = moves.isDetailed(slice) ? detailsOf(model, row) : briefDetailsOf(model, row);
  return (
    <section class="tp-side-part">
      <h3 title={wordAt(model.names, row) || item.name}>
        <PhaseDot report={report} phase={item.phase} />
        <bdi class={item.isCode ? "tp-code" : ""}>{shortenName(item.name, NAME_CHARS)}</bdi>
      </h3>
      <dl>
        {details.map((detail, index) => (
          <DetailRow
            key={`${index}-${detail.label}`}
            detail={detail}
            files={report.source.header.generated}
            onShow={(other) => onShow(model.sliceAt(other))}
          />
        ))}
      </dl>
      {!moves.isDetailed(slice) && <PendingDetail moves={moves} />}
    </section>
  );
}

/** Says why the rest of a selection is not there, if it takes long. */
function PendingDetail({ moves }: { readonly moves: TimelineMoves }) {
  const state = moves.models.source?.slice.state.value;
  if (state?.kind === "loading") return <p class="tp-side-hint">Loading…</p>;
  if (state?.kind !== "failed") return null;
  return <p class="tp-side-hint">{`Details need the running kernel. ${state.message}`}</p>;
}

function DetailRow({
  detail,
  files,
  onShow,
}: {
  readonly detail: Detail;
  readonly files: ReportHeader["generated"];
  readonly onShow: (row: number) => void;
}) {
  const isOpen = useSignal(false);
  const { label, value, whole = value, isCode, row } = detail;
  const text = <bdi class={isCode ? "tp-code" : ""}>{value}</bdi>;
  const [file, line] = whole.split(/:(\d+)$/);
  const code = label === "generated code" && files.find(([name]) => name === file)?.[1];
  const click = () => {
    if (row === undefined) isOpen.value = !isOpen.value;
    else onShow(row);
  };
  return (
    <>
      <div class="tp-side-row" data-tp-detail={label}>
        <dt>{label}</dt>
        <dd title={whole}>
          {row === undefined && !code ? (
            text
          ) : (
            <Button class="tp-link" onClick={click}>
              {text}
            </Button>
          )}
        </dd>
      </div>
      {code && isOpen.value && <Code text={code} line={Number(line ?? 1)} />}
    </>
  );
}

/** Generated code, with the line of a kernel in view. */
function Code({ text, line }: { readonly text: string; readonly line: number }) {
  const lines = text.split("\n");
  const part = (from: number, to?: number) => lines.slice(from, to).join("\n");
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <pre class="tp-side-code" tabIndex={0}>
      {`${part(0, line - 1)}\n`}
      <mark ref={showLine}>{part(line - 1, line)}</mark>
      {`\n${part(line)}`}
    </pre>
  );
}

function showLine(line: HTMLElement | null) {
  const code = line?.parentElement;
  if (line && code) code.scrollTop = line.offsetTop - code.offsetTop;
}

const TABLES = [
  { name: "ops", title: "Ops" },
  { name: "kernels", title: "Kernels" },
  { name: "waits", title: "Waits" },
] as const;

interface RangeProps {
  readonly report: ReportContext;
  readonly moves: TimelineMoves;
  readonly range: Span<Ns>;
}

/** The tables of a range: ops, kernels, and why the device waits. */
function RangePart({ report, moves, range }: RangeProps) {
  const chosen = useSignal<string>("ops");
  const { overview, source } = moves.models;
  const asked = useAsked(source?.range ?? null, waitsIn(range));
  const hasDevice = overview.devices.length > 0;
  const tables = hasDevice ? TABLES : TABLES.slice(0, 1);
  const table = hasDevice ? chosen.value : "ops";
  const view = report.source.header.views.find(({ name }) => name === table);
  const latest = view === undefined ? null : report.source.ranged(view);
  return (
    <section class="tp-side-part" data-tp-range={`${range.start}-${range.end}`}>
      <h3>Range of {formatNs(range.end - range.start)}</h3>
      {overview.devices.map((device) => (
        <BusyLine key={device.lane} moves={moves} device={device} range={range} asked={asked} />
      ))}
      <Segmented
        label="Table"
        options={tables}
        chosen={chosen.value}
        onChoose={(name) => {
          chosen.value = name;
        }}
      />
      {table === "waits" && source !== null ? (
        <AnswerTable sums={asked && waitSums(askedWaits(asked))} state={source.range.state.value} />
      ) : table !== "waits" && latest !== null ? (
        <AskedRangeTable
          key={table}
          report={report}
          latest={latest}
          range={range}
          table={table}
          hasDevice={hasDevice}
        />
      ) : (
        <OwnRangeTable model={moves.model} range={range} table={table} />
      )}
    </section>
  );
}

function waitsIn({ start, end }: Span<Ns>): RangeQuestion {
  return { kind: "range", start_ns: start, end_ns: end };
}

interface BusyProps {
  readonly moves: TimelineMoves;
  readonly device: Device;
  readonly range: Span<Ns>;
  readonly asked: readonly LaneSum[] | null;
}

function BusyLine({ moves, device, range, asked }: BusyProps) {
  const busy = busyNs(moves.model, device, range, asked);
  return (
    <p>
      {device.title} busy <strong>{formatNs(busy)}</strong> (
      {formatRatio(busy / Math.max(1, range.end - range.start))} of the range)
    </p>
  );
}

/** How long a device works in a span, as the kernel counted it, or else by its slices. */
function busyNs(
  model: TimelineModel,
  { lane }: Device,
  { start, end }: Span<Ns>,
  asked: readonly LaneSum[] | null,
): number {
  if (asked !== null) return busyOf(asked, lane);
  const row = model.devices.find((each) => each.lane === lane)?.busy ?? null;
  return row === null ? 0 : coveredIn(model.ops, row, start, end);
}

function OwnRangeTable({
  model,
  range,
  table,
}: {
  readonly model: TimelineModel;
  readonly range: Span<Ns>;
  readonly table: string;
}) {
  if (table === "waits") return <RangeTable sums={waitSums(ownWaits(model, range))} />;
  // Merged slices have the name of the longest, so their sums by name are not those of the others.
  if (model.merged !== null) {
    return <p class="tp-side-hint">This file cannot count the ops and kernels of a range.</p>;
  }
  return <RangeTable sums={ownSums(model, range, table)} />;
}

interface AskedProps {
  readonly report: ReportContext;
  readonly latest: Latest<Part, LateView>;
  readonly range: Span<Ns>;
  readonly table: string;
  readonly hasDevice: boolean;
}

/** The ops or kernels of a range, which are the tab of that name for this part of the time. */
function AskedRangeTable({ report, latest, range, table, hasDevice }: AskedProps) {
  const asked = useAsked(latest, { start_ns: range.start, end_ns: range.end });
  const titleOf = (name: string) => displayName(report.titleOf(name));
  const sums = asked && askedSums(asked.frame, table, hasDevice, titleOf);
  return <AnswerTable sums={sums} state={latest.state.value} />;
}

interface AnswerProps {
  readonly sums: RangeSums | null;
  readonly state: AskState;
}

function AnswerTable({ sums, state }: AnswerProps) {
  if (sums !== null) return <RangeTable sums={sums} />;
  return <p class="tp-side-hint">{state.kind === "failed" ? state.message : "Counting…"}</p>;
}

function RangeTable({ sums: { rows, first, count, time } }: { readonly sums: RangeSums }) {
  if (rows.length === 0) return <p class="tp-side-hint">Nothing in this range.</p>;
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

interface HostProps {
  readonly report: ReportContext;
  readonly moves: TimelineMoves;
  readonly range: Span<Ns> | null;
}

// From this share of the waiting on it is said that it was not all seen.
const LEAST_UNSEEN = 0.05;

/** What the thread of the steps does in the window, where no device was recorded, and what it waits for. */
function HostLine({ report, moves, range }: HostProps) {
  const span = range ?? moves.span;
  const sums = hostPhases(moves.model, span);
  if (sums.length === 0) return null;
  const whole = sums.reduce((sum, { ns }) => sum + ns, 0);
  const isExact = moves.model.merged === null;
  const waits = hostWaits(moves.model, span);
  const waited = waits.reduce((sum, { ns }) => sum + ns, 0);
  const unseen = idleOf(report, span) - waited;
  const main = sums.find(({ phase }) => !isWaiting(phase));
  return (
    <p
      class="tp-answer tp-wait-line"
      title={sums.map(({ phase, ns }) => `${formatNs(ns)} ${phaseTitle(phase)}`).join("\n")}
    >
      The host {waited > 0 ? "waits" : "takes"} {!isExact && "about "}
      <strong>{ofWhole(waited || (main?.ns ?? 0), whole)}</strong>{" "}
      {range === null ? partTitle(moves.models.overview, moves.span) : "in this range"}
      {waitedFor(moves.model, waits)}
      {main !== undefined &&
        (waited > 0
          ? `; of the rest most is ${phaseTitle(main.phase)}, ${unbroken(formatNs(main.ns))}`
          : ` for ${phaseTitle(main.phase)}`)}
      .
      {unseen > LEAST_UNSEEN * (waited + unseen) && (
        <span>
          {` Another ${unbroken(formatNs(unseen))} of waiting is not drawn: nobody saw when it was.`}
        </span>
      )}
    </p>
  );
}

/** What the longest of some waits is for, where that is known. */
function waitedFor(
  model: TimelineModel,
  [longest, ...others]: ReturnType<typeof hostWaits>,
): string {
  const name = wordAt(model.names, longest?.row ?? -1);
  if (name === "" || name === "waiting") return "";
  return others.length > 0 ? `, longest in ${name}` : ` in ${name}`;
}

/** How long the steps in a span waited, as all other views count it; 0 if it holds only a part of one. */
function idleOf(report: ReportContext, { start, end }: Span<Ns>): number {
  return stepsOf(report)
    .filter(({ start_ns, dur_ns }) => start_ns >= start && start_ns + dur_ns <= end)
    .flatMap(({ parts }) => parts)
    .reduce((sum, { phase, dur_ns }) => sum + (isWaiting(phase) ? dur_ns : 0), 0);
}

/** What the host waits for longest in the window or the range. */
function LongestHostWaits({ moves, range, onShow }: WaitsProps) {
  const { model, overview } = moves;
  const span = range ?? moves.span;
  const found = hostWaits(model, span).slice(0, MOST_WAITS);
  if (found.length === 0) return null;
  return (
    <section class="tp-side-part">
      <h3>The host waits longest {range === null ? partTitle(overview, span) : "in this range"}</h3>
      <ol class="tp-gaps">
        {found.map(({ row, ns }) => (
          <li key={row}>
            <Button class="tp-link" onClick={() => onShow(model.sliceAt(row))}>
              <strong>{formatNs(ns)}</strong>{" "}
              <bdi class="tp-code">{shortenName(wordAt(model.names, row), SIDE_CHARS)}</bdi>
            </Button>
            <small>{whenOf(model, row)}</small>
          </li>
        ))}
      </ol>
    </section>
  );
}

function NeverIdle({ devices }: Pick<TimelineModel, "devices">) {
  const [first] = devices;
  if (first === undefined) return null;
  return (
    <p class="tp-answer tp-wait-line" data-tp-exact>
      {devices.length === 1 ? `${first.title} is never` : "No device is ever"} idle between its
      first and its last work.
    </p>
  );
}

/** "why the device waits" in the window, as one line. */
export function WaitLine({ report, moves, range }: HostProps) {
  const { overview, source } = moves.models;
  const span = range ?? moves.span;
  const asked = useAsked(source?.sums ?? null, waitsIn(span));
  const device = waitingDevice(overview);
  if (overview.devices.length === 0) return <HostLine {...{ report, moves, range }} />;
  if (device === undefined) return <NeverIdle devices={overview.devices} />;
  const causes =
    asked === null
      ? ownWaits(moves.model, span, device.lane)
      : askedWaits(asked).filter(({ lane }) => lane === device.lane);
  const whole = causes.reduce((sum, { ns }) => sum + ns, 0);
  const where = range === null ? partTitle(overview, span) : "in this range";
  const name = overview.devices.length > 1 ? device.title : "The device";
  if (causes.length === 0) {
    return (
      <p class="tp-answer tp-wait-line" data-tp-exact>
        {name} does not idle {where}.
      </p>
    );
  }
  const isExact = asked !== null || overview.merged === null;
  const isFinal = source === null || source.sums.state.value.kind === "failed";
  const [main] = causes;
  // Of the whole recording, what a device does before the first op or the first step belongs to no wait: the verdict
  // above says of how much time it is.
  const isPart = !isAll(overview, span);
  const busy = busyNs(moves.model, device, span, asked);
  // As the verdict calls it; the causes of so little stand beside.
  const isHardly = whole < HARDLY_IDLE * (whole + busy);
  const title = [`${formatNs(whole)}${inGaps(causes)}`, ...causes.map(causeText)].join("\n");
  return (
    <p class="tp-answer tp-wait-line" data-tp-exact={isExact} title={title}>
      {name} {isHardly ? "hardly idles: " : "idles "}
      {!isExact && isFinal && "about "}
      <strong>{isPart ? ofWhole(whole, whole + busy) : unbroken(formatNs(whole))}</strong> {where}
      {main !== undefined && (!isHardly || main.ns > whole / 2) && (
        <span>
          , {isHardly ? "mostly" : `${unbroken(formatNs(main.ns))} of it`} for{" "}
          <strong>{main.cause}</strong>
        </span>
      )}
      .
    </p>
  );
}

function causeText({ cause, ns, count }: WaitSum): string {
  return `${formatNs(ns)} ${cause}, in ${plural(count, "gap")}`;
}

/** "173 of 222 ms": the unit is said once where both have the same. */
function ofWhole(part: number, whole: number): string {
  const [own, all] = [formatNs(part), formatNs(whole)];
  const [size, unit] = own.split(" ");
  return unbroken(`${all.endsWith(` ${unit}`) ? size : own} of ${all}`);
}
