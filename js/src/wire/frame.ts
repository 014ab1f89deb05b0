/** A decoded view: columns of numbers and columns of dictionary-encoded text. */

import { assert } from "../base/assert";
import { keptPer } from "../base/kept";

export type Numbers =
  | Float64Array
  | Float32Array
  | Int32Array
  | Uint32Array
  | Int16Array
  | Uint16Array
  | Int8Array
  | Uint8Array;

/** Numbers; NaN where a value is unknown. */
export interface NumberColumn {
  readonly kind: "number";
  readonly values: Numbers;
}

/** Text; `words[keys[row]]` is a row's text. Each word stands once. */
export interface TextColumn {
  readonly kind: "text";
  readonly keys: Int32Array;
  readonly words: readonly string[];
}

export type Column = NumberColumn | TextColumn;

/** Columns by name. A Map, because names come from traces and may be `__proto__`. */
export interface Frame {
  readonly rows: number;
  readonly columns: ReadonlyMap<string, Column>;
}

/** The numbers of a column that must exist. */
export function numbersOf(frame: Frame, name: string): Numbers {
  const column = frame.columns.get(name);
  assert(column?.kind === "number", `the column ${name} holds no numbers`);
  return column.values;
}

/** The text of a column that must exist. */
export function textOf(frame: Frame, name: string): TextColumn {
  const column = frame.columns.get(name);
  assert(column?.kind === "text", `the column ${name} holds no text`);
  return column;
}

/** A row's word, "" when the row is not there. */
export function wordAt(column: TextColumn, row: number): string {
  return column.words[column.keys[row] ?? -1] ?? "";
}

/** A row's number, NaN when the row or the column is not there. */
export function numberAt(frame: Frame, name: string, row: number): number {
  const column = frame.columns.get(name);
  return column?.kind === "number" ? (column.values[row] ?? Number.NaN) : Number.NaN;
}

/** A row's text, "" when the row or the column is not there. */
export function stringAt(frame: Frame, name: string, row: number): string {
  const column = frame.columns.get(name);
  return column?.kind === "text" ? wordAt(column, row) : "";
}

/** The numbers of all rows. */
export function rowsOf(frame: Frame): readonly number[] {
  return Array.from({ length: frame.rows }, (_, row) => row);
}

// Every picture asks for the selected name.
const placeOf = keptPer((words: readonly string[], word: string) => words.indexOf(word));

/** The key of a word, -1 when the column does not contain it. */
export function keyOf(column: TextColumn, word: string): number {
  return placeOf(column.words, word);
}

const lowered = new WeakMap<readonly string[], readonly string[]>();

/** The words of a column in lower case; made once, as a search asks for them at every letter. */
export function lowerWords({ words }: TextColumn): readonly string[] {
  const made = lowered.get(words) ?? words.map((word) => word.toLowerCase());
  lowered.set(words, made);
  return made;
}

/** 1 for each word that contains `query`, without regard to case; null for an empty query. */
function wordsWith(column: TextColumn, query: string): Uint8Array | null {
  const wanted = query.trim().toLowerCase();
  return wanted === "" ? null : wordsContaining(column, wanted);
}

/** 1 for each word that contains a text in lower case. */
export function wordsContaining(column: TextColumn, wanted: string): Uint8Array {
  const words = lowerWords(column);
  const found = new Uint8Array(words.length);
  for (let key = 0; key < words.length; key += 1) {
    if (words[key]?.includes(wanted)) found[key] = 1;
  }
  return found;
}

// A regular expression between slashes, as in editors.
const PATTERN = /^\/(.+)\/$/;

/** 1 for each word that matches a text, or a regular expression between slashes; null for an empty query. */
export function wordsMatching(column: TextColumn, query: string): Uint8Array | null {
  const pattern = PATTERN.exec(query.trim())?.[1];
  if (pattern === undefined) return wordsWith(column, query);
  try {
    const regex = new RegExp(pattern, "i");
    return Uint8Array.from(column.words, (word) => (regex.test(word) ? 1 : 0));
  } catch {
    // An expression that is not finished matches nothing yet.
    return new Uint8Array(column.words.length);
  }
}
