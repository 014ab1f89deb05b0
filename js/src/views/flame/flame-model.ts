/** The data of a flame graph, computed once from a decoded tree. */

import { assert } from "../../base/assert";
import { formatNs, formatRatio, formatValue, plural } from "../../base/format";
import { keptBy, keptPer } from "../../base/kept";
import { displayName } from "../../base/names";
import type { TwoRuns } from "../../draw/change-painter";
import { FLAME_KERNEL_TONE } from "../../draw/fills";
import {
  buildExtent,
  buildTree,
  childrenOf,
  type FlameExtent,
  type FlameTree,
} from "../../layout/flame-tree";
import type { FooterItem } from "../../state/store";
import {
  type Frame,
  type Numbers,
  numberAt,
  numbersOf,
  type TextColumn,
  textOf,
  wordAt,
} from "../../wire/frame";
import type { DeviceTime, HostThread, WeightHeader } from "../../wire/header";
import { describeDevice } from "../common/describe";

/** What the columns are called that hold `awaits`, after `self_` and `total_`. */
export const AWAITS = "awaits_ns";

export interface FlameModel {
  readonly frame: Frame;
  readonly tree: FlameTree;
  readonly names: TextColumn;
  /** What each name is called in a box. */
  readonly titles: readonly string[];
  /** Over all recorded steps. */
  readonly calls: Numbers | null;
  /** The part of each box's host time in which its thread only waits for those of autograd; null where none does. */
  readonly awaits: Numbers | null;
  readonly phases: TextColumn;
  readonly kinds: TextColumn;
  readonly weights: readonly WeightHeader[];
  /** How many recorded steps the tree adds up. */
  readonly recorded: number;
  /** Whose host time it adds up. */
  readonly threads: readonly HostThread[];
  /** Of what its device time consists. */
  readonly device: DeviceTime | null;
  /** How much hue kernels have: all of it where no ops stand above them. */
  readonly kernelTone: number;
  /** By how many steps the numbers are divided; the boxes are in proportion all the same. */
  readonly steps: number;
  /** What each box has of the runs that are compared; null for the tree of one run. */
  readonly runs: TwoRuns | null;
  /** Where boxes begin under a weight; prefix sums, computed on the first call. */
  extent(weight: string): FlameExtent;
}

/** The model of a tree, kept for the next time that it is shown; `titleOf` is that of the report. */
export const flameModelOf = keptPer(createFlameModel);

function createFlameModel(
  frame: Frame,
  weights: readonly WeightHeader[],
  titleOf: (name: string) => string,
  steps = 1,
  recorded = 1,
  threads: readonly HostThread[] = [],
  device: DeviceTime | null = null,
): FlameModel {
  assert(weights.length > 0, "the tree has no weight");
  const tree = buildTree(numbersOf(frame, "parent"));
  const names = textOf(frame, "name");
  const calls = frame.columns.get("self_calls");
  const awaits = frame.columns.get(`total_${AWAITS}`);
  const isChange = frame.columns.has("total_before_ns");
  return {
    frame,
    tree,
    names,
    titles: names.words.map((name) => displayName(titleOf(name))),
    calls: calls?.kind === "number" ? calls.values : null,
    awaits: awaits?.kind === "number" ? awaits.values : null,
    phases: textOf(frame, "phase"),
    kinds: textOf(frame, "kind"),
    weights,
    kernelTone: hasBareKernels(frame, tree) ? 1 : FLAME_KERNEL_TONE,
    steps: isChange ? 1 : steps,
    recorded: isChange ? 1 : recorded,
    threads,
    device,
    runs: isChange
      ? { before: numbersOf(frame, "total_before_ns"), after: numbersOf(frame, "total_after_ns") }
      : null,
    extent: keptBy(String, (weight) => buildExtent(tree, numbersOf(frame, `total_${weight}`))),
  };
}

// Of the device time.
const BARE_SHARE = 0.5;

/** Whether most device time is in kernels that no op launched. */
function hasBareKernels(frame: Frame, tree: FlameTree): boolean {
  if (!frame.columns.has("total_device_ns")) return false;
  const kinds = textOf(frame, "kind");
  const bare = [...childrenOf(tree, 0)].filter((row) => wordAt(kinds, row) === "kernel");
  const sum = bare.reduce((all, row) => all + numberAt(frame, "total_device_ns", row), 0);
  return sum > BARE_SHARE * numberAt(frame, "total_device_ns", 0);
}

const MOST_THREADS = 2;

/** Of which steps and threads the whole tree is: "mean of 3 steps · 23 threads"; "" where nothing is known of it. */
export function describeWhole(
  {
    steps,
    recorded,
    threads,
    device,
  }: Pick<FlameModel, "steps" | "recorded" | "threads" | "device">,
  { name }: WeightHeader,
): string {
  const which = steps > 1 ? "mean of" : "all";
  // "pt_main_thread" for "thread 2910249 (pt_main_thread)", where that is enough.
  const full = threads.map((each) => each.name);
  const short = full.map((each) => each.replace(/^thread -?\d+ \((.+)\)$/, "$1"));
  const names = new Set(short).size === short.length ? short : full;
  const time = (at: number) => formatNs((threads[at]?.host_ns ?? 0) / steps);
  // Threads run at the same time, so what they add up to can be more than the step.
  const each = names.map((name, at) => `${time(at)} of ${name}`);
  const whose =
    names.length > MOST_THREADS
      ? ` of ${plural(names.length, "thread")}, up to ${time(0)} of one`
      : names.length > 1
        ? `: ${each.join(" + ")}`
        : ` of ${names[0]}`;
  return [
    ...(recorded > 1 ? [`${which} ${plural(recorded, "step")}`] : []),
    // Only the host's time is of threads.
    ...(name === "cpu_ns" && threads.length > 0 ? [`host time${whose}`] : []),
    name === "device_ns" ? describeDevice(device, steps) : "",
  ]
    .filter((each) => each !== "")
    .join(" · ");
}

/** The chosen weight, or the first one. */
export function weightOf(model: FlameModel, chosen: string | null): WeightHeader {
  const weight = model.weights.find(({ name }) => name === chosen) ?? model.weights[0];
  assert(weight !== undefined, "the tree has no weight");
  return weight;
}

/** By how many steps a weight is divided: memory may be of fewer. */
export function weightDivisor({ steps }: FlameModel, { share }: WeightHeader): number {
  return Math.max(steps * share, 1);
}

// A box that runs less than the rest of it is drawn as waiting.
const AWAITING_SHARE = 0.75;

/** Whether the host time of a box is waiting for other threads, whose boxes have it, too. */
export function isAwaiting({ frame, awaits }: FlameModel, row: number, weight: string): boolean {
  if (awaits === null || row === 0 || weight !== "cpu_ns") return false;
  return (awaits[row] ?? 0) > AWAITING_SHARE * numberAt(frame, "total_cpu_ns", row);
}

/** How much of a weight a box has, in words. */
export function sizeOf(model: FlameModel, row: number, weight: WeightHeader): string {
  const total = numberAt(model.frame, `total_${weight.name}`, row);
  return formatValue(total / weightDivisor(model, weight), weight.unit);
}

/** The text of the footer for a box. */
export function describeBox(model: FlameModel, row: number, weight: WeightHeader): FooterItem {
  const total = numberAt(model.frame, `total_${weight.name}`, row);
  const self = numberAt(model.frame, `self_${weight.name}`, row);
  const whole = numberAt(model.frame, `total_${weight.name}`, 0);
  const divisor = weightDivisor(model, weight);
  const parent = numberAt(model.frame, `total_${weight.name}`, model.tree.parent[row] ?? -1);
  const awaiting = isAwaiting(model, row, weight.name) ? ["waits for other threads"] : [];
  const ofParent = parent > 0 && row > 0 ? [`${formatRatio(total / parent)} of parent`] : [];
  return {
    name: wordAt(model.names, row),
    isCode: true,
    phase: row === 0 ? "" : wordAt(model.phases, row),
    facts: [
      `${weight.title} self ${formatValue(self / divisor, weight.unit)}`,
      `total ${formatValue(total / divisor, weight.unit)}${model.steps > 1 ? " per step" : ""}`,
      ...(whole > 0 ? [`${formatRatio(total / whole)} of all`] : []),
      ...ofParent,
      ...callsOf(model, row, weight),
      ...awaiting,
    ],
  };
}

/** The number of calls of a path, if the tree has it and the weight is another one. */
function callsOf(model: FlameModel, row: number, weight: WeightHeader): readonly string[] {
  const known = model.weights.some(({ name }) => name === "calls") && weight.name !== "calls";
  return known && row > 0
    ? [plural(numberAt(model.frame, "self_calls", row) / model.steps, "call")]
    : [];
}
