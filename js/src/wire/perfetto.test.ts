import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { failure, type Result, success } from "../base/result";
import { handOver, type OpenedWindow, type OpeningPage, PERFETTO } from "./perfetto";

/** A window of another origin: what it is sent is kept, and its address cannot be read once it has loaded. */
class FakeWindow implements OpenedWindow {
  readonly received: { readonly message: unknown; readonly target: string }[] = [];
  closed = false;
  isBlank = false;

  get location(): { readonly href: string } {
    if (this.isBlank) return { href: "about:blank" };
    throw new DOMException("Blocked a frame from accessing a cross-origin frame.", "SecurityError");
  }

  postMessage(message: unknown, target: string): void {
    this.received.push({ message, target });
  }

  close(): void {
    this.closed = true;
  }

  get pings(): number {
    return this.received.filter(({ message }) => message === "PING").length;
  }

  get traces(): readonly unknown[] {
    return this.received.map(({ message }) => message).filter((message) => message !== "PING");
  }
}

class FakePage implements OpeningPage {
  readonly opened: string[] = [];
  readonly perfetto: FakeWindow | null;
  readonly #messages = new EventTarget();

  constructor(perfetto: FakeWindow | null = new FakeWindow()) {
    this.perfetto = perfetto;
  }

  addEventListener(
    type: "message",
    listener: (event: MessageEvent<unknown>) => void,
    options: { readonly signal: AbortSignal },
  ): void {
    this.#messages.addEventListener(type, (event) => listener(event as MessageEvent), options);
  }

  open(url: string): FakeWindow | null {
    this.opened.push(url);
    return this.perfetto;
  }

  hear(data: unknown, { origin = PERFETTO, source = this.perfetto as unknown } = {}): void {
    this.#messages.dispatchEvent(Object.assign(new Event("message"), { data, origin, source }));
  }
}

const BYTES = Uint8Array.of(31, 139, 8);

function start(
  page: FakePage,
  pulled: Promise<Result<Uint8Array>> = Promise.resolve(success(BYTES)),
) {
  const abort = new AbortController();
  const pull = vi.fn(() => pulled);
  const trace = { title: "In [4]", fileName: "a.json.gz", pull, signal: abort.signal };
  const results: Result<null>[] = [];
  void handOver(page, trace).then((result) => results.push(result));
  return { abort, pull, results };
}

const wait = (ms: number) => vi.advanceTimersByTimeAsync(ms);

function messageOf(results: readonly Result<null>[]): string {
  const [result] = results;
  return result === undefined || result.ok ? "" : result.message;
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("handOver", () => {
  it("says when the browser blocked the window, and does not pull the trace", async () => {
    const { results, pull } = start(new FakePage(null));
    await wait(0);
    expect(messageOf(results)).toContain("blocked the window of ui.perfetto.dev");
    expect(messageOf(results)).toContain("Chrome trace (.json.gz)");
    expect(pull).not.toHaveBeenCalled();
  });

  it("opens the window at once, before anything is awaited", () => {
    const page = new FakePage();
    start(page, new Promise(() => {}));
    expect(page.opened).toEqual(["https://ui.perfetto.dev"]);
  });

  it("sends the trace once, after the third ping was answered", async () => {
    const perfetto = new FakeWindow();
    const page = new FakePage(perfetto);
    const { results } = start(page);
    await wait(300);
    expect(perfetto.pings).toBe(3);
    expect(perfetto.traces).toEqual([]);
    page.hear("PONG");
    page.hear("PONG");
    await wait(1_000);
    expect(results).toEqual([{ ok: true, value: null }]);
    const buffer = BYTES.slice().buffer;
    expect(perfetto.traces).toEqual([
      { perfetto: { buffer, title: "In [4]", fileName: "a.json.gz" } },
    ]);
    expect(perfetto.pings).toBe(3);
    expect(new Set(perfetto.received.map(({ target }) => target))).toEqual(new Set([PERFETTO]));
  });

  it("waits for a trace that takes longer than Perfetto", async () => {
    const perfetto = new FakeWindow();
    const page = new FakePage(perfetto);
    let finish: (result: Result<Uint8Array>) => void = () => {};
    const { results } = start(
      page,
      new Promise((resolve) => {
        finish = resolve;
      }),
    );
    await wait(200);
    page.hear("PONG");
    await wait(60_000);
    expect(results).toEqual([]);
    finish(success(BYTES));
    await wait(0);
    expect(results).toEqual([{ ok: true, value: null }]);
    expect(perfetto.traces).toHaveLength(1);
  });

  it("sends nothing to the blank page that a window begins with", async () => {
    const perfetto = new FakeWindow();
    perfetto.isBlank = true;
    start(new FakePage(perfetto));
    await wait(500);
    expect(perfetto.pings).toBe(0);
    perfetto.isBlank = false;
    await wait(100);
    expect(perfetto.pings).toBe(1);
  });

  it("ignores other origins, other windows and other messages", async () => {
    const perfetto = new FakeWindow();
    const page = new FakePage(perfetto);
    const { results } = start(page);
    await wait(100);
    for (const origin of [
      "https://evil.example",
      "null",
      "http://ui.perfetto.dev",
      `${PERFETTO}.evil`,
    ]) {
      page.hear("PONG", { origin });
    }
    page.hear("PONG", { source: new FakeWindow() });
    page.hear("PONG", { source: null });
    for (const data of ["PING", "pong", null, { data: "PONG" }, ["PONG"]]) page.hear(data);
    await wait(0);
    expect(results).toEqual([]);
    expect(perfetto.traces).toEqual([]);
  });

  it("says when Perfetto never answers, stops asking, and leaves the window to the user", async () => {
    const perfetto = new FakeWindow();
    const { results } = start(new FakePage(perfetto));
    await wait(29_999);
    expect(results).toEqual([]);
    await wait(1);
    expect(messageOf(results)).toContain("did not answer within 30 s");
    const { pings } = perfetto;
    await wait(5_000);
    expect(perfetto.pings).toBe(pings);
    expect(perfetto.closed).toBe(false);
  });

  it("takes no answer that comes after it gave up", async () => {
    const perfetto = new FakeWindow();
    const page = new FakePage(perfetto);
    start(page);
    await wait(30_000);
    page.hear("PONG");
    await wait(0);
    expect(perfetto.traces).toEqual([]);
  });

  it("says when the window was closed", async () => {
    const perfetto = new FakeWindow();
    const { results } = start(new FakePage(perfetto));
    await wait(100);
    perfetto.closed = true;
    await wait(100);
    expect(messageOf(results)).toContain("was closed");
  });

  it("says when the window was closed while the trace was on its way", async () => {
    const perfetto = new FakeWindow();
    const page = new FakePage(perfetto);
    let finish: (result: Result<Uint8Array>) => void = () => {};
    const pulled = new Promise<Result<Uint8Array>>((resolve) => {
      finish = resolve;
    });
    const { results } = start(page, pulled);
    await wait(100);
    page.hear("PONG");
    perfetto.closed = true;
    finish(success(BYTES));
    await wait(0);
    expect(messageOf(results)).toContain("was closed");
  });

  it("closes the window and says why when there is no trace", async () => {
    const perfetto = new FakeWindow();
    const { results } = start(
      new FakePage(perfetto),
      Promise.resolve(failure("The kernel is gone.")),
    );
    await wait(0);
    expect(results).toEqual([{ ok: false, message: "The kernel is gone." }]);
    expect(perfetto.closed).toBe(true);
    await wait(1_000);
    expect(perfetto.pings).toBe(0);
  });

  it("closes the window, stops asking and sends nothing when the report is removed", async () => {
    const perfetto = new FakeWindow();
    const page = new FakePage(perfetto);
    const { abort, results } = start(page);
    await wait(100);
    abort.abort();
    await wait(1_000);
    expect(results).toEqual([{ ok: false, message: "The report was removed." }]);
    expect(perfetto.closed).toBe(true);
    expect(perfetto.pings).toBe(1);
    page.hear("PONG");
    await wait(0);
    expect(perfetto.traces).toEqual([]);
  });

  it("leaves the window alone when the report is removed after the trace was sent", async () => {
    const perfetto = new FakeWindow();
    const page = new FakePage(perfetto);
    const { abort } = start(page);
    await wait(100);
    page.hear("PONG");
    await wait(0);
    abort.abort();
    expect(perfetto.closed).toBe(false);
  });

  it("says when the browser cannot send the trace", async () => {
    const perfetto = new FakeWindow();
    const page = new FakePage(perfetto);
    const { results } = start(page);
    await wait(100);
    perfetto.postMessage = () => {
      throw new DOMException("Data cannot be cloned, out of memory.", "DataCloneError");
    };
    page.hear("PONG");
    await wait(0);
    expect(messageOf(results)).toContain("out of memory");
  });
});
