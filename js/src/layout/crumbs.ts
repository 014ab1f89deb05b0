/** The end of a path for which there is room. */

import { shortenName } from "../base/names";

/** The last parts of a path, and how many before them are left out. */
export interface Crumbs {
  readonly hidden: number;
  readonly texts: readonly string[];
}

// More of a name says little.
const MOST_CHARS = 40;
// What stands between two parts, with its margins, and what stands for those that are left out.
const BETWEEN_CHARS = 3;
const HIDDEN_CHARS = 3 + BETWEEN_CHARS;

/** The parts of a path in at most `room` characters: the first ones go first, and the last is only shortened. */
export function fitCrumbs(names: readonly string[], room: number): Crumbs {
  const texts = names.map((name) => shortenName(name, MOST_CHARS));
  if (widthOf(texts) <= room) return { hidden: 0, texts };
  const left = names.length > 1 ? room - HIDDEN_CHARS : room;
  const last = shortenName(names.at(-1) ?? "", Math.max(2, Math.min(left, MOST_CHARS)));
  let shown = [last];
  for (const text of texts.slice(0, -1).reverse()) {
    const more = [text, ...shown];
    if (widthOf(more) > left) break;
    shown = more;
  }
  return { hidden: names.length - shown.length, texts: shown };
}

/**
 * What is said of a path: the last row of each of the user's own kinds and the end, or its last rows where none is of
 * these; null for those that are left out between them.
 */
export function toldOf(
  path: readonly number[],
  own: readonly ((row: number) => boolean)[],
): readonly (number | null)[] {
  const last = own.flatMap((isOwn) => path.filter(isOwn).slice(-1));
  const told = new Set(last.length > 0 ? [...last, ...path.slice(-1)] : path.slice(-own.length));
  return path.flatMap((row, at) => {
    if (!told.has(row)) return [];
    return at === 0 || told.has(path[at - 1] ?? -1) ? [row] : [null, row];
  });
}

/**
 * The part of a path that is told: up to the last row of no library before generated code, unless the path goes on
 * from there to what is of no library either, such as an op.
 */
export function beforeGenerated(
  path: readonly number[],
  isLibrary: (row: number) => boolean,
  isGenerated: (row: number) => boolean,
): readonly number[] {
  const at = path.findLastIndex((row) => !isLibrary(row));
  return path.slice(at).some(isGenerated) ? path.slice(0, at + 1) : path;
}

function widthOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length + BETWEEN_CHARS, -BETWEEN_CHARS);
}
