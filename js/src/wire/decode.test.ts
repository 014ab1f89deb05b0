import { float64, int32, tableFromArrays, tableToIPC } from "@uwdata/flechette";
import { describe, expect, it } from "vitest";
import { encodeFrame } from "../../test/encode";
import { tableHeader } from "../../test/headers";
import { defined } from "../base/assert";
import { decodeFrame, viewBytes } from "./decode";
import { keyOf, numberAt, numbersOf, stringAt, textOf } from "./frame";

function frameOf(bytes: Uint8Array) {
  const decoded = decodeFrame(bytes);
  if (!decoded.ok) throw new Error(decoded.message);
  return decoded.value;
}

/** The first stream without its end, and the second without its schema: its dictionary replaces the first one. */
function inOneStream(first: Uint8Array, second: Uint8Array): Uint8Array {
  // The end is a marker and a length of 0; the schema is a marker, a length, and so many bytes.
  const schemaBytes = new DataView(second.buffer, second.byteOffset).getInt32(4, true);
  return Uint8Array.of(...first.subarray(0, -8), ...second.subarray(8 + schemaBytes));
}

const view = (offset: number, length: number) => tableHeader("ops", { offset, length });

describe("decodeFrame", () => {
  it("gives numbers as typed arrays", () => {
    const frame = frameOf(encodeFrame([["self_cpu_ns", Float64Array.of(1.5, 2e15)]]));
    expect(numbersOf(frame, "self_cpu_ns")).toEqual(Float64Array.of(1.5, 2e15));
  });

  it("keeps each word of a dictionary once", () => {
    const frame = frameOf(encodeFrame([["name", ["aten::mm", "aten::add", "aten::mm"]]]));
    const names = textOf(frame, "name");
    expect(names.words).toEqual(["aten::mm", "aten::add"]);
    expect(Array.from(names.keys)).toEqual([0, 1, 0]);
  });

  it("reads an unknown number as NaN", () => {
    const table = tableFromArrays([["v", [1, null, 3]]], { types: { v: float64() } });
    const frame = frameOf(defined(tableToIPC(table, { format: "stream" }), "bytes"));
    expect([numberAt(frame, "v", 0), numberAt(frame, "v", 1)]).toEqual([1, Number.NaN]);
  });

  it("joins the batches of a stream", () => {
    const values = Array.from({ length: 5 }, (_, at) => at);
    const table = tableFromArrays([["v", values]], { types: { v: int32() }, maxBatchRows: 2 });
    const frame = frameOf(defined(tableToIPC(table, { format: "stream" }), "bytes"));
    expect(Array.from(numbersOf(frame, "v"))).toEqual([0, 1, 2, 3, 4]);
  });

  it("gives each batch the words of its own dictionary", () => {
    const early = encodeFrame([["name", ["aten::mm", "aten::add"]]]);
    const late = encodeFrame([["name", ["aten::relu", "aten::mm", "aten::relu"]]]);
    const names = textOf(frameOf(inOneStream(early, late)), "name");
    expect(names.words).toEqual(["aten::mm", "aten::add", "aten::relu"]);
    expect(Array.from(names.keys)).toEqual([0, 1, 2, 0, 2]);
  });

  it("keeps hostile names as data", () => {
    const hostile = ["__proto__", "constructor", "</script><img onerror=x>", "a\u202Eb"];
    const frame = frameOf(encodeFrame([["__proto__", hostile]]));
    expect(hostile.map((_, row) => stringAt(frame, "__proto__", row))).toEqual(hostile);
    expect(keyOf(textOf(frame, "__proto__"), "constructor")).toBe(1);
  });

  it("fails when the bytes are not an Arrow stream", () => {
    expect(decodeFrame(Uint8Array.of(1, 2, 3, 4, 5)).ok).toBe(false);
  });
});

describe("viewBytes", () => {
  it("copies a view out of an unaligned container", () => {
    const stream = encodeFrame([["v", Float64Array.of(4, 5)]]);
    // The container begins 3 bytes into its buffer, the view 8 bytes into the container.
    const buffer = new Uint8Array(3 + 8 + stream.byteLength);
    buffer.set(stream, 11);
    const bytes = viewBytes(new DataView(buffer.buffer, 3), view(8, stream.byteLength));
    expect(bytes.byteOffset).toBe(0);
    expect(numbersOf(frameOf(bytes), "v")).toEqual(Float64Array.of(4, 5));
  });

  it("returns no bytes for a view that is not embedded", () => {
    expect(viewBytes(new DataView(new ArrayBuffer(8)), view(-1, 8)).byteLength).toBe(0);
  });

  it("does not read past the end of the container", () => {
    const container = new DataView(new ArrayBuffer(32), 0, 16);
    expect(viewBytes(container, view(8, 100)).byteLength).toBe(8);
  });
});
