/** Other trees from one tree: without some boxes, from the leaves up, or around one name. */

import type { FlameChange, FlameOptions } from "../base/flame-options";
import type { Column, Frame, Numbers, TextColumn } from "../wire/frame";
import { numbersOf, textOf } from "../wire/frame";

export interface Transformed {
  readonly frame: Frame;
  /** How many boxes were left out. */
  readonly folded: number;
}

// A frame that passes on this much of its time to one other box only wraps it.
const WRAPS = 0.97;
// From the leaves up, longer paths say little.
const MOST_LEVELS = 64;

interface Source {
  readonly frame: Frame;
  readonly parent: Numbers;
  readonly names: TextColumn;
  readonly kinds: TextColumn;
  readonly phases: TextColumn;
  readonly weights: readonly string[];
  readonly self: readonly Numbers[];
  readonly total: readonly Numbers[];
}

/** The tree that the options describe; the same frame when they change nothing. */
export function transformFlame(
  frame: Frame,
  weights: readonly string[],
  options: FlameOptions,
): Transformed {
  const source = sourceOf(frame, weights);
  const target = placesOf(source, options);
  const isPlain = options.shape === "merged" && target.folded === 0 && !target.hasDropped;
  if (isPlain && !options.collapsesRecursion) return { frame, folded: 0 };
  const builder = new TreeBuilder(source);
  if (options.shape === "merged") addMerged(builder, source, target.to, options);
  else if (options.shape === "callees") addCallees(builder, source, target.to, options.name);
  else addInverted(builder, source, target.to, options);
  return { frame: builder.frame(), folded: target.folded };
}

function sourceOf(frame: Frame, weights: readonly string[]): Source {
  return {
    frame,
    parent: numbersOf(frame, "parent"),
    names: textOf(frame, "name"),
    kinds: textOf(frame, "kind"),
    phases: textOf(frame, "phase"),
    weights,
    self: weights.map((weight) => numbersOf(frame, `self_${weight}`)),
    total: weights.map((weight) => numbersOf(frame, `total_${weight}`)),
  };
}

const DROPPED = -1;

/** Where the own weight of each row goes: to itself, to the nearest row around it that stays, or nowhere. */
function placesOf(source: Source, options: FlameOptions) {
  const { frame, parent } = source;
  const isHidden = hiddenRows(source, options);
  const isDropped = wordsOf(source.names, options.changes, "drop");
  const to = new Int32Array(frame.rows);
  let folded = 0;
  let hasDropped = false;
  for (let row = 0; row < frame.rows; row += 1) {
    const above = parent[row] ?? -1;
    if (above < 0) {
      to[row] = row;
    } else if (to[above] === DROPPED || isDropped[source.names.keys[row] ?? -1] === 1) {
      to[row] = DROPPED;
      hasDropped = true;
    } else if (isHidden[row] === 1) {
      to[row] = to[above] ?? 0;
      folded += 1;
    } else {
      to[row] = row;
    }
  }
  return { to, folded, hasDropped };
}

function wordsOf(
  names: TextColumn,
  changes: readonly FlameChange[],
  kind: FlameChange["kind"],
): Uint8Array {
  const wanted = changes.filter((change) => change.kind === kind).map(({ text }) => text);
  return Uint8Array.from(names.words, (word) =>
    Number(wanted.some((text) => (kind === "file" ? word.startsWith(text) : word === text))),
  );
}

function hiddenRows(source: Source, { foldsLibraries, changes }: FlameOptions): Uint8Array {
  const byName = wordsOf(source.names, changes, "hide");
  const byFile = wordsOf(source.names, changes, "file");
  const library = source.kinds.words.indexOf("library");
  const module = source.kinds.words.indexOf("module");
  const isForwardName = Uint8Array.from(source.names.words, (word) =>
    Number(word.endsWith("): forward")),
  );
  const largest = source.total.map((total) => largestInside(source, total));
  const isHidden = new Uint8Array(source.frame.rows);
  for (let row = 1; row < source.frame.rows; row += 1) {
    const key = source.names.keys[row] ?? -1;
    // By the first weight that it has any of: a frame that only waits has no device time.
    const by = source.total.findIndex((total) => (total[row] ?? 0) > 0);
    const isPassing =
      source.kinds.keys[row] === library &&
      (largest[by]?.[row] ?? 0) >= WRAPS * (source.total[by]?.[row] ?? 0);
    // The frame of a module's forward says no more than the module.
    const isForward =
      isForwardName[key] === 1 && source.kinds.keys[source.parent[row] ?? -1] === module;
    const isWrapper = foldsLibraries && (isPassing || isForward);
    if (isWrapper || byName[key] === 1 || byFile[key] === 1) isHidden[row] = 1;
  }
  return isHidden;
}

/** The most of a weight that one of the boxes directly in each row has. */
function largestInside({ parent }: Source, total: Numbers): Float64Array {
  const largest = new Float64Array(parent.length);
  for (let row = 1; row < parent.length; row += 1) {
    const above = parent[row] ?? 0;
    largest[above] = Math.max(largest[above] ?? 0, total[row] ?? 0);
  }
  return largest;
}

/** Collects boxes by the path of their names, and adds up their weights. */
class TreeBuilder {
  readonly #source: Source;
  readonly #parent: number[] = [-1];
  /** A row of the source with the name, kind and phase of each box. */
  readonly #like: number[] = [0];
  readonly #self: number[][];
  readonly #heaviest: number[] = [0];
  readonly #boxes = new Map<number, number>();

  constructor(source: Source) {
    this.#source = source;
    this.#self = source.weights.map(() => [0]);
  }

  /** The box below `above` that is called as a row of the source. */
  child(above: number, row: number): number {
    const { names, kinds } = this.#source;
    const size = names.words.length * (kinds.words.length + 1);
    const key =
      above * size +
      (names.keys[row] ?? 0) * (kinds.words.length + 1) +
      (kinds.keys[row] ?? -1) +
      1;
    const known = this.#boxes.get(key);
    if (known !== undefined) {
      this.#takePhase(known, row);
      return known;
    }
    const made = this.#parent.length;
    this.#boxes.set(key, made);
    this.#parent.push(above);
    this.#like.push(row);
    this.#heaviest.push(this.#source.total[0]?.[row] ?? 0);
    for (const self of this.#self) self.push(0);
    return made;
  }

  /** A merged box has the phase of its heaviest row. */
  #takePhase(box: number, row: number): void {
    const weight = this.#source.total[0]?.[row] ?? 0;
    if (weight <= (this.#heaviest[box] ?? 0)) return;
    this.#heaviest[box] = weight;
    this.#like[box] = row;
  }

  nameOf(box: number): number {
    return this.#source.names.keys[this.#like[box] ?? 0] ?? -1;
  }

  parentOf(box: number): number {
    return this.#parent[box] ?? -1;
  }

  /** Adds the own weight of a row; `isItself` is false when the row was left out and `box` is around it. */
  addSelf(box: number, row: number, isItself: boolean): void {
    this.#self.forEach((self, weight) => {
      // A box that was left out adds its time to the one around it, but not its calls.
      if (!isItself && this.#source.weights[weight] === "calls") return;
      self[box] = (self[box] ?? 0) + (this.#source.self[weight]?.[row] ?? 0);
    });
  }

  addTotal(box: number, row: number): void {
    this.#self.forEach((self, weight) => {
      self[box] = (self[box] ?? 0) + (this.#source.total[weight]?.[row] ?? 0);
    });
  }

  /** The boxes in preorder, the heaviest first. */
  frame(): Frame {
    const totals = this.#self.map((self) => this.#totals(self));
    const order = this.#preorder(totals[0] ?? new Float64Array(this.#parent.length));
    const place = new Int32Array(order.length);
    order.forEach((box, position) => {
      place[box] = position;
    });
    const text = (column: TextColumn): Column => {
      const keys = new Int32Array(order.length);
      order.forEach((box, position) => {
        keys[position] = column.keys[this.#like[box] ?? 0] ?? -1;
      });
      return { kind: "text", keys, words: column.words };
    };
    const { names, kinds, phases, weights } = this.#source;
    const numbers = (from: ArrayLike<number>): Column => {
      const values = new Float64Array(order.length);
      order.forEach((box, position) => {
        values[position] = from[box] ?? 0;
      });
      return { kind: "number", values };
    };
    const parent = new Int32Array(order.length);
    order.forEach((box, position) => {
      const above = this.#parent[box] ?? -1;
      parent[position] = above < 0 ? -1 : (place[above] ?? -1);
    });
    const columns = new Map<string, Column>([
      ["parent", { kind: "number", values: parent }],
      ["name", text(names)],
      ["kind", text(kinds)],
      ["phase", text(phases)],
    ]);
    weights.forEach((weight, index) => {
      columns.set(`self_${weight}`, numbers(this.#self[index] ?? []));
      columns.set(`total_${weight}`, numbers(totals[index] ?? []));
    });
    return { rows: order.length, columns };
  }

  #totals(self: readonly number[]): Float64Array {
    const total = Float64Array.from(self);
    for (let box = total.length - 1; box > 0; box -= 1) {
      const above = this.#parent[box] ?? 0;
      total[above] = (total[above] ?? 0) + (total[box] ?? 0);
    }
    return total;
  }

  #preorder(total: Float64Array): readonly number[] {
    const below: number[][] = this.#parent.map(() => []);
    this.#parent.forEach((above, box) => {
      if (above >= 0) below[above]?.push(box);
    });
    const order: number[] = [];
    const open = [0];
    for (let box = open.pop(); box !== undefined; box = open.pop()) {
      order.push(box);
      const inside = below[box] ?? [];
      inside.sort((a, b) => (total[a] ?? 0) - (total[b] ?? 0));
      // One by one: a call takes no more than about a hundred thousand arguments.
      for (const each of inside) open.push(each);
    }
    return order;
  }
}

function addMerged(
  builder: TreeBuilder,
  source: Source,
  to: Int32Array,
  options: FlameOptions,
): void {
  const box = new Int32Array(source.frame.rows).fill(-1);
  box[0] = 0;
  builder.addSelf(0, 0, true);
  for (let row = 1; row < source.frame.rows; row += 1) {
    if (to[row] === DROPPED) continue;
    const above = box[source.parent[row] ?? 0] ?? 0;
    if (to[row] === row) {
      const same = options.collapsesRecursion
        ? around(builder, above, source.names.keys[row] ?? -1)
        : -1;
      box[row] = same >= 0 ? same : builder.child(above, row);
    } else {
      box[row] = above;
    }
    builder.addSelf(box[row] ?? 0, row, to[row] === row);
  }
}

/** The nearest box at or around `box` with a name, -1 for none. */
function around(builder: TreeBuilder, box: number, name: number): number {
  for (let at = box; at > 0; at = builder.parentOf(at)) {
    if (builder.nameOf(at) === name) return at;
  }
  return -1;
}

/** What a name calls, all its boxes merged. */
function addCallees(builder: TreeBuilder, source: Source, to: Int32Array, name: string): void {
  const key = source.names.words.indexOf(name);
  const box = new Int32Array(source.frame.rows).fill(-1);
  for (let row = 1; row < source.frame.rows; row += 1) {
    if (to[row] === DROPPED) continue;
    const above = box[source.parent[row] ?? 0] ?? -1;
    const isOne = source.names.keys[row] === key;
    if (above < 0 && !isOne) continue;
    const under = Math.max(0, above);
    box[row] = to[row] === row ? builder.child(under, row) : under;
    builder.addSelf(box[row] ?? 0, row, to[row] === row);
  }
}

/** Paths from the inside out: of all own time, or of one name. */
function addInverted(
  builder: TreeBuilder,
  source: Source,
  to: Int32Array,
  options: FlameOptions,
): void {
  const key = options.shape === "callers" ? source.names.words.indexOf(options.name) : -1;
  const isInside = new Uint8Array(source.frame.rows);
  for (let row = 1; row < source.frame.rows; row += 1) {
    const above = source.parent[row] ?? 0;
    const isOne = source.names.keys[row] === key;
    isInside[row] = isOne || isInside[above] === 1 ? 1 : 0;
    const start = to[row] ?? DROPPED;
    if (start === DROPPED || start === 0) continue;
    if (options.shape === "callers") {
      if (isOne && isInside[above] !== 1) builder.addTotal(pathUp(builder, source, to, row), row);
    } else if (source.self.some((self) => (self[row] ?? 0) > 0)) {
      builder.addSelf(pathUp(builder, source, to, start), row, start === row);
    }
  }
}

/** The box of a row at the end of the path from it to the root. */
function pathUp(builder: TreeBuilder, source: Source, to: Int32Array, row: number): number {
  let box = 0;
  let levels = 0;
  for (let at = row; at > 0 && levels < MOST_LEVELS; at = source.parent[at] ?? 0) {
    if (to[at] !== at && at !== row) continue;
    box = builder.child(box, at);
    levels += 1;
  }
  return box;
}
