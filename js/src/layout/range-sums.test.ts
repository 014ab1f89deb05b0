import { describe, expect, it } from "vitest";
import { eachIn, selfByKey, sumByKey } from "./range-sums";
import { buildSliceIndex } from "./slice-index";

type Slice = readonly [lane: number, depth: number, start: number, dur: number, key: number];

function indexOf(slices: readonly Slice[], lanes = 2) {
  const column = (at: 0 | 1 | 2 | 3) => Float64Array.from(slices, (slice) => slice[at]);
  const columns = { lane: column(0), depth: column(1), start_ns: column(2), dur_ns: column(3) };
  return buildSliceIndex(columns, lanes);
}

const keysOf = (slices: readonly Slice[]) => (row: number) => slices[row]?.[4] ?? -1;

// Work on two streams.
const STREAMS: readonly Slice[] = [
  [0, 0, 0, 100, 7],
  [0, 0, 150, 50, 8],
  [0, 0, 200, 40, 7],
  [1, 0, 90, 20, 8],
  [1, 0, 300, 60, -1],
];
const streams = indexOf(STREAMS);

function visits(start: number, end: number, slices = STREAMS) {
  const index = indexOf(slices);
  const found: (readonly number[])[] = [];
  for (const row of index.rows) eachIn(index, row, start, end, (...each) => found.push(each));
  return found;
}

describe("eachIn", () => {
  it("visits the slices of a span with their part of it", () => {
    // Row of the frame, time in the span, position.
    expect(visits(50, 205)).toEqual([
      [0, 50, 0],
      [1, 50, 1],
      [2, 5, 2],
      [3, 20, 3],
    ]);
  });

  it("passes over slices that only touch the span", () => {
    expect(visits(100, 150).map(([row]) => row)).toEqual([3]);
    expect(visits(110, 150)).toEqual([]);
  });

  it("gives a slice that is longer than the span all of it", () => {
    expect(visits(20, 30)).toEqual([[0, 10, 0]]);
  });

  it("visits instants inside the span", () => {
    expect(visits(0, 10, [[0, 0, 5, 0, 1]])).toEqual([[0, 0, 0]]);
    expect(visits(6, 10, [[0, 0, 5, 0, 1]])).toEqual([]);
  });

  it("passes over slices that ended inside an overlapping one", () => {
    const overlapping: readonly Slice[] = [
      [0, 0, 0, 100, 1],
      [0, 0, 10, 20, 1],
      [0, 0, 40, 30, 1],
    ];
    expect(visits(50, 60, overlapping).map(([row]) => row)).toEqual([0, 2]);
  });
});

describe("sumByKey", () => {
  it("sums slices of several rows up by key, the largest first", () => {
    expect(sumByKey(streams, streams.rows, 0, 1000, keysOf(STREAMS))).toEqual([
      { key: 7, count: 2, ns: 140 },
      { key: 8, count: 2, ns: 70 },
      { key: -1, count: 1, ns: 60 },
    ]);
  });

  it("cuts slices at the edges of the span, and counts those as whole calls", () => {
    expect(sumByKey(streams, streams.rows, 95, 155, keysOf(STREAMS))).toEqual([
      // 15 of the 20 at 90, and 5 of the 50 at 150.
      { key: 8, count: 2, ns: 20 },
      { key: 7, count: 1, ns: 5 },
    ]);
  });

  it("sums only the given rows", () => {
    const first = streams.rows.slice(0, 1);
    expect(sumByKey(streams, first, 0, 1000, keysOf(STREAMS)).map(({ ns }) => ns)).toEqual([
      140, 50,
    ]);
  });

  it("orders equal sums by key", () => {
    const slices: readonly Slice[] = [
      [0, 0, 0, 10, 9],
      [0, 0, 20, 10, 4],
    ];
    const index = indexOf(slices);
    expect(sumByKey(index, index.rows, 0, 100, keysOf(slices)).map(({ key }) => key)).toEqual([
      4, 9,
    ]);
  });
});

describe("selfByKey", () => {
  //  lane 0   0 ┬ 1 ──────────── 100   150 ┬ 1 ───── 200
  //             ├ 2 10–40                  └ 2 160–200
  //             │ └ 3 20–30
  //             └ 2 50–70
  //  lane 1   1 0–1000
  const OPS: readonly Slice[] = [
    [0, 0, 0, 100, 1],
    [0, 1, 10, 30, 2],
    [0, 2, 20, 10, 3],
    [0, 1, 50, 20, 2],
    [0, 0, 150, 50, 1],
    [0, 1, 160, 40, 2],
    [1, 0, 0, 1000, 1],
  ];
  const index = indexOf(OPS);
  const sums = (start: number, end: number, lanes: readonly number[] = [0]) =>
    selfByKey(index, lanes, start, end, keysOf(OPS));

  it("takes from an op what those inside it take", () => {
    expect(sums(0, 1000)).toEqual([
      // 30 - 10, 20 and 40.
      { key: 2, count: 3, ns: 80 },
      // 100 - 30 - 20, and 50 - 40.
      { key: 1, count: 2, ns: 60 },
      { key: 3, count: 1, ns: 10 },
    ]);
  });

  it("cuts ops and those inside them at the edges of the span", () => {
    expect(sums(25, 60)).toEqual([
      // 10 to 40 has 15 in the span, less 5 of 20 to 30; and 50 to 70 has 10.
      { key: 2, count: 2, ns: 20 },
      // 35, less 15 and 10.
      { key: 1, count: 1, ns: 10 },
      { key: 3, count: 1, ns: 5 },
    ]);
  });

  it("finds the op around one that begins in a later op", () => {
    expect(sums(120, 1000)).toEqual([
      { key: 2, count: 1, ns: 40 },
      { key: 1, count: 1, ns: 10 },
    ]);
  });

  it("adds up several lanes, and knows nothing of an empty one", () => {
    expect(sums(0, 1000, [0, 1])[0]).toEqual({ key: 1, count: 3, ns: 1060 });
    expect(sums(0, 1000, [9])).toEqual([]);
  });

  it("keeps the own time of an op that calls itself", () => {
    const recursive: readonly Slice[] = [
      [0, 0, 0, 100, 1],
      [0, 1, 20, 50, 1],
    ];
    const own = selfByKey(indexOf(recursive), [0], 0, 100, keysOf(recursive));
    // 50 of the outer one and 50 of the inner one.
    expect(own).toEqual([{ key: 1, count: 2, ns: 100 }]);
  });
});
