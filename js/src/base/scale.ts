/** The only conversions between values and pixels. */

import { type DevicePx, devicePx, type Px, px } from "./units";

/** An interval of the domain: `start` is at the left edge, `end` at the right edge. */
export interface Span<Unit extends number> {
  readonly start: Unit;
  readonly end: Unit;
}

export interface Scale<Unit extends number> {
  readonly span: Span<Unit>;
  readonly width: Px;
  toPx(value: Unit): Px;
  /** How many pixels a length of the domain takes. */
  lengthToPx(length: Unit): Px;
  fromPx(at: Px): Unit;
  /** How much of the domain a number of pixels covers. */
  lengthFromPx(length: Px): Unit;
}

/** A linear scale; an empty span maps everything to the left edge. */
export function linearScale<Unit extends number>(span: Span<Unit>, width: Px): Scale<Unit> {
  const length = span.end - span.start;
  const pxPerUnit = length > 0 ? width / length : 0;
  const unitPerPx = width > 0 ? length / width : 0;
  return {
    span,
    width,
    toPx: (value) => px((value - span.start) * pxPerUnit),
    lengthToPx: (part) => px(part * pxPerUnit),
    fromPx: (at) => (span.start + at * unitPerPx) as Unit,
    lengthFromPx: (part) => (part * unitPerPx) as Unit,
  };
}

/** `span` moved by `delta` but kept inside `limits`. */
export function panSpan<Unit extends number>(
  span: Span<Unit>,
  delta: Unit,
  limits: Span<Unit>,
): Span<Unit> {
  const length = span.end - span.start;
  const latest = Math.max(limits.start, limits.end - length);
  const start = Math.min(Math.max(span.start + delta, limits.start), latest);
  return { start: start as Unit, end: Math.min(start + length, limits.end) as Unit };
}

/** `span` scaled by `factor` around `anchor`, inside `limits` and at least `shortest` long. */
export function zoomSpan<Unit extends number>(
  span: Span<Unit>,
  anchor: Unit,
  factor: number,
  limits: Span<Unit>,
  shortest: Unit,
): Span<Unit> {
  const length = span.end - span.start;
  const full = limits.end - limits.start;
  const next = Math.min(full, Math.max(length * factor, Math.min(shortest, full)));
  const share = length > 0 ? (anchor - span.start) / length : 0;
  const start = anchor - share * next;
  return panSpan({ start: start as Unit, end: (start + next) as Unit }, 0 as Unit, limits);
}

/** CSS pixels to screen pixels, rounded so that hairlines are sharp. */
export function toDevicePx(length: Px, ratio: number): DevicePx {
  return devicePx(Math.round(length * ratio));
}
