import { expect, it } from "vitest";
import { doubled } from "./columns";

it("makes a column twice as long, with the same numbers at its beginning", () => {
  expect(doubled(Int32Array.of(4, 7))).toEqual(Int32Array.of(4, 7, 0, 0));
  expect(doubled(Float64Array.of(0.5))).toEqual(Float64Array.of(0.5, 0));
});
