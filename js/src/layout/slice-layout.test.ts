import { describe, expect, it } from "vitest";
import { MERGED_ROW } from "../base/boxes";
import { linearScale } from "../base/scale";
import { ns, px } from "../base/units";
import { buildSliceIndex } from "./slice-index";
import { layoutSlices, SliceBoxes, sliceAt } from "./slice-layout";

type Slice = readonly [start: number, dur: number];

/** One row of slices. */
function rowOf(slices: readonly Slice[]) {
  const zeros = new Float64Array(slices.length);
  const start_ns = Float64Array.from(slices, ([start]) => start);
  const dur_ns = Float64Array.from(slices, ([, dur]) => dur);
  const index = buildSliceIndex({ lane: zeros, depth: zeros, start_ns, dur_ns }, 1);
  const row = index.rows[0];
  if (row === undefined) throw new Error("there are no slices");
  return { index, row };
}

interface Options {
  readonly start?: number;
  readonly end?: number;
  readonly colorOf?: (row: number) => number;
}

/** The boxes of slices on 100 px, 10 ns each unless the window is another. */
function layout(slices: readonly Slice[], { start = 0, end = 1000, colorOf }: Options = {}) {
  const { index, row } = rowOf(slices);
  const scale = linearScale({ start: ns(start), end: ns(end) }, px(100));
  const boxes = new SliceBoxes();
  layoutSlices(index, row, scale, boxes, colorOf ?? (() => 0));
  return Array.from({ length: boxes.count }, (_, box) => ({
    left: boxes.left[box],
    width: boxes.width[box],
    row: boxes.row[box],
    like: boxes.like[box],
    cover: Number((boxes.cover[box] ?? 0).toFixed(3)),
  }));
}

describe("layoutSlices", () => {
  it("gives a slice of at least a pixel a box of its own", () => {
    expect(
      layout([
        [0, 100],
        [300, 10],
      ]),
    ).toEqual([
      { left: 0, width: 10, row: 0, like: 0, cover: 1 },
      { left: 30, width: 1, row: 1, like: 1, cover: 1 },
    ]);
  });

  it("gives a slice below a pixel the whole pixel that it begins in", () => {
    // From 405 on 9 ns: pixel 40. Nine tenths are all six parts of the scale of coverage.
    expect(layout([[405, 9]])).toEqual([{ left: 40, width: 1, row: 0, like: 0, cover: 1 }]);
  });

  it("merges slices that begin in one pixel, and says how much of it they cover", () => {
    // 3 + 2 of 10 ns are a half, which is three parts of six; the color is that of the first.
    expect(
      layout([
        [500, 3],
        [505, 2],
      ]),
    ).toEqual([{ left: 50, width: 1, row: MERGED_ROW, like: 0, cover: 0.5 }]);
  });

  it("rounds coverage up to a sixth", () => {
    const cover = (dur: number) =>
      layout([
        [500, dur],
        [505, 0],
      ])[0]?.cover;
    // 0 and 1 of 10 ns are up to a sixth, 2 are up to two, 4 are up to three.
    expect([cover(0), cover(1), cover(2), cover(4)]).toEqual([0.167, 0.167, 0.333, 0.5]);
  });

  it("does not merge over the edge of a pixel", () => {
    const boxes = layout([
      [507, 2],
      [510, 2],
    ]);
    expect(boxes.map(({ left, row }) => [left, row])).toEqual([
      [50, 0],
      [51, 1],
    ]);
  });

  // Two slices in each pixel from 60 on, together 4 of its 10 ns.
  const pair = (pixel: number): readonly Slice[] => [
    [pixel * 10, 2],
    [pixel * 10 + 5, 2],
  ];

  it("joins merged pixels that follow each other and look alike", () => {
    expect(layout([...pair(60), ...pair(61), ...pair(62)])).toEqual([
      { left: 60, width: 3, row: MERGED_ROW, like: 0, cover: 0.5 },
    ]);
  });

  it("keeps merged pixels apart where there is a gap between them", () => {
    expect(layout([...pair(60), ...pair(62)]).map(({ left, width }) => [left, width])).toEqual([
      [60, 1],
      [62, 1],
    ]);
  });

  it("keeps merged pixels of different colors apart", () => {
    const slices = [...pair(60), ...pair(61), ...pair(62)];
    const boxes = layout(slices, { colorOf: (row) => (row === 2 ? 7 : 0) });
    expect(boxes.map(({ left, like }) => [left, like])).toEqual([
      [60, 0],
      [61, 2],
      [62, 4],
    ]);
  });

  it("keeps merged pixels apart that are not covered equally much", () => {
    const boxes = layout([...pair(60), [610, 4], [615, 4]]);
    expect(boxes.map(({ left, cover }) => [left, cover])).toEqual([
      [60, 0.5],
      // 8 of 10 ns are five parts of six.
      [61, 0.833],
    ]);
  });

  it("leaves a wide slice its own box when narrow ones begin in its pixel", () => {
    expect(
      layout([
        [700, 2],
        [703, 2],
        [705, 50],
      ]),
    ).toEqual([
      { left: 70, width: 1, row: MERGED_ROW, like: 0, cover: 0.5 },
      { left: 70.5, width: 5, row: 2, like: 2, cover: 1 },
    ]);
  });

  it("omits slices outside the window and keeps those that reach into it", () => {
    const slices: readonly Slice[] = [
      [0, 100],
      [100, 100],
      [250, 100],
      [300, 100],
    ];
    // From 100 to 300 on 100 px: the first ends at the edge, the last begins at it.
    expect(
      layout(slices, { start: 100, end: 300 }).map(({ left, width }) => [left, width]),
    ).toEqual([
      [0, 50],
      [75, 50],
    ]);
    expect(layout(slices, { start: 99, end: 301 })).toHaveLength(4);
  });

  it("begins anew when boxes are used again", () => {
    const { index, row } = rowOf([[0, 100]]);
    const scale = linearScale({ start: ns(0), end: ns(1000) }, px(100));
    const boxes = new SliceBoxes();
    layoutSlices(index, row, scale, boxes, () => 0);
    layoutSlices(index, row, scale, boxes, () => 0);
    expect(boxes.count).toBe(1);
  });

  it("makes boxes in proportion to pixels, not to 100,000 slices", () => {
    // Every pixel has 1,000 slices that cover half of it.
    const slices = Array.from({ length: 100_000 }, (_, at): Slice => [at * 10, 5]);
    expect(layout(slices, { end: 1e6 })).toEqual([
      { left: 0, width: 100, row: MERGED_ROW, like: 0, cover: 0.5 },
    ]);
  });
});

it("grows when there are more boxes than fit at first", () => {
  const boxes = new SliceBoxes();
  for (let row = 0; row < 5000; row += 1) boxes.add(row * 2, 1, row, row, 0.5);
  expect(boxes.count).toBe(5000);
  expect([boxes.left[0], boxes.left[4999], boxes.row[4999]]).toEqual([0, 9998, 4999]);
  expect([boxes.width[4999], boxes.like[4999], boxes.cover[4999]]).toEqual([1, 4999, 0.5]);
});

describe("sliceAt", () => {
  const { index, row } = rowOf([
    [0, 100],
    [300, 50],
  ]);
  const at = (time: number, slackNs = 0) => sliceAt(index, row, time, slackNs);

  it("finds the slice that runs at a moment", () => {
    expect([at(0), at(99), at(300), at(349)]).toEqual([0, 0, 1, 1]);
  });

  it("finds nothing in a gap, before the first and after the last", () => {
    expect([at(-1), at(100), at(299), at(350)]).toEqual([-1, -1, -1, -1]);
  });

  it("finds a slice that is near enough", () => {
    expect([at(298, 2), at(298, 1)]).toEqual([1, -1]);
    expect([at(101, 2), at(102, 2)]).toEqual([0, -1]);
  });
});
