/** What a slice is, in words. */

import { formatCount, formatNs, plural, whenIn } from "../../base/format";
import { measureText } from "../../base/measure";
import { displayName } from "../../base/names";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import type { FooterItem } from "../../state/store";
import { stringAt, wordAt } from "../../wire/frame";
import { causeSums, type LongWait } from "./longest-waits";
import {
  countAt,
  gapOf,
  noteParts,
  type Step,
  spanOfSlice,
  stepAt,
  type TimelineModel,
  workAround,
} from "./timeline-model";

export interface Detail {
  readonly label: string;
  readonly value: string;
  /** What `value` is short for. */
  readonly whole?: string;
  /** Shown as code. */
  readonly isCode?: boolean;
  /** The slice that it names. */
  readonly row?: number;
}

const MOST_WAITS = 4;
export function kindOf(model: TimelineModel, row: number): string {
  return wordAt(model.kinds, row);
}

/** The name of a slice; waits are called by their cause. */
export function titleOf(model: TimelineModel, row: number): string {
  const kind = kindOf(model, row);
  if (kind === "idle") return `Waiting: ${noteParts(model, row)[0]}`;
  if (kind === "queue") return "Launch queue";
  const [name, short] = [wordAt(model.names, row), shortName(model, row)];
  return isDeviceWork(kind) || short !== displayName(name) ? short : name;
}

type Place = Pick<TimelineModel, "steps" | "whole">;

/** The first and the last step of which a span has any part. */
function stepsIn({ steps }: Place, { start, end }: Span<Ns>): readonly [Step, Step] | null {
  const shown = steps.filter((step) => step.start < end && step.end > start);
  const [first, last] = [shown[0], shown.at(-1)];
  return first === undefined || last === undefined ? null : [first, last];
}

/** "step 5" or "steps 4–6"; empty where no step is. */
export function stepsText(model: Place, span: Span<Ns>): string {
  const found = stepsIn(model, span);
  if (found === null) return "";
  const [first, last] = found;
  return first === last ? `step ${first.number}` : `steps ${first.number}–${last.number}`;
}

/** What sums of a window are about: "in step 5" if it has that whole, else "in this window". */
export function partTitle(model: Place, span: Span<Ns>): string {
  if (isAll(model, span))
    return model.steps.length > 0 ? "in the whole recording" : "from the first op on";
  const [first, last] = stepsIn(model, span) ?? [];
  const hasWhole =
    first !== undefined && last !== undefined && first.start >= span.start && last.end <= span.end;
  return hasWhole ? `in ${stepsText(model, span)}` : "in this window";
}

export function isAll({ whole }: Place, { start, end }: Span<Ns>): boolean {
  return start <= whole.start && end >= whole.end;
}

/** "39.6 ms into step 5", or "at the start of step 5", of a slice or of a moment. */
export function whenOf(model: TimelineModel, row: number, start = model.start[row] ?? 0): string {
  const step = stepAt(model, start);
  return step === undefined
    ? `at ${formatNs(start - model.whole.start)}`
    : whenIn(start - step.start, step.number, "at ");
}

export function describeSlice(model: TimelineModel, row: number): FooterItem {
  const kind = kindOf(model, row);
  const facts = [lengthOf(model, row), whenOf(model, row)];
  const around = model.op[row] ?? -1;
  if (kind === "queue")
    facts.unshift(`${formatCount(model.count[row] ?? 0)} launched, not yet begun`);
  if (kind === "counter") facts.unshift(valueText(model, row));
  if (kind === "idle" && wordAt(model.names, row) !== "") facts.unshift(wordAt(model.names, row));
  const by = around >= 0 ? wordAt(model.names, around) : stringAt(model.frame, "by", row);
  if (isDeviceWork(kind) && by !== "") facts.push(`by ${by}`);
  if (kind === "path") facts.push("critical path");
  return {
    name: titleOf(model, row),
    isCode: !["idle", "queue", "step", "phase", "counter"].includes(kind),
    phase: ["queue", "step", "counter"].includes(kind) ? "" : wordAt(model.phases, row),
    facts,
  };
}

/** "312.5 W"; of several merged values the highest. */
function valueText(model: TimelineModel, row: number): string {
  const scale = model.view.lanes[model.lane[row] ?? -1]?.scale;
  const text = scale == null ? "" : measureText(scale, model.count[row] ?? 0);
  return countAt(model, row) === 1 ? text : `up to ${text}`;
}

/** "34.8 µs", or what several come to that are too short for this picture. */
function lengthOf(model: TimelineModel, row: number): string {
  const count = countAt(model, row);
  const long = formatNs(model.dur[row] ?? 0);
  if (count === 1) return long;
  const what = kindOf(model, row) === "idle" ? "wait" : "slice";
  return `the longest of ${plural(count, what)}, together ${long}`;
}

function isDeviceWork(kind: string): boolean {
  return kind === "kernel" || kind === "memcpy" || kind === "memset";
}

/** The delay from the end of the launch call to the start of the work; NaN when it is not known. */
function launchDelay(model: TimelineModel, row: number): number {
  const call = model.source[row] ?? -1;
  if (call < 0) return Number.NaN;
  return (model.start[row] ?? 0) - (model.start[call] ?? 0);
}

/** What any model knows about a slice. */
export function briefDetailsOf(model: TimelineModel, row: number): readonly Detail[] {
  const kind = kindOf(model, row);
  const isValue = kind === "counter";
  const verb = isDeviceWork(kind)
    ? "runs"
    : kind === "idle"
      ? "waits"
      : isValue
        ? "holds"
        : "takes";
  return [
    ...(isValue ? [{ label: "value", value: valueText(model, row) }] : []),
    { label: countAt(model, row) === 1 ? verb : "merged", value: lengthOf(model, row) },
    { label: "begins", value: whenOf(model, row) },
    { label: "on", value: kind === "path" ? noteParts(model, row)[0] : laneTitle(model, row) },
  ];
}

/** What a part of the critical path is, where it ran. */
function pathDetails(model: TimelineModel, row: number): readonly Detail[] {
  const shown = model.op[row] ?? -1;
  return shown < 0 ? [] : [{ label: "is", ...named(model, shown) }];
}

/** Everything that is known about a slice, with those that belong to it. */
export function detailsOf(model: TimelineModel, row: number): readonly Detail[] {
  const kind = kindOf(model, row);
  const details: Detail[] = [...briefDetailsOf(model, row)];
  if (kind === "counter") return details;
  if (kind === "path") return [...details, ...pathDetails(model, row)];
  if (kind === "idle") return [...details, ...idleDetails(model, row)];
  const delay = launchDelay(model, row);
  if (isDeviceWork(kind)) {
    details.push({
      label: "launched",
      value: Number.isNaN(delay)
        ? "not in the recording"
        : `${formatNs(Math.max(0, delay))} earlier`,
    });
  }
  const source = model.source[row] ?? -1;
  const around = model.op[row] ?? -1;
  if (source >= 0) {
    const label = isDeviceWork(kind) ? "call" : "forward op";
    details.push({ label, ...named(model, source) });
  }
  if (around >= 0 && around !== row) details.push({ label: "by", ...named(model, around) });
  const size = noteParts(model, row)[0];
  if (size !== "") details.push({ label: "size", value: size });
  const name = wordAt(model.names, row);
  const isShort = titleOf(model, row) !== name;
  return [
    ...details,
    ...recorded(model, row, isDeviceWork(kind) ? around : -1),
    ...(isShort ? [{ label: "full name", value: name, isCode: true }] : []),
  ];
}

/** What a slice is called in a box. */
function shortName(model: TimelineModel, row: number): string {
  return model.titles[model.names.keys[row] ?? -1] ?? "";
}

/** Another slice, by its short name. */
function named(model: TimelineModel, row: number): Omit<Detail, "label"> {
  return { value: shortName(model, row), whole: wordAt(model.names, row), isCode: true, row };
}

// From this share of a gap on its longest wait or its main cause stands for it, with the time that it has in the picture.
const NEARLY_ALL = 0.9;

/**
 * Why a device waits in a gap: "347 ms" for "initialisation", or as a whole "mostly" for that, in
 * "cudaLaunchKernel" where most of that is one wait; and when that is, with the line of the host. The numbers of its
 * parts are in its details.
 */
export function waitWords(
  model: TimelineModel,
  { row, ns, causeNs, rowNs, isNamed, isExact, start }: LongWait,
): {
  readonly long: string;
  readonly what: string;
  readonly name: string;
  readonly where: string;
} {
  const [cause, place] = noteParts(model, row);
  const main = [rowNs, causeNs].find((each) => each >= NEARLY_ALL * ns);
  return {
    long: `${isExact ? "" : "≈ "}${formatNs(main ?? ns)}`,
    what: main === undefined ? `mostly ${cause}` : cause,
    name: isNamed ? wordAt(model.names, row) : "",
    where: [place, whenOf(model, row, main === rowNs ? undefined : start)]
      .filter(Boolean)
      .join(" · "),
  };
}

function idleDetails(model: TimelineModel, row: number): readonly Detail[] {
  const [cause, place] = noteParts(model, row);
  const name = wordAt(model.names, row);
  return [
    { label: "cause", value: cause },
    ...(name === "" ? [] : [{ label: "host in", value: name, isCode: true }]),
    ...(place === "" ? [] : [{ label: "line", value: place, isCode: true }]),
    ...gapDetails(model, row),
    ...neighbors(model, row),
  ];
}

/** The other waits in the same gap, where there are some, and how much of it is of the same cause. */
function gapDetails(model: TimelineModel, row: number): readonly Detail[] {
  const gap = gapOf(model, row);
  if (gap === undefined || gap.rows.length < 2) return [];
  const [cause] = noteParts(model, row);
  const long = formatNs(gap.end - gap.start);
  const same = formatNs(causeSums(model, gap.rows, (each) => model.dur[each] ?? 0).get(cause) ?? 0);
  const share = `${same === long ? "all" : same} of it for ${cause}`;
  const whole = `${long}, ${share}, in ${plural(gap.rows.length, "wait")}`;
  const largest = gap.rows
    .toSorted((a, b) => (model.dur[b] ?? 0) - (model.dur[a] ?? 0))
    .filter((each) => each !== row)
    .slice(0, MOST_WAITS);
  return [
    { label: "whole gap", value: whole },
    ...largest.map((each) => {
      const name = wordAt(model.names, each);
      const what = `${noteParts(model, each)[0]}${name === "" ? "" : ` in ${name}`}`;
      return { label: "also", value: `${formatNs(model.dur[each] ?? 0)} ${what}`, row: each };
    }),
  ];
}

/** The device work before and after an idle time. */
function neighbors(model: TimelineModel, row: number): readonly Detail[] {
  const device = model.devices.find(({ lane }) => lane === model.lane[row]);
  if (device === undefined) return [];
  const { start, end } = gapOf(model, row) ?? spanOfSlice(model, row);
  const { before, after } = workAround(model, device, start, end);
  const detail = (label: string, found: number): Detail =>
    found < 0 ? { label, value: "nothing in the recording" } : { label, ...named(model, found) };
  return [detail("ran before", before), detail("runs after", after)];
}

/** What an op would have, and the flag that brings it. */
const OF_OPS = [
  { name: "shapes", flag: "--shapes", option: "record_shapes=True" },
  { name: "stack", flag: "--stack", option: "with_stack=True" },
] as const;

/** Details such as shapes, of a slice or else of the op that launched it. */
function recorded(model: TimelineModel, row: number, op: number): readonly Detail[] {
  const known = model.view.columns.flatMap(({ name, title }) => {
    const value = stringAt(model.frame, name, row) || stringAt(model.frame, name, op);
    const short = name === "generated_code" ? value.replace(/.*[/\\]/, "") : value;
    if (value === "") return [];
    return [{ label: title.toLowerCase(), value: short, whole: value, isCode: true }];
  });
  const isOp = op >= 0 || kindOf(model, row) === "op";
  const missing = OF_OPS.filter(({ name }) => !model.frame.columns.has(name));
  if (!isOp) return known;
  return [
    ...known,
    ...missing.map(({ name, flag, option }) => ({
      label: name,
      value: `not recorded · ${flag}`,
      whole: `Record with %%torchprof ${flag}, or with ${option} in torch.profiler`,
    })),
  ];
}

export function laneTitle(model: TimelineModel, row: number): string {
  const lane = model.view.lanes[model.lane[row] ?? -1];
  if (lane === undefined) return "";
  const isMain = lane.kind === "thread" || lane.kind === "waits";
  return isMain ? lane.title : `${lane.title}, ${lane.group}`;
}
