/** Hands a trace over to the Perfetto UI, which runs in a window of its own, by messages. */

import { failure, messageOf, type Result, success } from "../base/result";

/** The only address that a report ever opens, and only on a click. */
export const PERFETTO = "https://ui.perfetto.dev";
const PING_EVERY_MS = 100;
// Perfetto is a program of some megabytes, which a slow network takes a while to load.
const ANSWER_WITHIN_MS = 30_000;

const INSTEAD = "Or choose “Chrome trace (.json.gz)”, and open that file in Perfetto.";
const BLOCKED = `The browser blocked the window of ui.perfetto.dev. Allow pop-ups for this page and try again. ${INSTEAD}`;
const NO_ANSWER = `ui.perfetto.dev did not answer within ${ANSWER_WITHIN_MS / 1000} s. Check the network. ${INSTEAD}`;
// A page that its server isolates from other origins sees the window as closed.
const LOST = `The Perfetto window was closed, or this page cannot reach it. ${INSTEAD}`;
const ABORTED = "The report was removed.";

/** The window that a page opened. */
export interface OpenedWindow {
  readonly closed: boolean;
  readonly location: { readonly href: string };
  postMessage(message: unknown, targetOrigin: string, transfer?: Transferable[]): void;
  close(): void;
}

/** What a page can do: open a window, and hear messages. */
export interface OpeningPage {
  open(url: string): OpenedWindow | null;
  addEventListener(
    type: "message",
    listener: (event: MessageEvent<unknown>) => void,
    options: { readonly signal: AbortSignal },
  ): void;
}

export interface HandOver {
  readonly title: string;
  readonly fileName: string;
  /** Returns the trace; called after the window has been opened. */
  readonly pull: () => Promise<Result<Uint8Array>>;
  /** Aborted when the report is removed. */
  readonly signal: AbortSignal;
}

/** Opens Perfetto and gives it a trace. Browsers allow the window only while a click is handled. */
export async function handOver(page: OpeningPage, trace: HandOver): Promise<Result<null>> {
  const opened = page.open(PERFETTO);
  if (opened === null) return failure(BLOCKED);
  const over = new AbortController();
  const giveUp = () => {
    opened.close();
    over.abort();
  };
  trace.signal.addEventListener("abort", giveUp, { signal: over.signal });
  const pulled = trace.pull().then((bytes) => {
    // Without a trace the window is of no use. One that does not answer stays, because it may say why.
    if (!bytes.ok) opened.close();
    return bytes;
  });
  const answered = waitForAnswer(page, opened, over.signal);
  const failed = await firstFailure([pulled, answered]);
  over.abort();
  const bytes = failed ?? (await pulled);
  return bytes.ok ? post(opened, bytes.value, trace) : bytes;
}

type Failure = Extract<Result<never>, { readonly ok: false }>;

/** The first failure as soon as there is one, null when there is none. */
function firstFailure(results: readonly Promise<Result<unknown>>[]): Promise<Failure | null> {
  return new Promise((resolve) => {
    for (const result of results) {
      void result.then((each) => {
        if (!each.ok) resolve(each);
      });
    }
    void Promise.all(results).then(() => resolve(null));
  });
}

/** Asks the window until it answers; only Perfetto's own answer counts. */
function waitForAnswer(
  page: OpeningPage,
  opened: OpenedWindow,
  signal: AbortSignal,
): Promise<Result<null>> {
  return new Promise((resolve) => {
    const over = new AbortController();
    const finish = (result: Result<null>) => {
      clearInterval(pings);
      clearTimeout(timer);
      over.abort();
      resolve(result);
    };
    const ask = () => {
      if (opened.closed) finish(failure(LOST));
      else if (!isEmpty(opened)) opened.postMessage("PING", PERFETTO);
    };
    const receive = ({ data, origin, source }: MessageEvent<unknown>) => {
      const isPerfetto = source === opened && origin === PERFETTO;
      if (isPerfetto && data === "PONG") finish(success(null));
    };
    const pings = setInterval(ask, PING_EVERY_MS);
    const timer = setTimeout(() => finish(failure(NO_ANSWER)), ANSWER_WITHIN_MS);
    page.addEventListener("message", receive, { signal: over.signal });
    signal.addEventListener("abort", () => finish(failure(ABORTED)), { signal: over.signal });
  });
}

/** Whether the window still shows the blank page that it begins with, to which no message can be sent. */
function isEmpty(opened: OpenedWindow): boolean {
  try {
    return opened.location.href === "about:blank";
  } catch {
    // The address of a page of another origin cannot be read.
    return false;
  }
}

function post(
  opened: OpenedWindow,
  bytes: Uint8Array,
  { title, fileName }: HandOver,
): Result<null> {
  if (opened.closed) return failure(LOST);
  const buffer = bytes.slice().buffer;
  try {
    opened.postMessage({ perfetto: { buffer, title, fileName } }, PERFETTO, [buffer]);
  } catch (error) {
    return failure(`The trace could not be sent to Perfetto: ${messageOf(error)}. ${INSTEAD}`);
  }
  return success(null);
}
