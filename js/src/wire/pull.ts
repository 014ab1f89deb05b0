/** Requests data from the kernel that is not embedded in the page. */

import { failure, type Result, success } from "../base/result";
import { type Host, listenToHost } from "./host";

/** A chunk, or the error message of the kernel. */
interface Answer {
  readonly chunks: number;
  readonly bytes: Uint8Array;
}

export interface PullOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Whether it is known that no kernel would answer. */
  readonly isLost?: () => boolean;
  /** Called after `timeoutMs` instead of giving up: a busy kernel answers when it is idle. */
  readonly onSlow?: (message: string) => void;
}

const TIMEOUT_MS = 10_000;
const ABORTED = "The request was cancelled.";
const NO_KERNEL = "No kernel is connected to this page. Run the cell again to load this view.";
const NO_ANSWER = "The kernel did not reply. It may be busy or stopped; try again when it is idle.";
const SLOW = "The kernel has not replied yet. If it is busy, this view appears when it is idle.";
const LOST =
  "The kernel was restarted or has stopped, so this view cannot be loaded. Run the cell again.";

// What ipywidgets tells when the kernel behind a widget goes; a request to it is never answered.
const COMM_CHANGED = "comm_live_update";

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

/** All bytes of a view or an export, pulled chunk by chunk. */
export async function pull(
  host: Host,
  name: string,
  options: PullOptions = {},
): Promise<Result<Uint8Array>> {
  const parts: Uint8Array[] = [];
  for (let chunk = 0, chunks = 1; chunk < chunks; chunk += 1) {
    const answer = await requestChunk(host, name, chunk, options);
    if (!answer.ok) return answer;
    chunks = answer.value.chunks;
    parts.push(answer.value.bytes);
  }
  return success(joined(parts));
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}

/** One request and its reply. The first of reply, timeout, loss of the kernel and abort ends it. */
function requestChunk(
  host: Host,
  name: string,
  chunk: number,
  { timeoutMs = TIMEOUT_MS, signal, isLost, onSlow }: PullOptions,
): Promise<Result<Answer>> {
  if (!canAnswer(host)) return Promise.resolve(failure(NO_KERNEL));
  if (isLost?.()) return Promise.resolve(failure(LOST));
  if (signal?.aborted) return Promise.resolve(failure(ABORTED));
  return new Promise((resolve) => {
    const id = nextId();
    const over = new AbortController();
    const finish = (result: Result<Answer>) => {
      clearTimeout(timer);
      over.abort();
      resolve(result);
    };
    const late = () => (onSlow ? onSlow(SLOW) : finish(failure(NO_ANSWER)));
    const timer = setTimeout(late, timeoutMs);
    listenToHost(host, COMM_CHANGED, () => finish(failure(LOST)), over.signal);
    const abort = () => finish(failure(ABORTED));
    signal?.addEventListener("abort", abort, { once: true, signal: over.signal });
    const receive = (content: unknown, buffers: unknown) => {
      const result = readAnswer(content, buffers, id, chunk);
      if (result !== null) finish(result);
    };
    listenToHost(host, "msg:custom", receive, over.signal);
    try {
      host.send?.({ kind: "get", id, name, chunk });
    } catch {
      // The channel of a kernel that was restarted is closed.
      finish(failure(LOST));
    }
  });
}

/** The reply to request `id`, or null for other messages. */
function readAnswer(
  content: unknown,
  buffers: unknown,
  id: string,
  chunk: number,
): Result<Answer> | null {
  if (typeof content !== "object" || content === null) return null;
  const message = content as Partial<
    Record<"kind" | "id" | "chunk" | "chunks" | "message", unknown>
  >;
  if (message.id !== id) return null;
  if (message.kind === "error") return failure(String(message.message ?? NO_ANSWER));
  if (message.kind !== "chunk" || message.chunk !== chunk) return null;
  const buffer = Array.isArray(buffers) ? bytesOf(buffers[0]) : null;
  if (buffer === null) return failure("The kernel sent a reply without data.");
  return success({ chunks: Number(message.chunks), bytes: buffer });
}

function bytesOf(buffer: unknown): Uint8Array | null {
  if (buffer instanceof ArrayBuffer) return new Uint8Array(buffer);
  if (!ArrayBuffer.isView(buffer)) return null;
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}
