import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { failure, type Result, success } from "../base/result";
import type { Frame } from "../wire/frame";
import { type LoadedWindow, Windows, type WindowWish } from "./windows";

const WHOLE = { start: 0, end: 100_000 };
const FRAME: Frame = { rows: 0, columns: new Map() };

/** Answers as the kernel does: with half a window on both sides, within the recording. */
class FakeKernel {
  readonly asked: WindowWish[] = [];
  isExact = false;
  #answer: ((result: Result<LoadedWindow>) => void) | null = null;

  ask = (wish: WindowWish) => {
    this.asked.push(wish);
    return new Promise<Result<LoadedWindow>>((resolve) => {
      this.#answer = resolve;
    });
  };

  async answer(more: Partial<LoadedWindow> = {}): Promise<void> {
    const wish = this.asked.at(-1);
    if (wish === undefined) throw new Error("nothing was asked");
    const { layer, start, end, pixels } = wish;
    const margin = (end - start) / 2;
    const perPixel = (end - start) / pixels;
    await this.#reply(
      success({
        frame: FRAME,
        layer,
        start: Math.max(WHOLE.start, start - margin),
        end: Math.min(WHOLE.end, end + margin),
        bucket: perPixel,
        perPixel,
        isExact: this.isExact,
        ...more,
      }),
    );
  }

  fail(): Promise<void> {
    return this.#reply(failure("The kernel is gone."));
  }

  async #reply(result: Result<LoadedWindow>): Promise<void> {
    this.#answer?.(result);
    await vi.advanceTimersByTimeAsync(0);
  }
}

function setUp() {
  const kernel = new FakeKernel();
  const windows = new Windows(WHOLE, kernel.ask, new AbortController().signal);
  const want = (start: number, end: number, layer = "depth") =>
    windows.want({ layer, start, end, pixels: 100 });
  return { kernel, windows, want };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("Windows", () => {
  it("asks for what is to be seen, and shows it", async () => {
    const { kernel, windows, want } = setUp();
    want(40_000, 50_000);
    expect(windows.isComplete.value).toBe(false);
    await kernel.answer();
    expect(kernel.asked).toEqual([{ layer: "depth", start: 40_000, end: 50_000, pixels: 100 }]);
    expect([windows.shown.value?.start, windows.shown.value?.end]).toEqual([35_000, 55_000]);
    expect(windows.isComplete.value).toBe(true);
  });

  it("asks nothing for a small pan", async () => {
    const { kernel, windows, want } = setUp();
    want(40_000, 50_000);
    await kernel.answer();
    want(41_000, 51_000);
    want(37_500, 47_500);
    expect(kernel.asked).toHaveLength(1);
    expect(windows.isComplete.value).toBe(true);
  });

  it("asks for more before a pan reaches the end of what it has, and shows on", async () => {
    const { kernel, windows, want } = setUp();
    want(40_000, 50_000);
    await kernel.answer();
    want(44_000, 54_000);
    expect(kernel.asked.at(-1)?.start).toBe(44_000);
    expect(windows.isComplete.value).toBe(true);
    await kernel.answer();
    expect(windows.shown.value?.end).toBe(59_000);
  });

  it("needs no room beyond the ends of the recording", async () => {
    const { kernel, want } = setUp();
    want(0, 10_000);
    await kernel.answer();
    want(1_000, 11_000);
    want(0, 10_000);
    expect(kernel.asked).toHaveLength(1);
  });

  it("asks for finer buckets when it zooms in", async () => {
    const { kernel, windows, want } = setUp();
    want(0, 100_000);
    await kernel.answer({ bucket: 512 });
    // 600 ns a pixel are still longer than a bucket.
    want(20_000, 80_000);
    expect(kernel.asked).toHaveLength(1);
    want(30_000, 70_000);
    expect(kernel.asked).toHaveLength(2);
    expect(windows.isComplete.value).toBe(false);
    // The old picture stays meanwhile.
    expect(windows.shown.value?.bucket).toBe(512);
  });

  it("takes a crowded window as it comes, though its buckets are longer than pixels", async () => {
    const { kernel, windows, want } = setUp();
    want(0, 100_000);
    await kernel.answer({ bucket: 4_096 });
    want(0, 100_000);
    expect(kernel.asked).toHaveLength(1);
    expect(windows.isComplete.value).toBe(true);
  });

  it("asks nothing more inside a window in which nothing is merged", async () => {
    const { kernel, want } = setUp();
    kernel.isExact = true;
    want(40_000, 50_000);
    await kernel.answer();
    want(44_000, 44_100);
    expect(kernel.asked).toHaveLength(1);
  });

  it("shows a window that was shown before without asking", async () => {
    const { kernel, windows, want } = setUp();
    want(0, 100_000);
    await kernel.answer();
    const first = windows.shown.value;
    want(40_000, 41_000);
    await kernel.answer();
    expect(windows.shown.value).not.toBe(first);
    want(0, 100_000);
    expect(kernel.asked).toHaveLength(2);
    expect(windows.shown.value).toBe(first);
  });

  it("keeps only some windows", async () => {
    const { kernel, want } = setUp();
    for (let at = 0; at < 10; at += 1) {
      want(at * 10_000, at * 10_000 + 100);
      await kernel.answer();
    }
    want(0, 100);
    expect(kernel.asked).toHaveLength(11);
  });

  it("asks for another layer, and shows the one before until then", async () => {
    const { kernel, windows, want } = setUp();
    want(0, 100_000);
    await kernel.answer();
    want(0, 100_000, "depth_python");
    expect(windows.shown.value?.layer).toBe("depth");
    await kernel.answer();
    expect(windows.shown.value?.layer).toBe("depth_python");
  });

  it("shows the answer to an older wish, which is nearer than what was before, and asks on", async () => {
    const { kernel, windows, want } = setUp();
    want(0, 100_000);
    await kernel.answer();
    want(40_000, 50_000);
    want(44_000, 45_000);
    await kernel.answer();
    expect(windows.shown.value?.start).toBe(35_000);
    expect(windows.isComplete.value).toBe(false);
    expect(kernel.asked.at(-1)?.start).toBe(44_000);
    await kernel.answer();
    expect(windows.isComplete.value).toBe(true);
  });

  it("keeps the picture when the kernel is gone, and says why it is not finer", async () => {
    const { kernel, windows, want } = setUp();
    want(0, 100_000);
    await kernel.answer();
    want(40_000, 41_000);
    await kernel.fail();
    expect(windows.shown.value?.end).toBe(100_000);
    expect(windows.state.value).toEqual({ kind: "failed", message: "The kernel is gone." });
    // What it has it can still show.
    want(0, 100_000);
    expect(windows.state.value).toEqual({ kind: "ready" });
  });
});
