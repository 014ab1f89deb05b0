import { signal } from "@preact/signals";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { slicesFrame, slicesHeader, type TestSlice } from "../../../test/slices";
import { SLICES_VIEW, sliceFrame } from "../../../test/timeline-slices";
import { type Result, success } from "../../base/result";
import { ns } from "../../base/units";
import { sharedOf } from "../../state/shared";
import { createSliceSource } from "../../state/slice-source";
import { createStore } from "../../state/store";
import type { Question, Reply } from "../../wire/questions";
import type { ReportContext } from "../common/context";
import { linksOf } from "./timeline-canvas";
import { createFinder } from "./timeline-finder";
import { createTimelineModel, typicalSpan } from "./timeline-model";
import { createTimelineModels } from "./timeline-models";
import { TimelineMoves } from "./timeline-moves";
import { describeSlice } from "./timeline-words";

const EXCERPT = { slices: 1_000, start_ns: 0, end_ns: 100_000, bucket_ns: 4_096 };
const VIEW = slicesHeader({ excerpt: EXCERPT });
/** A step, and 900 kernels that are one bar. */
const OVERVIEW: readonly TestSlice[] = [
  { lane: 0, start: 0, dur: 100_000, name: "Step 1", slice: 0 },
  { lane: 4, start: 500, dur: 3_000, name: "gemm", slice: 700, merged: 900 },
];
/** Two of the kernels, one of them alone. */
const WINDOW: readonly TestSlice[] = [
  { lane: 4, start: 500, dur: 80, name: "gemm", slice: 700 },
  { lane: 4, start: 600, dur: 90, name: "copy", slice: 701, merged: 20 },
];
/** The longest of the merged ones with its call and its op, in an order of their own. */
const AROUND: readonly TestSlice[] = [
  { lane: 1, start: 300, dur: 100, name: "aten::mm", slice: 40 },
  { lane: 2, start: 350, dur: 10, name: "cudaLaunchKernel", slice: 90 },
  { lane: 4, start: 640, dur: 70, name: "copy", slice: 701, source: 1, op: 0 },
  { lane: 4, start: 720, dur: 5, name: "fill", slice: 702 },
];

/** Answers at once, as the kernel would for these slices. */
class FakeKernel {
  readonly asked: Question[] = [];
  readonly replies: Partial<Record<Question["kind"], Reply>> = {
    window: {
      facts: { start_ns: 0, end_ns: 2_000, bucket_ns: 8, is_exact: false },
      frames: [slicesFrame(WINDOW)],
    },
    slice: { facts: {}, frames: [slicesFrame(AROUND)] },
  };

  ask = (question: Question): Promise<Result<Reply>> => {
    this.asked.push(question);
    const reply = this.replies[question.kind];
    return reply === undefined ? new Promise(() => {}) : Promise.resolve(success(reply));
  };
}

function setUp() {
  const abort = new AbortController();
  const kernel = new FakeKernel();
  const source = createSliceSource(VIEW, kernel.ask, abort.signal);
  const report = {
    source: { slices: () => source },
    titleOf: (name: string) => name,
  } as unknown as ReportContext;
  const store = createStore(
    "timeline",
    sharedOf(Math.random().toString(), abort.signal),
    abort.signal,
  );
  const models = createTimelineModels(report, VIEW, slicesFrame(OVERVIEW));
  const moves = new TimelineMoves(models, store.timeline(VIEW), store);
  const see = async (start: number, end: number) => {
    moves.show({ start: ns(start), end: ns(end) });
    moves.sees(100);
    await vi.advanceTimersByTimeAsync(0);
  };
  return { kernel, store, moves, see };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("a timeline that the page has only parts of", () => {
  it("shows the overview until its window is there", async () => {
    const { moves, see } = setUp();
    expect(moves.model).toBe(moves.overview);
    expect(describeSlice(moves.model, 1).facts[0]).toBe("the longest of 900 slices, together 3 µs");
    await see(500, 1_500);
    expect(moves.model.frame.rows).toBe(2);
    expect(moves.isComplete).toBe(true);
  });

  it("has the span and the steps of the whole recording in every window", async () => {
    const { moves, see } = setUp();
    await see(500, 1_500);
    expect(moves.model.whole).toEqual({ start: 0, end: 100_000 });
    expect(moves.model.steps.map(({ start, end }) => [start, end])).toEqual([[0, 100_000]]);
  });

  it("keeps the selection when the picture changes, though its rows are others", async () => {
    const { moves, store, see } = setUp();
    moves.select(moves.overview.sliceAt(1));
    expect([moves.state.row.value, store.selection.value?.name]).toEqual([700, "gemm"]);
    expect(moves.spanOf(700)).toEqual({ start: 500, end: 3_500 });
    await see(500, 1_500);
    // In the window it is a slice of its own.
    expect(moves.find(700)?.row).toBe(0);
    expect(moves.spanOf(700)).toEqual({ start: 500, end: 580 });
    expect(moves.placeOf(700)).toEqual({ lane: 4, depth: 0 });
    expect(moves.find(12)).toBeNull();
  });

  it("asks for what belongs to the selection, and shows it as it is", async () => {
    const { kernel, moves, see } = setUp();
    await see(500, 1_500);
    moves.select(701);
    expect(moves.isDetailed(701)).toBe(false);
    moves.askForDetail();
    await vi.advanceTimersByTimeAsync(0);
    expect(kernel.asked.at(-1)).toEqual({ kind: "slice", layer: "depth", slice: 701 });
    expect(moves.isDetailed(701)).toBe(true);
    const found = moves.find(701);
    expect(found?.row).toBe(2);
    expect(moves.spanOf(701)).toEqual({ start: 640, end: 710 });
    // Arrows join slices, whatever their rows are.
    expect(found === null ? [] : linksOf(found.model, found.row)).toEqual([{ from: 90, to: 701 }]);
  });

  it("goes by keys to neighbors that are not in the picture", async () => {
    const { moves, see } = setUp();
    await see(500, 1_500);
    moves.select(701);
    moves.step("next");
    // Nothing is known of its neighbors yet.
    expect(moves.state.row.value).toBe(701);
    moves.askForDetail();
    await vi.advanceTimersByTimeAsync(0);
    moves.step("next");
    expect(moves.state.row.value).toBe(702);
  });
});

describe("the search of such a timeline", () => {
  const found = (at: number) => ({
    facts: {
      ...{ count: 24, ns: 960, at, slice: 500 + at, start_ns: 50_000, dur_ns: 40 },
      ...{ name: "gemm", kind: "kernel" },
    },
    frames: [],
  });

  function search() {
    const made = setUp();
    made.kernel.replies.search = found(0);
    const query = signal("");
    const shown: number[] = [];
    const finder = createFinder(made.moves, query, (slice) => shown.push(slice));
    finder.follow();
    const settle = () => vi.advanceTimersByTimeAsync(0);
    return { ...made, query, shown, finder, settle };
  }

  it("counts in the kernel, and goes nowhere by itself", async () => {
    const { kernel, query, shown, finder, settle } = search();
    query.value = "gemm >1us";
    await settle();
    expect(kernel.asked.at(-1)).toMatchObject({ text: "gemm", least_ns: 1_000, most_ns: null });
    expect(finder.found.value).toEqual({ count: 24, ns: 960, at: -1 });
    expect(shown).toEqual([]);
  });

  it("goes from one match to the next, and back", async () => {
    const { kernel, query, shown, finder, settle } = search();
    query.value = "gemm";
    await settle();
    for (const [by, at] of [
      [1, 0],
      [1, 1],
      [-1, 0],
    ] as const) {
      kernel.replies.search = found(at);
      finder.step(by);
      await settle();
      expect(kernel.asked.at(-1)).toMatchObject({ at });
      expect(finder.found.value?.at).toBe(at);
    }
    expect(shown).toEqual([500, 501, 500]);
  });

  it("goes to the nearest match when another view asks for a name", async () => {
    const { kernel, query, shown, finder, settle } = search();
    query.value = "gemm";
    finder.goToNearest();
    await settle();
    expect(kernel.asked.at(-1)).toMatchObject({ at: null, start_ns: 0, end_ns: 100_000 });
    expect(shown).toEqual([500]);
  });

  it("says nothing of an answer to another query", async () => {
    const { query, finder, settle } = search();
    query.value = "gemm";
    await settle();
    query.value = "gem";
    expect(finder.found.value).toBeNull();
    query.value = "";
    await settle();
    expect(finder.found.value).toBeNull();
  });
});

describe("the step that a timeline shows first", () => {
  const slices = [300, 100, 200].map((dur, at) => ({
    lane: 0,
    start: 1_000 * at,
    dur,
    name: `Step ${at}`,
    kind: "step",
    count: at,
  }));
  const first = (typical_step: number | null) =>
    typicalSpan(createTimelineModel({ ...SLICES_VIEW, typical_step }, sliceFrame(slices))).start;

  it("is the typical one of those that count, and the median where that is not known", () => {
    expect([first(0), first(1), first(null), first(7)]).toEqual([0, 1_000, 2_000, 2_000]);
  });
});
