import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Host, HostListener } from "./host";
import { pull } from "./pull";
import { canAnswer } from "./request";

interface Question {
  readonly kind: string;
  readonly id: string;
  readonly name: string;
  readonly chunk: number;
}

class FakeHost implements Host {
  readonly questions: Question[] = [];
  readonly listeners = new Set<HostListener>();
  get = () => undefined;
  on = (_event: string, listener: HostListener) => void this.listeners.add(listener);
  off = (_event: string, listener: HostListener) => void this.listeners.delete(listener);
  send = (content: unknown) => void this.questions.push(content as Question);

  answer(content: object, bytes: readonly number[] = []): void {
    const buffer = new DataView(Uint8Array.from(bytes).buffer);
    for (const listener of Array.from(this.listeners)) listener(content, [buffer]);
  }

  get last(): Question {
    return this.questions.at(-1) as Question;
  }
}

const settle = () => vi.advanceTimersByTimeAsync(0);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("pull", () => {
  it("asks for chunks one after the other and joins them", async () => {
    const host = new FakeHost();
    const pulled = pull(host, "kernels");
    host.answer({ kind: "chunk", id: host.last.id, chunk: 0, chunks: 2 }, [1, 2]);
    expect(host.questions).toHaveLength(1);
    await settle();
    expect(host.questions.map(({ kind, name, chunk }) => [kind, name, chunk])).toEqual([
      ["get", "kernels", 0],
      ["get", "kernels", 1],
    ]);
    host.answer({ kind: "chunk", id: host.last.id, chunk: 1, chunks: 2 }, [3]);
    expect(await pulled).toEqual({ ok: true, value: Uint8Array.of(1, 2, 3) });
  });

  it("gives up after ten seconds", async () => {
    const host = new FakeHost();
    const pulled = pull(host, "kernels");
    await vi.advanceTimersByTimeAsync(9_999);
    expect(host.listeners.size).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect((await pulled).ok).toBe(false);
    expect(host.listeners.size).toBe(0);
  });

  it("drops an answer to another question", async () => {
    const host = new FakeHost();
    const pulled = pull(host, "kernels");
    host.answer({ kind: "chunk", id: "somebody-else", chunk: 0, chunks: 1 }, [9]);
    host.answer({ kind: "chunk", id: host.last.id, chunk: 0, chunks: 1 }, [1]);
    expect(await pulled).toEqual({ ok: true, value: Uint8Array.of(1) });
  });

  it("drops a late answer", async () => {
    const host = new FakeHost();
    const first = pull(host, "kernels", { timeoutMs: 5 });
    const late = host.last.id;
    await vi.advanceTimersByTimeAsync(5);
    await first;
    const second = pull(host, "kernels");
    host.answer({ kind: "chunk", id: late, chunk: 0, chunks: 1 }, [9]);
    host.answer({ kind: "chunk", id: host.last.id, chunk: 0, chunks: 1 }, [1]);
    expect(await second).toEqual({ ok: true, value: Uint8Array.of(1) });
  });

  it("says that the kernel is slow, and takes the reply when it comes", async () => {
    const host = new FakeHost();
    const said: string[] = [];
    const pulled = pull(host, "kernels", { onSlow: (message) => said.push(message) });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(said).toHaveLength(1);
    expect(said[0]).toContain("not replied yet");
    host.answer({ kind: "chunk", id: host.last.id, chunk: 0, chunks: 1 }, [1]);
    expect(await pulled).toEqual({ ok: true, value: Uint8Array.of(1) });
  });

  it("fails at once when the kernel is gone", async () => {
    const host = new FakeHost();
    const connection = { isLost: () => true, onLoss: () => {} };
    const pulled = await pull(host, "kernels", { connection });
    expect(pulled.ok ? "" : pulled.message).toContain("Run the cell again");
    expect(host.questions).toEqual([]);
  });

  it("fails when the kernel goes while it waits", async () => {
    const host = new FakeHost();
    let lose = () => {};
    const onLoss = (listener: () => void) => {
      lose = listener;
    };
    const pulled = pull(host, "kernels", { connection: { isLost: () => false, onLoss } });
    lose();
    const result = await pulled;
    expect(result.ok ? "" : result.message).toContain("restarted or has stopped");
    expect(host.listeners.size).toBe(0);
  });

  it("returns the kernel's error message", async () => {
    const host = new FakeHost();
    const pulled = pull(host, "kernels");
    host.answer({ kind: "error", id: host.last.id, message: "The run is gone." });
    expect(await pulled).toEqual({ ok: false, message: "The run is gone." });
  });

  it("stops listening when it is aborted", async () => {
    const host = new FakeHost();
    const abort = new AbortController();
    const pulled = pull(host, "kernels", { signal: abort.signal });
    abort.abort();
    expect((await pulled).ok).toBe(false);
    expect(host.listeners.size).toBe(0);
  });

  it("fails at once where no kernel can be asked", async () => {
    const host: Host = { get: () => undefined, on: () => {}, off: () => {} };
    expect(canAnswer(host)).toBe(false);
    expect((await pull(host, "kernels")).ok).toBe(false);
  });

  it("fails when sending throws", async () => {
    const host = new FakeHost();
    host.send = () => {
      throw new Error("comm is closed");
    };
    const pulled = await pull(host, "kernels");
    expect(pulled.ok ? "" : pulled.message).toContain("Run the cell again");
  });
});
