import { describe, expect, it } from "vitest";
import { encodeFrame } from "../../test/encode";
import { FakeHost } from "../../test/report";
import { type Result, success } from "../base/result";
import { ask, factsOf, type Reply, type SliceQuestion, windowFacts } from "./questions";

const QUESTION: SliceQuestion = { kind: "slice", layer: "depth", slice: 7 };
const SLICES = encodeFrame([["slice", Int32Array.of(7)]]);

function asked(): { readonly host: FakeHost; readonly reply: Promise<Result<Reply>> } {
  const host = new FakeHost();
  return { host, reply: ask(host, "timeline", QUESTION, {}) };
}

function answer(host: FakeHost, message: object, buffers: readonly unknown[] = []): void {
  const { id } = host.sent.at(-1) as { readonly id: string };
  host.emit("msg:custom", { id, ...message }, buffers);
}

describe("ask", () => {
  it("sends a question about a view, and reads the frames of the answer", async () => {
    const { host, reply } = asked();
    expect(host.sent).toEqual([{ ...QUESTION, view: "timeline", id: expect.any(String) }]);
    // A buffer of a message begins anywhere.
    const shifted = new Uint8Array(SLICES.length + 3);
    shifted.set(SLICES, 3);
    answer(host, { kind: "answer", facts: { a: 1 } }, [new DataView(shifted.buffer, 3)]);
    const result = await reply;
    expect(result.ok && result.value.facts).toEqual({ a: 1 });
    expect(result.ok && result.value.frames.map(({ rows }) => rows)).toEqual([1]);
    expect(host.listeners).toEqual([]);
  });

  it("returns the message of an error", async () => {
    const { host, reply } = asked();
    answer(host, { kind: "error", message: "The recording has no such slice." });
    expect(await reply).toEqual({ ok: false, message: "The recording has no such slice." });
  });

  it("ignores answers to other questions", async () => {
    const { host, reply } = asked();
    host.emit("msg:custom", { kind: "answer", id: "other", facts: {} }, []);
    host.emit("msg:custom", null, []);
    answer(host, { kind: "chunk" });
    expect(host.listeners).toHaveLength(1);
    answer(host, { kind: "answer", facts: {} });
    expect((await reply).ok).toBe(true);
  });

  it("fails for buffers that are no frames", async () => {
    for (const buffer of ["text", new DataView(Uint8Array.of(1, 2, 3).buffer)]) {
      const { host, reply } = asked();
      answer(host, { kind: "answer", facts: {} }, [buffer]);
      expect((await reply).ok).toBe(false);
    }
  });
});

describe("the facts of an answer", () => {
  it("are checked", () => {
    const facts = { start_ns: 0, end_ns: 5, bucket_ns: 1, is_exact: true };
    expect(factsOf({ facts, frames: [] }, windowFacts)).toEqual(success(facts));
    const wrong = factsOf({ facts: { ...facts, end_ns: "5" }, frames: [] }, windowFacts);
    expect(wrong.ok ? "" : wrong.message).toContain("end_ns");
    expect(factsOf({ facts: null, frames: [] }, windowFacts).ok).toBe(false);
  });
});
