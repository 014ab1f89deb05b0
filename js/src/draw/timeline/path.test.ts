import { describe, expect, it } from "vitest";
import { linearScale } from "../../base/scale";
import { ns, px } from "../../base/units";
import { paintDimmed } from "./path";
import type { Brush } from "./scene";

type Times = readonly (readonly [number, number])[];

/** What is covered of a lane of 100 px from 20 px on, in a window of 100 ns. */
function covered(path: Times | null): number[][] {
  const rects: number[][] = [];
  const spans = path?.map(([start, end]) => ({ start: ns(start), end: ns(end) })) ?? null;
  const brush = {
    context: { fillRect: (...rect: number[]) => rects.push(rect) },
    size: { width: 120, height: 60 },
    scene: {
      colors: { background: [0, 0, 0] },
      gutter: 20,
      scale: linearScale({ start: ns(0), end: ns(100) }, px(100)),
      pathOf: () => spans,
    },
  } as unknown as Brush;
  paintDimmed(brush, { lane: 1, height: 9 } as Parameters<typeof paintDimmed>[1], 5);
  return rects;
}

describe("dimming", () => {
  it("covers a lane but for the times of the path", () => {
    expect(
      covered([
        [10, 30],
        [30, 40],
        [90, 100],
      ]),
    ).toEqual([
      [20, 5, 10, 9],
      [60, 5, 50, 9],
    ]);
  });

  it("covers all of a lane that the path does not go through, and nothing while it is off", () => {
    expect(covered([])).toEqual([[20, 5, 100, 9]]);
    expect(covered(null)).toEqual([]);
  });

  it("leaves what the path has left and right of the window where it is", () => {
    expect(
      covered([
        [-50, 20],
        [150, 200],
      ]),
    ).toEqual([[40, 5, 80, 9]]);
  });
});
