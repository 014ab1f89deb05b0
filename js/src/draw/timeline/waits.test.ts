import { expect, it } from "vitest";
import { COLORS } from "../../../test/colors";
import { linearScale } from "../../base/scale";
import { ns, px } from "../../base/units";
import { buildSliceIndex } from "../../layout/slice-index";
import { buildWaits } from "../../layout/waits";
import type { Brush } from "./scene";
import { paintWaits } from "./waits";

/** What is written over waits of so many ns, one after each 10 ns, in a window of 400 px for 200 ns. */
function written(longNs: number): string[] {
  const texts: string[] = [];
  const own: Record<string | symbol, unknown> = {
    measureText: (text: string) => ({ width: 6 * text.length }),
    fillText: (text: string) => texts.push(text),
  };
  const context = new Proxy(own, { get: (from, key) => from[key] ?? (() => {}), set: () => true });
  const starts = Float64Array.from({ length: 20 }, (_, at) => 10 * at);
  const index = buildSliceIndex(
    {
      lane: new Float64Array(20),
      depth: new Float64Array(20),
      start_ns: starts,
      dur_ns: new Float64Array(20).fill(longNs),
    },
    1,
  );
  const row = index.rows[0];
  if (row === undefined) throw new Error("there are no slices");
  const waits = buildWaits(
    index,
    row,
    1,
    () => 0,
    () => ({ gaps: 1, ofCause: 1 }),
  );
  const brush = {
    context,
    size: { width: 400, height: 60 },
    texts: { use: () => {} },
    scene: {
      colors: COLORS,
      gutter: 0,
      scale: linearScale({ start: ns(0), end: ns(200) }, px(400)),
      names: { keys: new Int32Array(20).fill(-1) },
      titles: [],
      matches: null,
      longest: null,
      waitsOf: () => waits,
      causeTitle: () => "launch latency",
    },
  } as unknown as Brush;
  paintWaits(brush, { lane: 0, height: 30 } as Parameters<typeof paintWaits>[1], 0);
  return texts;
}

it("says what most of the waiting in a stretch is where it is a good part of the stretch", () => {
  expect(written(2)).toEqual(["mostly launch latency"]);
});

it("says no cause of a stretch in which hardly anything waits", () => {
  expect(written(0.5)).toEqual([]);
});
