/** What the page asks about a timeline that is too long for it. Python checks and answers it in `render/questions.py`. */

import { failure, messageOf, type Result, success } from "../base/result";
import { type Check, type Checked, flag, listOf, number, record, text } from "./check";
import { decodeFrame } from "./decode";
import type { Frame } from "./frame";
import type { Host } from "./host";
import { bytesOf, type RequestOptions, request } from "./request";

/** What does a part of the recording look like on so many pixels? */
export interface WindowQuestion {
  readonly kind: "window";
  readonly layer: string;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly pixels: number;
}

/** What belongs to a slice? */
export interface SliceQuestion {
  readonly kind: "slice";
  readonly layer: string;
  readonly slice: number;
}

/** How many slices match, and which is the one at a place among them, or the first in a part of the recording? */
export interface SearchQuestion {
  readonly kind: "search";
  readonly layer: string;
  readonly text: string;
  readonly is_wait: boolean;
  readonly least_ns: number;
  readonly most_ns: number | null;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly at: number | null;
}

/** Why do devices wait in a range, and how long do they work? */
export interface RangeQuestion {
  readonly kind: "range";
  readonly start_ns: number;
  readonly end_ns: number;
}

export type Question = WindowQuestion | SliceQuestion | SearchQuestion | RangeQuestion;

export interface Reply {
  readonly facts: unknown;
  readonly frames: readonly Frame[];
}

/** Asks about the timeline of a view. */
export function ask(
  host: Host,
  view: string,
  question: Question,
  options: RequestOptions,
): Promise<Result<Reply>> {
  return request(host, { ...question, view }, readAnswer, options);
}

function readAnswer(
  message: Readonly<Record<string, unknown>>,
  buffers: readonly unknown[],
): Result<Reply> | null {
  if (message.kind !== "answer") return null;
  const frames: Frame[] = [];
  for (const buffer of buffers) {
    const bytes = bytesOf(buffer);
    if (bytes === null) return failure("The kernel sent a reply without data.");
    // Columns need an aligned start, which buffers of a message need not have.
    const frame = decodeFrame(bytes.slice());
    if (!frame.ok) return frame;
    frames.push(frame.value);
  }
  return success({ facts: message.facts, frames });
}

export const windowFacts = record({
  start_ns: number,
  end_ns: number,
  /** Slices shorter than this are merged. */
  bucket_ns: number,
  /** Whether none are. */
  is_exact: flag,
});

export const searchFacts = record({ count: number, ns: number, at: number });
/** The slice that a search goes to. */
export const foundFacts = record({
  at: number,
  slice: number,
  start_ns: number,
  dur_ns: number,
  name: text,
  kind: text,
});

/**
 * Time on the lane of a device: with a cause, in which it waits, and in how many gaps; without one, in which it works.
 * `gaps` is how many gaps it has whatever their causes.
 */
const sum = record({ lane: number, cause: text, count: number, ns: number, gaps: number });
export const rangeFacts = record({ sums: listOf(sum) });

export type LaneSum = Checked<typeof sum>;
export type SearchFacts = Checked<typeof searchFacts>;
export type FoundFacts = Checked<typeof foundFacts>;

/** The facts of a reply, or what is wrong with them. */
export function factsOf<T>(reply: Reply, check: Check<T>): Result<T> {
  try {
    return success(check(reply.facts, ""));
  } catch (error) {
    return failure(`The reply of the kernel cannot be read: ${messageOf(error)}`);
  }
}
