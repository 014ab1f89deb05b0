/** What the kernel answers about one timeline that is too long for the page. */

import { failure, type Result, success } from "../base/result";
import type { Frame } from "../wire/frame";
import type { SlicesHeader } from "../wire/header";
import {
  type FoundFacts,
  factsOf,
  foundFacts,
  type LaneSum,
  type Question,
  type RangeQuestion,
  type Reply,
  rangeFacts,
  type SearchFacts,
  type SearchQuestion,
  type SliceQuestion,
  searchFacts,
  windowFacts,
} from "../wire/questions";
import { Latest } from "./latest";
import { type LoadedWindow, Windows, type WindowWish } from "./windows";

/** How many slices match, and the one that was asked for. */
export interface SearchAnswer extends SearchFacts {
  readonly found: FoundFacts | null;
}

export interface SliceSource {
  readonly windows: Windows;
  readonly slice: Latest<SliceQuestion, Frame>;
  readonly search: Latest<SearchQuestion, SearchAnswer>;
  /** Why devices wait in the window. */
  readonly sums: Latest<RangeQuestion, readonly LaneSum[]>;
  /** Why they wait in the chosen range. */
  readonly range: Latest<RangeQuestion, readonly LaneSum[]>;
}

type Ask = (question: Question) => Promise<Result<Reply>>;

/** The source of a view; null for one that the page has whole. */
export function createSliceSource(
  { excerpt }: SlicesHeader,
  ask: Ask,
  abort: AbortSignal,
): SliceSource | null {
  if (excerpt === null) return null;
  const whole = { start: excerpt.start_ns, end: excerpt.end_ns };
  const asked =
    <Q extends Question, A>(read: (reply: Reply) => Result<A>) =>
    async (question: Q) => {
      const reply = await ask(question);
      return reply.ok ? read(reply.value) : reply;
    };
  return {
    windows: new Windows(whole, (wish) => askWindow(ask, wish), abort),
    slice: new Latest(asked(firstFrame), abort),
    search: new Latest(asked(readSearch), abort),
    sums: new Latest(asked(readRange), abort),
    range: new Latest(asked(readRange), abort),
  };
}

async function askWindow(ask: Ask, wish: WindowWish): Promise<Result<LoadedWindow>> {
  const { layer, start, end, pixels } = wish;
  const reply = await ask({ kind: "window", layer, start_ns: start, end_ns: end, pixels });
  if (!reply.ok) return reply;
  const facts = factsOf(reply.value, windowFacts);
  if (!facts.ok) return facts;
  const frame = firstFrame(reply.value);
  if (!frame.ok) return frame;
  return success({
    frame: frame.value,
    layer,
    start: facts.value.start_ns,
    end: facts.value.end_ns,
    bucket: facts.value.bucket_ns,
    isExact: facts.value.is_exact,
    perPixel: (end - start) / pixels,
  });
}

function firstFrame({ frames: [frame] }: Reply): Result<Frame> {
  return frame === undefined ? failure("The kernel sent a reply without data.") : success(frame);
}

function readSearch(reply: Reply): Result<SearchAnswer> {
  const facts = factsOf(reply, searchFacts);
  if (!facts.ok) return facts;
  const found = facts.value.count === 0 ? success(null) : factsOf(reply, foundFacts);
  return found.ok ? success({ ...facts.value, found: found.value }) : found;
}

function readRange(reply: Reply): Result<readonly LaneSum[]> {
  const facts = factsOf(reply, rangeFacts);
  return facts.ok ? success(facts.value.sums) : facts;
}
