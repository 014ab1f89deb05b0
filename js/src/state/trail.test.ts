import { batch, type Signal, signal } from "@preact/signals";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createTrail, type Trail } from "./trail";

// Where a dragged range rests for this long is a stop.
const REST_MS = 250;

let abort: AbortController;
let view: Signal<string>;
let range: Signal<number | null>;
let trail: Trail;

beforeEach(() => {
  vi.useFakeTimers();
  abort = new AbortController();
  view = signal("overview");
  range = signal<number | null>(null);
  trail = createTrail([view, range] as readonly Signal<unknown>[], range, abort.signal);
  vi.advanceTimersByTime(0);
});

afterEach(() => {
  abort.abort();
  vi.useRealTimers();
});

function show(next: string): void {
  view.value = next;
  vi.advanceTimersByTime(0);
}

function drag(to: number, restMs = REST_MS): void {
  range.value = to;
  vi.advanceTimersByTime(restMs);
}

const shown = () => [view.value, range.value];
const ways = () => [trail.canGoBack.value, trail.canGoForward.value];

describe("going back and forward", () => {
  it("has nowhere to go at first", () => {
    expect(ways()).toEqual([false, false]);
    trail.go(-1);
    trail.go(1);
    expect(shown()).toEqual(["overview", null]);
  });

  it("goes back to what was shown, and forward again", () => {
    show("ops");
    show("flame");
    expect(ways()).toEqual([true, false]);
    trail.go(-1);
    expect([shown(), ways()]).toEqual([
      ["ops", null],
      [true, true],
    ]);
    trail.go(-1);
    expect([shown(), ways()]).toEqual([
      ["overview", null],
      [false, true],
    ]);
    trail.go(1);
    trail.go(1);
    expect([shown(), ways()]).toEqual([
      ["flame", null],
      [true, false],
    ]);
  });

  it("remembers no stop for going back itself", () => {
    show("ops");
    trail.go(-1);
    vi.advanceTimersByTime(REST_MS);
    expect([shown(), ways()]).toEqual([
      ["overview", null],
      [false, true],
    ]);
  });

  it("stays where it is beyond the first and the last stop", () => {
    show("ops");
    trail.go(1);
    expect(shown()).toEqual(["ops", null]);
    trail.go(-2);
    expect([shown(), ways()]).toEqual([
      ["ops", null],
      [true, false],
    ]);
  });

  it("forgets what was ahead when something else is shown", () => {
    show("ops");
    show("flame");
    trail.go(-1);
    vi.advanceTimersByTime(0);
    show("memory");
    expect(ways()).toEqual([true, false]);
    trail.go(-1);
    expect(shown()).toEqual(["ops", null]);
  });
});

describe("a stop", () => {
  it("is one for changes in one go", () => {
    batch(() => {
      view.value = "timeline";
      range.value = 5;
    });
    vi.advanceTimersByTime(0);
    trail.go(-1);
    expect([shown(), ways()]).toEqual([
      ["overview", null],
      [false, true],
    ]);
  });

  it("is one for changes that follow each other at once", () => {
    view.value = "ops";
    show("flame");
    trail.go(-1);
    expect(shown()).toEqual(["overview", null]);
  });

  it("is none when the same is shown again", () => {
    view.value = "ops";
    show("overview");
    expect(ways()).toEqual([false, false]);
  });

  it("brings all values back together", () => {
    show("timeline");
    drag(5);
    batch(() => {
      view.value = "ops";
      range.value = null;
    });
    vi.advanceTimersByTime(0);
    trail.go(-1);
    expect(shown()).toEqual(["timeline", 5]);
  });
});

describe("a range that is dragged", () => {
  it("is a stop only where it rests", () => {
    for (const each of [1, 2, 3]) drag(each, REST_MS - 1);
    expect(ways()).toEqual([false, false]);
    vi.advanceTimersByTime(1);
    expect(ways()).toEqual([true, false]);
    trail.go(-1);
    expect(shown()).toEqual(["overview", null]);
    trail.go(1);
    expect(shown()).toEqual(["overview", 3]);
  });

  it("is two stops when it rests in between", () => {
    drag(1);
    drag(2);
    trail.go(-1);
    expect(shown()).toEqual(["overview", 1]);
  });

  it("is a stop when something else happens before it came to rest", () => {
    drag(7, 10);
    show("ops");
    trail.go(-1);
    expect(shown()).toEqual(["overview", 7]);
    trail.go(-1);
    expect(shown()).toEqual(["overview", null]);
  });
});

it("keeps the last 60 stops", () => {
  // With the first one 61, of which the first is forgotten.
  for (let each = 1; each <= 60; each += 1) show(`view ${each}`);
  for (let each = 0; each < 59; each += 1) trail.go(-1);
  expect([shown(), ways()]).toEqual([
    ["view 1", null],
    [false, true],
  ]);
});

it("remembers nothing after the report is gone", () => {
  view.value = "ops";
  abort.abort();
  vi.advanceTimersByTime(REST_MS);
  show("flame");
  expect(ways()).toEqual([false, false]);
});
