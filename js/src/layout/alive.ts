/** Which blocks of memory are in use, alike ones together. */

import { formatCount } from "../base/format";
import { modulesTitle, moduleTitle } from "../base/names";
import { type Frame, keyOf, numbersOf, stringAt, type TextColumn, textOf } from "../wire/frame";

/** Blocks of one kind from one place. */
export interface BlockGroup {
  readonly category: string;
  /**
   * The tensor: its name, or else its module or the op that allocated it, and its shape where that is known. What
   * groups that are called alike differ by stands behind it.
   */
  readonly title: string;
  /** Where it was allocated: module, op, line. */
  readonly place: string;
  /** The op that allocated it, "" if it is not known. */
  readonly op: string;
  readonly count: number;
  readonly bytes: number;
  /** The first and the last allocation; NaN before the recording. */
  readonly first: number;
  readonly last: number;
}

/** They are many, live long, and are known by what they are for. */
const TOGETHER = new Map([
  ["parameter", "parameters"],
  ["buffer", "buffers"],
  ["gradient", "gradients"],
  ["optimizer_state", "states of the optimizer"],
]);
export const BEFORE = "from before the recording";

/** The blocks of a device that are in use at a time, the largest groups first. */
export function aliveAt(blocks: Frame, device: string, time: number): readonly BlockGroup[] {
  const begin = numbersOf(blocks, "allocated_at_ns");
  const end = numbersOf(blocks, "freed_at_ns");
  const cycle = numbersOf(blocks, "cycle");
  const now = cycleAt(blocks, device, time);
  // Those from before the recording, and those that stay, have no time.
  return groupsOf(blocks, device, (row) => {
    const from = begin[row] ?? 0;
    const to = end[row] ?? 0;
    return cycle[row] === now && !(from > time) && !(to <= time);
  });
}

/** The blocks of a device that were allocated since a time and are in use at the end. */
export function grownSince(blocks: Frame, device: string, time: number): readonly BlockGroup[] {
  const begin = numbersOf(blocks, "allocated_at_ns");
  const end = numbersOf(blocks, "freed_at_ns");
  const cycle = numbersOf(blocks, "cycle");
  // What became of the blocks of earlier cycles is not known.
  const last = cycleAt(blocks, device, Number.POSITIVE_INFINITY);
  return groupsOf(
    blocks,
    device,
    (row) => cycle[row] === last && (begin[row] ?? 0) >= time && Number.isNaN(end[row]),
  );
}

/** The cycle whose blocks are known at a time: each counts what is in use anew, from its first change on. */
function cycleAt(blocks: Frame, device: string, time: number): number {
  const devices = textOf(blocks, "device");
  const wanted = keyOf(devices, device);
  const begin = numbersOf(blocks, "allocated_at_ns");
  const end = numbersOf(blocks, "freed_at_ns");
  const cycle = numbersOf(blocks, "cycle");
  const starts = new Map<number, number>();
  for (let row = 0; row < blocks.rows; row += 1) {
    if (devices.keys[row] !== wanted) continue;
    const of = cycle[row] ?? Number.NaN;
    const at = Math.min(orLast(begin[row]), orLast(end[row]));
    starts.set(of, Math.min(starts.get(of) ?? Number.POSITIVE_INFINITY, at));
  }
  const sorted = Array.from(starts).toSorted(([, a], [, b]) => a - b);
  return (sorted.findLast(([, start]) => start <= time) ?? sorted[0])?.[0] ?? Number.NaN;
}

/** A time, or the end of time for none. */
function orLast(time: number | undefined): number {
  return time === undefined || Number.isNaN(time) ? Number.POSITIVE_INFINITY : time;
}

interface Found {
  readonly row: number;
  count: number;
  bytes: number;
  times: number[];
  readonly modules: Set<string>;
}

const PARTS = ["category", "name", "op", "file", "shape", "dtype"] as const;

function groupsOf(
  blocks: Frame,
  device: string,
  isIn: (row: number) => boolean,
): readonly BlockGroup[] {
  const devices = textOf(blocks, "device");
  const wanted = keyOf(devices, device);
  const size = numbersOf(blocks, "size_bytes");
  const begin = numbersOf(blocks, "allocated_at_ns");
  const line = numbersOf(blocks, "line");
  const texts = PARTS.map((name) => alike(textOf(blocks, name)));
  const modules = alike(textOf(blocks, "module"));
  const categories = textOf(blocks, "category");
  const found = new Map<string, Found>();
  for (let row = 0; row < blocks.rows; row += 1) {
    if (devices.keys[row] !== wanted || !isIn(row)) continue;
    const category = categories.words[categories.keys[row] ?? -1] ?? "";
    const key = TOGETHER.has(category)
      ? category
      : `${texts.map((keys) => keys[row]).join()}:${modules[row]}:${line[row]}`;
    const times = [Infinity, -Infinity];
    const group = found.get(key) ?? { row, count: 0, bytes: 0, times, modules: new Set() };
    const at = begin[row] ?? Number.NaN;
    group.modules.add(stringAt(blocks, "module", row));
    group.count += 1;
    group.bytes += size[row] ?? 0;
    group.times = [Math.min(group.times[0] ?? at, at), Math.max(group.times[1] ?? at, at)];
    found.set(key, group);
  }
  const groups = Array.from(found.values());
  const words = toldApart(groups.map((group) => wordsOf(blocks, group)));
  return groups
    .map(({ count, bytes, times }, at) => {
      const { category = "", title = "", op = "", more = [] } = words[at] ?? {};
      const place = more.filter((part) => part !== "").join(" · ");
      const [first = Number.NaN, last = Number.NaN] = times;
      return { category, title, place, op, count, bytes, first, last };
    })
    .toSorted(largestFirst);
}

/** Orders groups by size, as the areas below the curve are. */
export function largestFirst(a: BlockGroup, b: BlockGroup): number {
  return b.bytes - a.bytes;
}

/** For each row a number that equal siblings share: blocks.0.mlp and blocks.1.mlp, or kept[0] and kept[1]. */
function alike({ words, keys }: TextColumn): Int32Array {
  const numbers = new Map<string, number>();
  const ofWord = words.map((word) => {
    const path = anySibling(word);
    const number = numbers.get(path) ?? numbers.size;
    numbers.set(path, number);
    return number;
  });
  return keys.map((key) => ofWord[key] ?? -1);
}

/** "blocks.*.mlp" for "blocks.0.mlp", "Linear_*" for "Linear_3", and "kept[*]" for "kept[3]". */
function anySibling(path: string): string {
  return path.replaceAll(/(?<=^|[._])\d+(?=$|\.)|(?<=\[)\d+(?=\])/g, "*");
}

/** What is known of a group beside its title, in the order in which it tells groups apart. */
type Words = Pick<BlockGroup, "category" | "title" | "op"> & { readonly more: readonly string[] };

function wordsOf(blocks: Frame, { row, count, modules }: Found): Words {
  const text = (name: string) => stringAt(blocks, name, row);
  const category = text("category");
  const op = text("op");
  const together = TOGETHER.get(category);
  if (together !== undefined) {
    return { category, title: `${formatCount(count)} ${together}`, op: "", more: [] };
  }
  const number = numbersOf(blocks, "line")[row] ?? Number.NaN;
  const file = text("file");
  const line = file === "" || Number.isNaN(number) ? "" : `${fileName(file)}:${number}`;
  const isOld = Number.isNaN(numbersOf(blocks, "allocated_at_ns")[row] ?? Number.NaN);
  const one = (name: string) => (count > 1 ? anySibling(text(name)) : text(name));
  const module =
    modules.size > 1 ? modulesTitle([...modules], anySibling) : moduleTitle(text("module"));
  // The first of these that is known, with its shape, which many tensors have; and behind it where that was.
  const name = one("name") || module || shortOp(op) || line;
  const title = [name, text("shape")].filter((part) => part !== "").join(" ");
  return {
    category,
    title: title || (isOld ? BEFORE : categoryTitle(category)),
    op,
    more: [module, shortOp(op), line].map((part) => (part === name ? "" : part)),
  };
}

/** The words of all groups: those that are called alike get what they differ by behind their title. */
function toldApart(all: readonly Words[]): readonly Words[] {
  const told = all.map((each) => ({ ...each, more: [...each.more] }));
  for (const part of [0, 1, 2]) {
    const byTitle = new Map<string, typeof told>();
    for (const each of told) byTitle.set(each.title, [...(byTitle.get(each.title) ?? []), each]);
    for (const alikes of byTitle.values()) {
      if (new Set(alikes.map(({ more }) => more[part])).size < 2) continue;
      for (const each of alikes) {
        each.title = `${each.title} ${each.more[part] ?? ""}`.trim();
        each.more[part] = "";
      }
    }
  }
  return told;
}

/** "addmm" for "aten::addmm", "addmm backward" for the node of autograd. */
export function shortOp(op: string): string {
  const node = /^autograd::engine::evaluate_function: (\w+?)Backward\d*$/.exec(op);
  if (node !== null) return `${node[1]} backward`;
  return op.replace(/^aten::/, "");
}

function fileName(file: string): string {
  return file.slice(file.lastIndexOf("/") + 1);
}

/** "optimizer state" for "optimizer_state". */
export function categoryTitle(category: string): string {
  return category.replaceAll("_", " ");
}
