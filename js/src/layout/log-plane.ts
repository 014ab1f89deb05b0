/** A plane whose axes both grow by factors: where values are, and where lines and numbers stand. */

export interface LogAxis {
  /** The powers of ten at both ends. */
  readonly from: number;
  readonly to: number;
  readonly px: number;
}

/** The axis that holds all values, to the next half power of ten; `px` long. */
export function logAxis(values: readonly number[], px: number): LogAxis {
  const powers = values.filter((value) => value > 0).map(Math.log10);
  if (powers.length === 0) return { from: 0, to: 1, px };
  const from = Math.floor(Math.min(...powers) * 2 - 0.2) / 2;
  const to = Math.ceil(Math.max(...powers) * 2 + 0.2) / 2;
  return { from, to: Math.max(to, from + 1), px };
}

/** How far from its beginning a value is, cut at the ends. */
export function logPx({ from, to, px }: LogAxis, value: number): number {
  const power = value > 0 ? Math.log10(value) : from;
  return ((Math.min(Math.max(power, from), to) - from) / (to - from)) * px;
}

/** The whole powers of ten on an axis; every other one, or fewer, where there is no room for all. */
export function logTicks({ from, to, px }: LogAxis, leastPx: number): readonly number[] {
  const first = Math.ceil(from);
  const count = Math.floor(to) - first + 1;
  const step = Math.max(1, Math.ceil((leastPx * (to - from)) / Math.max(px, 1)));
  return Array.from(
    { length: Math.max(0, Math.ceil(count / step)) },
    (_, at) => 10 ** (first + at * step),
  );
}

export interface Disc {
  readonly x: number;
  readonly y: number;
  readonly radius: number;
}

/** A text: its middle, its angle, and its length. */
export interface Label {
  readonly x: number;
  readonly y: number;
  readonly angle: number;
  readonly px: number;
}

const LABEL_RADIUS_PX = 7;

/** The discs that together cover a text. */
export function discsOf({ x, y, angle, px }: Label): readonly Disc[] {
  const count = Math.ceil(px / LABEL_RADIUS_PX / 2);
  return Array.from({ length: count }, (_, at) => {
    const along = ((at + 0.5) / count - 0.5) * px;
    return {
      x: x + along * Math.cos(angle),
      y: y + along * Math.sin(angle),
      radius: LABEL_RADIUS_PX,
    };
  });
}

/** The first place for a text where it covers no disc; the first of all if there is none. */
export function freest(places: readonly Label[], taken: readonly Disc[]): Label {
  const isFree = ({ x, y, radius }: Disc) =>
    taken.every((each) => Math.hypot(each.x - x, each.y - y) >= each.radius + radius);
  return places.find((place) => discsOf(place).every(isFree)) ?? (places[0] as Label);
}

/** The point nearest to a place, if it is within `reach` of its edge. */
export function nearest(points: readonly Disc[], x: number, y: number, reach: number): number {
  let found = -1;
  let least = reach;
  points.forEach((point, at) => {
    const gap = Math.hypot(point.x - x, point.y - y) - point.radius;
    // Of points on top of one another the smaller one, which is drawn later.
    if (gap <= Math.max(least, 0)) {
      found = at;
      least = gap;
    }
  });
  return found;
}
