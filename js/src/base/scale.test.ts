import { describe, expect, it } from "vitest";
import { linearScale, panSpan, type Span, toDevicePx, zoomSpan } from "./scale";
import { px, type Weight, weight } from "./units";

const span = (start: number, end: number): Span<Weight> => ({
  start: weight(start),
  end: weight(end),
});

describe("linearScale", () => {
  it("maps a value to its pixel", () => {
    // 150 is a quarter of the way from 100 to 300; a quarter of 800 px is 200.
    expect(linearScale(span(100, 300), px(800)).toPx(weight(150))).toBe(200);
  });

  it("maps a pixel back to its value", () => {
    expect(linearScale(span(100, 300), px(800)).fromPx(px(200))).toBe(150);
  });

  it("converts lengths without the offset of the span", () => {
    const scale = linearScale(span(100, 300), px(800));
    expect(scale.lengthToPx(weight(50))).toBe(200);
    expect(scale.lengthFromPx(px(4))).toBe(1);
  });

  it("maps everything of an empty span to the left edge", () => {
    expect(linearScale(span(7, 7), px(800)).toPx(weight(9))).toBe(0);
  });
});

describe("panSpan", () => {
  it("moves by the given length", () => {
    expect(panSpan(span(10, 20), weight(5), span(0, 100))).toEqual(span(15, 25));
  });

  it("stops at the right limit and keeps its length", () => {
    expect(panSpan(span(10, 20), weight(500), span(0, 100))).toEqual(span(90, 100));
  });

  it("stops at the left limit", () => {
    expect(panSpan(span(10, 20), weight(-500), span(0, 100))).toEqual(span(0, 10));
  });
});

describe("zoomSpan", () => {
  it("keeps the anchor where it is", () => {
    // 20 of 0–80 is at a quarter; half as long is 40, a quarter of that is 10 left of 20.
    const zoomed = zoomSpan(span(0, 80), weight(20), 0.5, span(0, 80), weight(1));
    expect(zoomed).toEqual(span(10, 50));
  });

  it("gets no shorter than the shortest", () => {
    const zoomed = zoomSpan(span(0, 80), weight(40), 0.001, span(0, 80), weight(8));
    expect(zoomed).toEqual(span(36, 44));
  });

  it("gets no longer than the limits", () => {
    expect(zoomSpan(span(10, 20), weight(15), 100, span(0, 80), weight(1))).toEqual(span(0, 80));
  });
});

it("rounds device pixels to whole ones", () => {
  expect(toDevicePx(px(100.3), 1.5)).toBe(150);
});
