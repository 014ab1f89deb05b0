import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { failure, type Result, success } from "../base/result";
import { Latest, WORD_AFTER_MS } from "./latest";

interface Wish {
  readonly at: number;
}

/** What was asked, with a way to answer each question. */
class FakeKernel {
  readonly asked: Wish[] = [];
  readonly #answers: ((result: Result<string>) => void)[] = [];

  ask = (wish: Wish) => {
    this.asked.push(wish);
    return new Promise<Result<string>>((resolve) => this.#answers.push(resolve));
  };

  async answer(result: Result<string>): Promise<void> {
    this.#answers.shift()?.(result);
    await vi.advanceTimersByTimeAsync(0);
  }
}

function setUp() {
  const kernel = new FakeKernel();
  const abort = new AbortController();
  return { kernel, abort, latest: new Latest(kernel.ask, abort.signal) };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("Latest", () => {
  it("asks one question at a time, and after it the newest", async () => {
    const { kernel, latest } = setUp();
    for (const at of [1, 2, 3]) latest.want({ at });
    expect(kernel.asked).toEqual([{ at: 1 }]);
    await kernel.answer(success("one"));
    expect(kernel.asked).toEqual([{ at: 1 }, { at: 3 }]);
    await kernel.answer(success("three"));
    expect(kernel.asked).toHaveLength(2);
    expect(latest.answered.value).toEqual({ wish: { at: 3 }, answer: "three" });
  });

  it("asks the same only once", async () => {
    const { kernel, latest } = setUp();
    latest.want({ at: 1 });
    latest.want({ at: 1 });
    await kernel.answer(success("one"));
    latest.want({ at: 1 });
    expect(kernel.asked).toHaveLength(1);
    expect(latest.answerTo({ at: 1 })).toBe("one");
    expect(latest.answerTo({ at: 2 })).toBeNull();
  });

  it("says that it is loading only when that takes long", async () => {
    const { kernel, latest } = setUp();
    latest.want({ at: 1 });
    await vi.advanceTimersByTimeAsync(WORD_AFTER_MS - 1);
    expect(latest.state.value.kind).toBe("ready");
    await vi.advanceTimersByTimeAsync(1);
    expect(latest.state.value.kind).toBe("loading");
    await kernel.answer(success("one"));
    expect(latest.state.value.kind).toBe("ready");
  });

  it("counts the time until the word from the first wish that is not answered", async () => {
    const { kernel, latest } = setUp();
    latest.want({ at: 1 });
    await vi.advanceTimersByTimeAsync(WORD_AFTER_MS - 10);
    latest.want({ at: 2 });
    await kernel.answer(success("one"));
    await vi.advanceTimersByTimeAsync(10);
    expect(latest.state.value.kind).toBe("loading");
  });

  it("says why there is no answer, and asks again later, but not for ever", async () => {
    const { kernel, latest } = setUp();
    latest.want({ at: 1 });
    await kernel.answer(failure("The kernel is busy."));
    expect(latest.state.value).toEqual({ kind: "failed", message: "The kernel is busy." });
    for (const after of [1_000, 4_000, 16_000]) {
      const before = kernel.asked.length;
      await vi.advanceTimersByTimeAsync(after);
      expect(kernel.asked).toHaveLength(before + 1);
      await kernel.answer(failure("The kernel is busy."));
    }
    await vi.advanceTimersByTimeAsync(100_000);
    expect(kernel.asked).toHaveLength(4);
  });

  it("asks a new wish at once after a failure", async () => {
    const { kernel, latest } = setUp();
    latest.want({ at: 1 });
    await kernel.answer(failure("The kernel is busy."));
    latest.want({ at: 2 });
    expect(kernel.asked.at(-1)).toEqual({ at: 2 });
    await kernel.answer(success("two"));
    expect(latest.state.value.kind).toBe("ready");
    await vi.advanceTimersByTimeAsync(100_000);
    expect(kernel.asked).toHaveLength(2);
  });

  it("forgets a wish that is not wanted any longer", async () => {
    const { kernel, latest } = setUp();
    latest.want({ at: 1 });
    latest.want({ at: 2 });
    latest.want(null);
    await kernel.answer(failure("The kernel is busy."));
    await vi.advanceTimersByTimeAsync(100_000);
    expect(kernel.asked).toEqual([{ at: 1 }]);
    expect(latest.state.value.kind).toBe("ready");
  });

  it("leaves everything as it is when its report is removed", async () => {
    const { kernel, abort, latest } = setUp();
    latest.want({ at: 1 });
    abort.abort();
    await kernel.answer(success("one"));
    await vi.advanceTimersByTimeAsync(100_000);
    expect(latest.answered.value).toBeNull();
    expect(kernel.asked).toHaveLength(1);
  });

  /** A kernel that is slow to answer its first question. */
  function setUpSlow() {
    const answers: ((result: Result<string>) => void)[] = [];
    const says: ((message: string) => void)[] = [];
    const ask = (_wish: Wish, onSlow: (message: string) => void) => {
      says.push(onSlow);
      return new Promise<Result<string>>((resolve) => answers.push(resolve));
    };
    const latest = new Latest(ask, new AbortController().signal);
    latest.want({ at: 1 });
    says[0]?.("busy");
    const answer = async (at: number, text: string) => {
      answers[at]?.(success(text));
      await vi.advanceTimersByTimeAsync(0);
    };
    return { latest, says, answer };
  }

  it("says why an answer is slow, and takes it when it comes after all", async () => {
    const { latest, answer } = setUpSlow();
    expect(latest.state.value).toEqual({ kind: "failed", message: "busy" });
    await answer(0, "one");
    expect(latest.state.value).toEqual({ kind: "ready" });
    expect(latest.answerTo({ at: 1 })).toBe("one");
  });

  it("asks again on request, and drops what comes for the question before", async () => {
    const { latest, says, answer } = setUpSlow();
    latest.retry();
    expect(says).toHaveLength(2);
    expect(latest.state.value).toEqual({ kind: "loading" });
    await answer(0, "old");
    expect(latest.answerTo({ at: 1 })).toBeNull();
    await answer(1, "new");
    expect(latest.answerTo({ at: 1 })).toBe("new");
  });
});
