/** Requests data from the kernel that is not embedded in the page. */

import { failure, type Result, success } from "../base/result";
import type { Host } from "./host";
import { bytesOf, type RequestOptions, request } from "./request";

/** A chunk, or the error message of the kernel. */
interface Answer {
  readonly chunks: number;
  readonly bytes: Uint8Array;
}

/** A part of the time. */
export interface Part {
  readonly start_ns: number;
  readonly end_ns: number;
}

/** All bytes of a view, or a part of it, or of an export, pulled chunk by chunk. */
export async function pull(
  host: Host,
  name: string,
  options: RequestOptions = {},
  part?: Part,
): Promise<Result<Uint8Array>> {
  const parts: Uint8Array[] = [];
  for (let chunk = 0, chunks = 1; chunk < chunks; chunk += 1) {
    const answer = await request(
      host,
      { kind: "get", name, chunk, ...part },
      (message, buffers) => readChunk(message, buffers, chunk),
      options,
    );
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

/** The chunk in a reply, or null for other messages. */
function readChunk(
  message: Readonly<Record<string, unknown>>,
  buffers: readonly unknown[],
  chunk: number,
): Result<Answer> | null {
  if (message.kind !== "chunk" || message.chunk !== chunk) return null;
  const bytes = bytesOf(buffers[0]);
  if (bytes === null) return failure("The kernel sent a reply without data.");
  return success({ chunks: Number(message.chunks), bytes });
}
