import { expect, it } from "vitest";
import { COLORS } from "../../../test/colors";
import { linearScale } from "../../base/scale";
import { ns, px } from "../../base/units";
import { buildSliceIndex } from "../../layout/slice-index";
import { FillTable } from "../fills";
import { paintPhases } from "./phases";

it("hatches waiting among the phases of a step, as everywhere, so that it is not taken for Python", () => {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const column = { lane: new Float64Array(2), depth: new Float64Array(2) };
  const times = { start_ns: Float64Array.of(0, 50), dur_ns: Float64Array.of(50, 50) };
  const index = buildSliceIndex({ ...column, ...times }, 1);
  const row = index.rows[0];
  if (row === undefined) throw new Error("there are no slices");
  const words = (...list: string[]) => ({
    kind: "text" as const,
    keys: Int32Array.from(list, (word) => list.indexOf(word)),
    words: [...new Set(list)],
  });
  const fills = new FillTable(words("python", "idle"), words("phase", "phase"), COLORS);
  const scale = linearScale({ start: ns(0), end: ns(100) }, px(100));
  paintPhases(context, { index, row, fills }, scale, [0, 0], 5);
  const colorsIn = (from: number) =>
    new Set(
      Array.from({ length: 40 }, (_, x) => context.getImageData(from + x, 2, 1, 1).data.join()),
    ).size;
  expect(colorsIn(5)).toBe(1);
  expect(colorsIn(55)).toBeGreaterThan(1);
});
