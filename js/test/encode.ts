/** Makes the bytes of a report where there is no Python: in tests, the benchmark and the demo page. */

import { dictionary, float64, int32, tableFromArrays, tableToIPC, utf8 } from "@uwdata/flechette";
import { defined } from "../src/base/assert";
import type { ViewHeader } from "../src/wire/header";

// Views start on multiples of this, as in the kernel's container.
const ALIGNMENT = 8;

export type Values = readonly string[] | Float64Array | Int32Array;

/** An Arrow IPC stream of columns; strings are dictionary-encoded as in the kernel's. */
export function encodeFrame(columns: readonly (readonly [string, Values])[]): Uint8Array {
  const types = columns.map(([name, values]) => [name, typeOf(values)] as const);
  const table = tableFromArrays(
    columns.map(([name, values]): [string, unknown[]] => [name, Array.from<unknown>(values)]),
    { types: Object.fromEntries(types) },
  );
  return defined(tableToIPC(table, { format: "stream" }), "the encoded table");
}

function typeOf(values: Values) {
  if (values instanceof Float64Array) return float64();
  if (values instanceof Int32Array) return int32();
  return dictionary(utf8(), int32());
}

export interface Encoded {
  readonly views: readonly ViewHeader[];
  readonly data: DataView;
}

/** Puts streams behind each other and writes their places into the headers; null stays not embedded. */
export function packViews(
  views: readonly ViewHeader[],
  streams: readonly (Uint8Array | null)[],
): Encoded {
  let size = 0;
  const placed = views.map((view, index) => {
    const stream = streams[index];
    if (stream === null || stream === undefined || !("offset" in view)) return view;
    const offset = size;
    size += Math.ceil(stream.byteLength / ALIGNMENT) * ALIGNMENT;
    return { ...view, offset, length: stream.byteLength };
  });
  const whole = new Uint8Array(size);
  placed.forEach((view, index) => {
    const stream = streams[index];
    if (stream && "offset" in view) whole.set(stream, view.offset);
  });
  return { views: placed, data: new DataView(whole.buffer) };
}

/** A view that comes with its header, as the kernel sends one that it has just computed. */
export function lateView(
  header: object,
  columns: readonly (readonly [string, Values])[],
): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = Math.ceil((4 + text.length) / ALIGNMENT) * ALIGNMENT - 4;
  const stream = encodeFrame(columns);
  const whole = new Uint8Array(4 + length + stream.length).fill(0x20);
  new DataView(whole.buffer).setUint32(0, length, true);
  whole.set(text, 4);
  whole.set(stream, 4 + length);
  return whole;
}
