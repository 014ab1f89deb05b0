/** Rows as points below the roofs of the device, beside their table. */

import { formatCount, formatValue, plural } from "../../base/format";
import { cutMiddle } from "../../base/names";
import { phaseColor } from "../../base/palette";
import {
  type Disc,
  discsOf,
  freest,
  type Label,
  type LogAxis,
  logAxis,
  logPx,
  logTicks,
  nearest,
} from "../../layout/log-plane";
import { select } from "../../state/store";
import { type Frame, numberAt, rowsOf, stringAt } from "../../wire/frame";
import type { PointsHeader } from "../../wire/header";
import type { TableProps } from "../common/context";
import { describeRow } from "../common/describe";
import { focusable } from "../common/focusable";
import { useWidth } from "../common/use-width";
import { TableView } from "../table/grid";

const LEAST_HEIGHT = 260;
const MOST_HEIGHT = 330;
// Of its width.
const HEIGHT_RATIO = 0.7;
const LEFT = 62;
const RIGHT = 24;
const TOP = 26;
const BOTTOM = 40;
const LEAST_TICK_PX = 46;
const LEAST_RADIUS = 3;
const MOST_RADIUS = 16;
const REACH = 6;
// A character of a name, and how far its middle may be from the line of its roof, and from the foot of its ridge.
const CHAR_PX = 5.9;
const BESIDE_PX = [-10, 10, 26, -26];
const ABOVE_PX = [9, 23, 37];
const NAME_CHARS = 24;
// Where rows without operations stand, in powers of ten from the left edge.
const AT_THE_EDGE = 0.2;
// More points say nothing; the table has all of them.
const MOST_POINTS = 300;

type Props = TableProps & { readonly points: PointsHeader };

interface Point extends Disc {
  readonly row: number;
}

type Roof = ReturnType<typeof linesOf>[number];

interface RoofsProps {
  readonly plane: Plane;
  readonly points: PointsHeader;
  /** What the first point is called. */
  readonly first: string;
}

interface Plane {
  readonly height: number;
  readonly x: LogAxis;
  readonly y: LogAxis;
  readonly points: readonly Point[];
}

export function RooflineView(props: Props) {
  return (
    <div class="tp-roofline">
      <Chart {...props} />
      <TableView report={props.report} view={props.view} frame={props.frame} />
    </div>
  );
}

function Chart(props: Props) {
  const { report, view, frame, points } = props;
  const { ref, width } = useWidth<HTMLElement>();
  const plane = planeOf(frame, points, Math.max(width, LEFT + RIGHT + 100));
  const { store } = report;
  const nameOf = (row: number) => describeRow(view, frame, row).name;
  const chosen = store.selection.value?.name;
  const hover = (at: number) => {
    const point = plane.points[at];
    store.hover.value = point === undefined ? null : describeRow(view, frame, point.row);
  };
  const choose = (at: number) => {
    const point = plane.points[at];
    if (point !== undefined) select(store, nameOf(point.row), stringAt(frame, "kind", point.row));
  };
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const now = plane.points.findIndex(({ row }) => nameOf(row) === chosen);
    const next = Math.min(Math.max(now + step, 0), plane.points.length - 1);
    choose(next);
    hover(next);
  };
  return (
    <figure class="tp-roof-figure" ref={ref}>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the arrow keys choose, see focusable. */}
      <svg
        class="tp-roof-plane"
        width={plane.x.px + LEFT + RIGHT}
        height={plane.height}
        role="img"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys go from point to point.
        tabIndex={0}
        aria-label={labelOf(props, chosen)}
        onPointerMove={(event) => hover(pointAt(event, plane))}
        onPointerLeave={() => hover(-1)}
        onClick={(event) => choose(pointAt(event, plane))}
        {...focusable(onKey)}
      >
        <Axes plane={plane} />
        <g transform={`translate(${LEFT} ${TOP})`}>
          {plane.points.map(({ row, x, y, radius }) => (
            <circle
              key={row}
              class={nameOf(row) === chosen ? "tp-roof-point tp-roof-chosen" : "tp-roof-point"}
              cx={x}
              cy={y}
              r={radius}
              fill={phaseColor(stringAt(frame, points.phase, row), report.look.value.theme)}
            />
          ))}
          <Roofs plane={plane} points={points} first={nameOf(plane.points[0]?.row ?? 0)} />
        </g>
      </svg>
    </figure>
  );
}

/** What a screen reader says of the picture: the rows are in the table. */
function labelOf({ view, frame, points }: Props, chosen: string | undefined): string {
  const { roofs } = points;
  const below = roofs.length > 0 ? ` below the roofs ${roofs.map(titleOf).join(", ")}` : "";
  const row = rowsOf(frame).find((each) => describeRow(view, frame, each).name === chosen);
  const said = row === undefined ? null : describeRow(view, frame, row);
  const now = said === null ? "" : ` Selected: ${said.name}, ${said.facts.join(", ")}.`;
  return `${plural(frame.rows, "point")}${below}; the table has their numbers.${now}`;
}

function pointAt(event: MouseEvent, { points }: Plane): number {
  const box = (event.currentTarget as Element).getBoundingClientRect();
  return nearest(points, event.clientX - box.left - LEFT, event.clientY - box.top - TOP, REACH);
}

function planeOf(frame: Frame, columns: PointsHeader, width: number): Plane {
  const rows = rowsOf(frame).slice(0, MOST_POINTS);
  const [roof, bandwidth] = highestOf(columns);
  const ridge = bandwidth > 0 ? roof / bandwidth : 0;
  const known = rows.map((row) => numberAt(frame, columns.x, row));
  // Level roofs are seen beyond their ridges, too.
  const x = logAxis([...known, 3 * ridge, 0.1], width - LEFT - RIGHT);
  const least = 10 ** (x.from + AT_THE_EDGE);
  const places = rows.map((row) => placeOf(frame, columns, row, least));
  const height = Math.min(Math.max(width * HEIGHT_RATIO, LEAST_HEIGHT), MOST_HEIGHT);
  const y = logAxis(
    [...places.map((place) => place.y), roof, bandwidth * least],
    height - TOP - BOTTOM,
  );
  const most = Math.max(...rows.map((row) => numberAt(frame, columns.size, row)), 1);
  const points = places.map((place, at) => {
    const size = numberAt(frame, columns.size, rows[at] ?? 0);
    return {
      row: rows[at] ?? 0,
      x: logPx(x, place.x),
      y: y.px - logPx(y, place.y),
      radius: Math.max(LEAST_RADIUS, MOST_RADIUS * Math.sqrt(size / most)),
    };
  });
  return { height, x, y, points };
}

/** The most operations and bytes a second. */
function highestOf({ roofs }: PointsHeader): readonly [number, number] {
  const highest = (name: "flops_per_s" | "bytes_per_s") =>
    Math.max(0, ...roofs.map((roof) => roof[name]));
  return [highest("flops_per_s"), highest("bytes_per_s")];
}

/** Where a row is; one without operations near the left edge, as far below the roof of the memory as its bytes are. */
function placeOf(frame: Frame, columns: PointsHeader, row: number, least: number) {
  const x = numberAt(frame, columns.x, row);
  const y = numberAt(frame, columns.y, row);
  if (x > 0 && y > 0) return { x, y };
  return { x: least, y: numberAt(frame, columns.x_of_none, row) * least };
}

function Axes({ plane: { height, x, y } }: { readonly plane: Plane }) {
  return (
    <g class="tp-roof-axes">
      {logTicks(x, LEAST_TICK_PX).map((tick) => (
        <g key={tick} transform={`translate(${LEFT + logPx(x, tick)} ${TOP})`}>
          <line y2={y.px} />
          <text y={y.px + 15} text-anchor="middle">
            {tick < 1 ? String(tick) : formatCount(tick)}
          </text>
        </g>
      ))}
      {logTicks(y, LEAST_TICK_PX / 2).map((tick) => (
        <g key={tick} transform={`translate(${LEFT} ${TOP + y.px - logPx(y, tick)})`}>
          <line x2={x.px} />
          <text x={-6} y={4} text-anchor="end">
            {formatValue(tick, "flop").replace("FLOP", "").trim()}
          </text>
        </g>
      ))}
      <text x={LEFT + x.px} y={height - 6} text-anchor="end">
        FLOP/byte
      </text>
      <text x={LEFT - 6} y={13} text-anchor="end">
        FLOP/s
      </text>
    </g>
  );
}

/**
 * A line for each roof: the memory's rises with the operations per byte, the others are level from their ridge on. Their
 * names and that of the first point stand where they cover no point and no other name, as far as there is such a place.
 */
function Roofs({ plane, points, first }: RoofsProps) {
  const taken: Disc[] = [...plane.points];
  const placed = (places: readonly Label[]) => {
    const place = freest(places, taken);
    const { x, y, angle } = place;
    taken.push(...discsOf(place));
    return `translate(${x} ${y}) rotate(${(angle * 180) / Math.PI})`;
  };
  const [point] = plane.points;
  const name = cutMiddle(first, NAME_CHARS);
  return (
    <g class="tp-roofs">
      {linesOf(plane, points).map((line) => {
        const { title, from, foot } = line;
        return (
          <g key={title}>
            <path d={`M${from.x},${from.y}L${line.to.x},${line.to.y}`} />
            <text transform={placed(besideOf(line))}>{title}</text>
            {foot !== "" && (
              <>
                <path class="tp-roof-ridge" d={`M${from.x},${from.y}V${plane.y.px}`} />
                <text class="tp-roof-foot" transform={placed(footsOf(line, plane))}>
                  {foot}
                </text>
              </>
            )}
          </g>
        );
      })}
      {point && (
        <text transform={placed(aroundOf(point, name.length * CHAR_PX, plane.x.px))}>{name}</text>
      )}
    </g>
  );
}

/** Where the name of a point can stand: above it or below, inside of the plane, the best place first. */
function aroundOf({ x, y, radius }: Point, px: number, width: number): readonly Label[] {
  return BESIDE_PX.map((beside) => ({
    x: Math.min(Math.max(x, px / 2), width - px / 2),
    y: y + beside + Math.sign(beside) * radius,
    angle: 0,
    px,
  }));
}

/** Where the name of a roof can stand: along its line, above it or below, the best place first. */
function besideOf({ title, isMemory, from, to }: Roof): readonly Label[] {
  const long = Math.hypot(to.x - from.x, to.y - from.y);
  const angle = Math.atan2(to.y - from.y, to.x - from.x);
  const px = title.length * CHAR_PX;
  const along = isMemory
    ? [long / 2, long / 4, long * 0.75]
    : [long - px / 2, Math.min(px, long) / 2];
  return BESIDE_PX.flatMap((beside) =>
    along.map((at) => ({
      x: from.x + at * Math.cos(angle) - beside * Math.sin(angle),
      y: from.y + at * Math.sin(angle) + beside * Math.cos(angle),
      angle,
      px,
    })),
  );
}

/** Where the name of a ridge can stand: on both sides of its line, the best place first. */
function footsOf({ from, foot }: Roof, { y }: Plane): readonly Label[] {
  const px = foot.length * CHAR_PX;
  return ABOVE_PX.flatMap((above) =>
    [-1, 1].map((side) => ({ x: from.x + side * (4 + px / 2), y: y.px - above, angle: 0, px })),
  ).filter(({ x }) => x > px / 2);
}

/** Both ends of each roof, and what stands below the ridge from which on it is level, if that can be seen. */
function linesOf({ x, y }: Plane, points: PointsHeader) {
  const [highest, bandwidth] = highestOf(points);
  const left = 10 ** x.from;
  const right = 10 ** x.to;
  const ridge = bandwidth > 0 && highest > 0 ? Math.min(highest / bandwidth, right) : right;
  return points.roofs.map((roof) => {
    const { flops_per_s, bytes_per_s } = roof;
    const isMemory = bytes_per_s > 0;
    const begins = isMemory || bandwidth <= 0 ? left : Math.max(flops_per_s / bandwidth, left);
    const ends = isMemory ? ridge : right;
    const heightAt = (intensity: number) =>
      y.px - logPx(y, isMemory ? intensity * bytes_per_s : flops_per_s);
    const from = { x: logPx(x, begins), y: heightAt(begins) };
    const to = { x: logPx(x, ends), y: heightAt(ends) };
    const foot = !isMemory && begins > left && begins < right ? `ridge ${formatCount(begins)}` : "";
    return { title: titleOf(roof), isMemory, from, to, foot };
  });
}

/** "memory 3.35 TB/s": decimal, as makers write it. */
function titleOf({ title, flops_per_s, bytes_per_s }: PointsHeader["roofs"][number]): string {
  const unit = bytes_per_s > 0 ? "B" : "FLOP";
  return `${title} ${formatValue(bytes_per_s || flops_per_s, "flop").replace("FLOP", unit)}/s`;
}
