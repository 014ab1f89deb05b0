/** Decodes an Arrow stream into columns. */

import { type Column as ArrowColumn, tableFromIPC } from "@uwdata/flechette";
import { failure, messageOf, type Result, success } from "../base/result";
import type { Column, Frame, Numbers, TextColumn } from "./frame";
import { type FramedHeader, type LateHeader, parseLateHeader, type ViewHeader } from "./header";

/** A dictionary batch of flechette: its values are keys into the words of its dictionary. */
interface DictionaryBatch {
  readonly length: number;
  readonly nullCount: number;
  readonly values: ArrayLike<number>;
  readonly cache: readonly unknown[];
  isValid(index: number): boolean;
}

const EMPTY = "";

/** The bytes of one view, copied so that they start aligned; empty when the container is too short. */
export function viewBytes(container: unknown, view: FramedHeader): Uint8Array {
  if (!(container instanceof DataView) || view.offset < 0) return new Uint8Array(0);
  const start = container.byteOffset + view.offset;
  const stop = Math.min(start + view.length, container.byteOffset + container.byteLength);
  return new Uint8Array(container.buffer.slice(start, Math.max(start, stop)));
}

/** The columns of an Arrow IPC stream, or why they cannot be read. */
export function decodeFrame(bytes: Uint8Array): Result<Frame> {
  try {
    return success(readFrame(bytes));
  } catch (error) {
    return failure(`The data of this view cannot be read: ${messageOf(error)}`);
  }
}

const LENGTH_BYTES = 4;

/** A view that comes with its header: its length, the header as JSON, and the columns. */
export function decodeLate(
  known: ViewHeader,
  bytes: Uint8Array,
): Result<{ readonly view: LateHeader; readonly frame: Frame }> {
  try {
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    const start = LENGTH_BYTES + length;
    const json = new TextDecoder().decode(bytes.subarray(LENGTH_BYTES, start));
    return success({ view: parseLateHeader(known, json), frame: readFrame(bytes.slice(start)) });
  } catch (error) {
    return failure(`The data of this view cannot be read: ${messageOf(error)}`);
  }
}

function readFrame(bytes: Uint8Array): Frame {
  const table = tableFromIPC(bytes);
  const columns = new Map<string, Column>();
  table.names.forEach((name, index) => {
    columns.set(String(name), readColumn(table.getChildAt(index)));
  });
  return { rows: table.numRows, columns };
}

function readColumn(column: ArrowColumn<unknown>): Column {
  const first = column.data[0];
  if (first !== undefined && "dictionary" in first) return readDictionary(column);
  const values = column.toArray();
  if (ArrayBuffer.isView(values)) return { kind: "number", values: values as Numbers };
  // Text comes as a dictionary; what is left are numbers, some of them unknown.
  const list = Array.from(values as ArrayLike<unknown>);
  return { kind: "number", values: Float64Array.from(list, numberOrNaN) };
}

function numberOrNaN(value: unknown): number {
  return value === null || value === undefined ? Number.NaN : Number(value);
}

/** Keys of all batches in one array. Each batch of a long stream can have a dictionary of its own. */
function readDictionary(column: ArrowColumn<unknown>): TextColumn {
  const batches = column.data as unknown as readonly DictionaryBatch[];
  const { words, keysOf } = joinDictionaries(batches.map(({ cache }) => cache));
  const keys = new Int32Array(column.length).fill(-1);
  let first = 0;
  batches.forEach((batch, at) => {
    const known = keysOf[at] ?? [];
    for (let index = 0; index < batch.length; index += 1) {
      const isKnown = batch.nullCount === 0 || batch.isValid(index);
      if (isKnown) keys[first + index] = known[batch.values[index] ?? -1] ?? -1;
    }
    first += batch.length;
  });
  return { kind: "text", keys, words };
}

interface JoinedWords {
  readonly words: readonly string[];
  /** For each dictionary, the places of its words in `words`. */
  readonly keysOf: readonly ArrayLike<number>[];
}

/** All words of some dictionaries, each once; batches can share one. */
function joinDictionaries(dictionaries: readonly (readonly unknown[])[]): JoinedWords {
  const keyOf = new Map<string, number>();
  const known = new Map<readonly unknown[], Int32Array>();
  for (const dictionary of new Set(dictionaries)) {
    const keys = Int32Array.from(dictionary, (entry) => {
      const word = String(entry ?? EMPTY);
      const key = keyOf.get(word) ?? keyOf.size;
      keyOf.set(word, key);
      return key;
    });
    known.set(dictionary, keys);
  }
  const keysOf = dictionaries.map((dictionary) => known.get(dictionary) ?? []);
  return { words: Array.from(keyOf.keys()), keysOf };
}
