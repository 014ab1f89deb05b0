/** One request to the kernel and its reply. */

import { failure, type Result } from "../base/result";
import type { Connection } from "./connection";
import { type Host, listenToHost } from "./host";

export interface RequestOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly connection?: Connection;
  /** Called after `timeoutMs` instead of giving up: a busy kernel answers when it is idle. */
  readonly onSlow?: (message: string) => void;
}

type Message = Readonly<Record<string, unknown>>;
/** Reads a reply; null for other messages. */
type Reader<T> = (message: Message, buffers: readonly unknown[]) => Result<T> | null;

const TIMEOUT_MS = 10_000;
const ABORTED = "The request was cancelled.";
const NO_KERNEL = "No kernel is connected to this page. Run the cell again to load this view.";
const NO_ANSWER = "The kernel did not reply. It may be busy or stopped; try again when it is idle.";
const SLOW = "The kernel has not replied yet. If it is busy, this view appears when it is idle.";
const LOST =
  "The kernel was restarted or has stopped, so this view cannot be loaded. Run the cell again.";

let lastId = 0;

/** Ids are unique on the page: several views of one report share one channel. */
function nextId(): string {
  lastId += 1;
  return `tp-${lastId}`;
}

/** Whether a kernel can answer; false in a saved HTML file. */
export function canAnswer(host: Host): boolean {
  return typeof host.send === "function";
}

/** Sends a message with an id. The first of reply, timeout, loss of the kernel and abort ends it. */
export function request<T>(
  host: Host,
  content: object,
  read: Reader<T>,
  { timeoutMs = TIMEOUT_MS, signal, connection, onSlow }: RequestOptions = {},
): Promise<Result<T>> {
  if (!canAnswer(host)) return Promise.resolve(failure(NO_KERNEL));
  if (connection?.isLost()) return Promise.resolve(failure(LOST));
  if (signal?.aborted) return Promise.resolve(failure(ABORTED));
  return new Promise((resolve) => {
    const id = nextId();
    const over = new AbortController();
    const finish = (result: Result<T>) => {
      clearTimeout(timer);
      over.abort();
      resolve(result);
    };
    const late = () => (onSlow ? onSlow(SLOW) : finish(failure(NO_ANSWER)));
    const timer = setTimeout(late, timeoutMs);
    connection?.onLoss(() => finish(failure(LOST)), over.signal);
    const abort = () => finish(failure(ABORTED));
    signal?.addEventListener("abort", abort, { once: true, signal: over.signal });
    const receive = (message: unknown, buffers: unknown) => {
      const result = readReply(message, buffers, id, read);
      if (result !== null) finish(result);
    };
    listenToHost(host, "msg:custom", receive, over.signal);
    try {
      host.send?.({ ...content, id });
    } catch {
      // The channel of a kernel that was restarted is closed.
      finish(failure(LOST));
    }
  });
}

/** The reply to request `id`, or null for other messages. */
function readReply<T>(
  content: unknown,
  buffers: unknown,
  id: string,
  read: Reader<T>,
): Result<T> | null {
  if (typeof content !== "object" || content === null) return null;
  const message = content as Message;
  if (message.id !== id) return null;
  if (message.kind === "error") return failure(String(message.message ?? NO_ANSWER));
  return read(message, Array.isArray(buffers) ? buffers : []);
}

/** The bytes of a buffer; null when it is none. */
export function bytesOf(buffer: unknown): Uint8Array | null {
  if (buffer instanceof ArrayBuffer) return new Uint8Array(buffer);
  if (!ArrayBuffer.isView(buffer)) return null;
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}
