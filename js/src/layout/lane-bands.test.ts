import { describe, expect, it } from "vitest";
import { sliceLane } from "../../test/slices";
import type { SliceLane } from "../wire/header";
import { bandAt, FOLDED_PX, heightOfBands, keepInSight, laneBands, ROW_PX } from "./lane-bands";
import { buildSliceIndex } from "./slice-index";

const lane = (kind: SliceLane["kind"], group: string, is_folded = false): SliceLane =>
  sliceLane(kind, kind, group, { is_folded });

const LANES: readonly SliceLane[] = [
  lane("steps", ""),
  lane("thread", "main"),
  lane("calls", "main"),
  lane("thread", "idle"),
  lane("waits", "Device 0"),
  lane("stream", "Device 0"),
  lane("queue", "Device 0"),
];

type Slice = readonly [lane: number, depth: number, start: number];

// The thread "idle" has no slices, nor has the lane of waits. Every slice takes 10.
const SLICES: readonly Slice[] = [
  [0, 0, 0],
  [1, 0, 0],
  [1, 1, 0],
  [1, 2, 0],
  [2, 0, 0],
  [5, 0, 100],
  [6, 0, 100],
];

function bandsOf(
  { start = 0, end = 1000, toggled = [] as readonly number[] } = {},
  lanes = LANES,
  slices = SLICES,
) {
  const column = (at: 0 | 1 | 2) => Float64Array.from(slices, (slice) => slice[at]);
  const columns = {
    lane: column(0),
    depth: column(1),
    start_ns: column(2),
    dur_ns: new Float64Array(slices.length).fill(10),
  };
  const index = buildSliceIndex(columns, lanes.length);
  return laneBands({ lanes, index, start, end, toggled: new Set(toggled) });
}

const places = (bands: ReturnType<typeof bandsOf>) =>
  bands.map(({ lane: number, top, height }) => [number, top, height]);

describe("laneBands", () => {
  it("stands lanes one below the other, groups apart", () => {
    expect(places(bandsOf())).toEqual([
      // Three levels of 20 px; then 4 px of gap.
      [1, 4, 60],
      [2, 68, 14],
      // 82 + 4 of gap + 10 between groups.
      [4, 96, 34],
      [5, 134, 30],
      [6, 168, 22],
    ]);
  });

  it("leaves out the steps, which the axis shows, and lanes without slices", () => {
    expect(bandsOf().map((band) => band.lane)).not.toContain(0);
    expect(bandsOf().map((band) => band.lane)).not.toContain(3);
  });

  it("keeps the waits of a device that never waits", () => {
    expect(bandsOf().find((band) => band.lane === 4)).toMatchObject({
      isFolded: false,
      isEmpty: false,
    });
  });

  it("marks the first lane of each group", () => {
    expect(bandsOf().map(({ isFirst }) => isFirst)).toEqual([true, false, true, false, false]);
  });

  it("folds lanes that have nothing in the window to one line", () => {
    // Only the device works from 100 to 110; the calls of the thread are left out.
    const bands = bandsOf({ start: 50, end: 120 });
    expect(bands[0]).toMatchObject({ lane: 1, height: FOLDED_PX, isFolded: true, isEmpty: true });
    expect(bands.map((band) => band.lane)).toEqual([1, 4, 5, 6]);
  });

  it("unfolds a lane as soon as a slice reaches into the window", () => {
    const isEmptyIn = (start: number, end: number) =>
      bandsOf({ start, end }).find((band) => band.lane === 5)?.isEmpty;
    expect([isEmptyIn(0, 100), isEmptyIn(0, 101)]).toEqual([true, false]);
    expect([isEmptyIn(110, 200), isEmptyIn(109, 200)]).toEqual([true, false]);
  });

  it("folds lanes that were toggled, which are not empty for that", () => {
    const [thread, , waits] = bandsOf({ toggled: [1, 4] });
    expect(thread).toMatchObject({ lane: 1, height: FOLDED_PX, isFolded: true, isEmpty: false });
    expect(waits).toMatchObject({ lane: 4, height: FOLDED_PX, isFolded: true });
  });

  it("moves what is below a folded lane up", () => {
    // The thread is 40 px lower than with three levels.
    expect(places(bandsOf({ toggled: [1] })).map(([, top]) => top)).toEqual([4, 28, 56, 94, 128]);
  });

  it("gives annotations a line for each level, as threads", () => {
    const lanes = [lane("annotations", "Device 0")];
    const slices: readonly Slice[] = [
      [0, 0, 0],
      [0, 1, 0],
    ];
    expect(bandsOf({}, lanes, slices)).toMatchObject([{ height: 40, rowPx: ROW_PX }]);
  });

  it("keeps a stream as high as it is, whatever nests in it", () => {
    const lanes = [lane("stream", "Device 0")];
    const slices: readonly Slice[] = [
      [0, 0, 0],
      [0, 1, 0],
    ];
    expect(bandsOf({}, lanes, slices)).toMatchObject([{ height: 30 }]);
  });
});

describe("the counters of a device", () => {
  const withCounters = (isFolded: boolean) => [
    lane("stream", "Device 0"),
    lane("counters", "Device 0", isFolded),
    lane("counter", "Device 0"),
    lane("counter", "Device 0"),
    lane("stream", "Device 1"),
  ];
  const slices: readonly Slice[] = [
    [0, 0, 0],
    [2, 0, 0],
    [3, 0, 0],
    [4, 0, 0],
  ];

  it("stand below their head, which has no slices", () => {
    expect(places(bandsOf({}, withCounters(false), slices))).toEqual([
      [0, 4, 30],
      // 34 + 4 of gap.
      [1, 38, 20],
      [2, 62, 30],
      [3, 96, 30],
      [4, 140, 30],
    ]);
  });

  it("are left out where their head is folded, at first or by hand", () => {
    const folded = [
      [0, 4, 30],
      [1, 38, 20],
      // 58 + 4 of gap + 10 between groups.
      [4, 72, 30],
    ];
    expect(places(bandsOf({}, withCounters(true), slices))).toEqual(folded);
    expect(places(bandsOf({ toggled: [1] }, withCounters(false), slices))).toEqual(folded);
  });

  it("come back where a head that is folded at first is unfolded by hand", () => {
    const bands = bandsOf({ toggled: [1] }, withCounters(true), slices);
    expect(bands.map((band) => band.lane)).toEqual([0, 1, 2, 3, 4]);
    expect(bands[1]).toMatchObject({ isFolded: false, isEmpty: false });
  });

  it("fold one by one to a line", () => {
    const bands = bandsOf({ toggled: [2] }, withCounters(false), slices);
    expect(bands[2]).toMatchObject({ lane: 2, height: FOLDED_PX, isFolded: true });
    expect(bands[3]).toMatchObject({ lane: 3, height: 30, isFolded: false });
  });

  it("are no part of a picture of threads", () => {
    const column = (at: 0 | 1 | 2) => Float64Array.from(slices, (slice) => slice[at]);
    const columns = { lane: column(0), depth: column(1), start_ns: column(2), dur_ns: column(1) };
    const lanes = withCounters(false);
    const index = buildSliceIndex(columns, lanes.length);
    const all = { lanes, index, start: 0, end: 1000, toggled: new Set<number>() };
    expect(laneBands({ ...all, isOnlyThreads: true })).toEqual([]);
  });
});

describe("keepInSight", () => {
  // The waits of the device are at 96 and 34 px high.
  const keptIn = (top: number, height: number) =>
    keepInSight(bandsOf(), 4, { top, height }).find(({ isKept }) => isKept);

  it("keeps a lane at the lower edge of a window that ends above it", () => {
    expect(keptIn(0, 130)).toMatchObject({ lane: 4, top: 92, height: 34 });
    expect(keptIn(3, 130)).toMatchObject({ lane: 4, top: 95 });
  });

  it("leaves a lane where it is in a window that shows it", () => {
    expect(keptIn(0, 134)).toBeUndefined();
    expect(keptIn(4, 130)).toBeUndefined();
  });

  it("leaves the window to the other lanes where there is no room for both", () => {
    expect(keptIn(0, 123)).toBeUndefined();
  });

  it("is found at its place before what is behind it", () => {
    const bands = keepInSight(bandsOf(), 4, { top: 0, height: 130 });
    expect(bands).toHaveLength(5);
    expect([bandAt(bands, 80), bandAt(bands, 93)].map((band) => band?.lane)).toEqual([2, 4]);
  });
});

it("is as high as the last band, with a gap under it", () => {
  // The queue stands at 168 with 22 px.
  expect(heightOfBands(bandsOf())).toBe(194);
  expect(heightOfBands([])).toBe(0);
});

it("finds the band at a height, and none in gaps", () => {
  const bands = bandsOf();
  const laneAt = (y: number) => bandAt(bands, y)?.lane;
  expect([laneAt(3), laneAt(4), laneAt(63), laneAt(64), laneAt(68)]).toEqual([
    undefined,
    1,
    1,
    undefined,
    2,
  ]);
  expect([laneAt(189), laneAt(190)]).toEqual([6, undefined]);
});
