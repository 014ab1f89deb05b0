/** Rows as points below the roofs of the device, beside their table. */

import { formatValue, plural } from "../../base/format";
import { phaseColor } from "../../base/palette";
import { type LogAxis, logAxis, logPx, logTicks, nearest } from "../../layout/log-plane";
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
// What the name of a ridge needs beside it, and below that of the next.
const FOOT = 60;
const FOOT_LINE = 14;
// Where rows without operations stand, in powers of ten from the left edge.
const AT_THE_EDGE = 0.2;
// More points say nothing; the table has all of them.
const MOST_POINTS = 300;

type Props = TableProps & { readonly points: PointsHeader };

interface Point {
  readonly row: number;
  readonly x: number;
  readonly y: number;
  readonly radius: number;
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
          <Roofs plane={plane} points={points} />
        </g>
      </svg>
    </figure>
  );
}

/** What a screen reader says of the picture: the rows are in the table. */
function labelOf({ view, frame, points }: Props, chosen: string | undefined): string {
  const roofs = points.roofs.map(({ title, flops_per_s, bytes_per_s }) =>
    bytes_per_s > 0
      ? `${title} ${formatValue(bytes_per_s, "bytes")} a second`
      : `${title} ${formatValue(flops_per_s, "flop")} a second`,
  );
  const below = roofs.length > 0 ? ` below the roofs ${roofs.join(", ")}` : "";
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
  const roof = Math.max(0, ...columns.roofs.map(({ flops_per_s }) => flops_per_s));
  const bandwidth = columns.roofs.find(({ bytes_per_s }) => bytes_per_s > 0)?.bytes_per_s ?? 0;
  const ridge = bandwidth > 0 ? roof / bandwidth : 0;
  const known = rows.map((row) => numberAt(frame, columns.x, row));
  const x = logAxis([...known, ridge, 0.1], width - LEFT - RIGHT);
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
            {tick >= 1 ? tick.toLocaleString("en-US") : String(tick)}
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

/** A line for each roof: the memory's rises with the operations per byte, the others are level from their ridge on. */
function Roofs({ plane, points }: { readonly plane: Plane; readonly points: PointsHeader }) {
  return (
    <g class="tp-roofs">
      {linesOf(plane, points).map(({ title, isMemory, from, to, foot }, number) => {
        const at = isMemory ? { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 } : to;
        const angle = (Math.atan2(to.y - from.y, to.x - from.x) * 180) / Math.PI;
        const isFirst = from.x < FOOT;
        return (
          <g key={title}>
            <path d={`M${from.x},${from.y}L${to.x},${to.y}`} />
            <text
              y={-6}
              text-anchor={isMemory ? "middle" : "end"}
              transform={`translate(${at.x} ${at.y}) rotate(${angle})`}
            >
              {title}
            </text>
            {foot !== "" && (
              <>
                <path class="tp-roof-ridge" d={`M${from.x},${from.y}V${plane.y.px}`} />
                <text
                  class="tp-roof-foot"
                  x={from.x + (isFirst ? 4 : -4)}
                  y={plane.y.px - 5 - FOOT_LINE * (points.roofs.length - 1 - number)}
                  text-anchor={isFirst ? "start" : "end"}
                >
                  {foot}
                </text>
              </>
            )}
          </g>
        );
      })}
    </g>
  );
}

/** Both ends of each roof, and what stands below the ridge from which on it is level, if that can be seen. */
function linesOf({ x, y }: Plane, { roofs }: PointsHeader) {
  const bandwidth = roofs.find(({ bytes_per_s }) => bytes_per_s > 0)?.bytes_per_s ?? 0;
  const highest = Math.max(0, ...roofs.map(({ flops_per_s }) => flops_per_s));
  const left = 10 ** x.from;
  const right = 10 ** x.to;
  const ridge = bandwidth > 0 && highest > 0 ? Math.min(highest / bandwidth, right) : right;
  return roofs.map(({ title, flops_per_s, bytes_per_s }) => {
    const isMemory = bytes_per_s > 0;
    const begins = isMemory || bandwidth <= 0 ? left : Math.max(flops_per_s / bandwidth, left);
    const ends = isMemory ? ridge : right;
    const heightAt = (intensity: number) =>
      y.px - logPx(y, isMemory ? intensity * bytes_per_s : flops_per_s);
    const from = { x: logPx(x, begins), y: heightAt(begins) };
    const to = { x: logPx(x, ends), y: heightAt(ends) };
    const rate = isMemory ? rateOf(bytes_per_s, "B/s") : rateOf(flops_per_s, "FLOP/s");
    const at = Number(begins.toPrecision(3)).toLocaleString("en-US");
    const foot = !isMemory && begins > left && begins < right ? `ridge ${at}` : "";
    return { title: `${title} ${rate}`, isMemory, from, to, foot };
  });
}

/** "3.35 TB/s": decimal, as makers write it. */
function rateOf(value: number, unit: string): string {
  return `${formatValue(value, "flop").replace("FLOP", "")}${unit}`;
}
