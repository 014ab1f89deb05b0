/** The memory of the device with the highest peak, small: its curve, the steps, and its peak. */

import { useMemo } from "preact/hooks";
import { formatBytes, formatNs } from "../../base/format";
import { bandColor } from "../../base/palette";
import { highestBySlot, laneSeries } from "../../layout/series-lane";
import { showView } from "../../state/store";
import type { Frame } from "../../wire/frame";
import type { SeriesHeader } from "../../wire/header";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";

const SLOTS = 240;
const HEIGHT = 60;
// Space over the peak.
const HEADROOM = 1.08;

/** Nothing until the page has the curve; it is not asked for. */
export function MemoryStrip({ report }: { readonly report: ReportContext }) {
  const view = report.source.header.views.find(
    (each) => each.shape === "series" && each.empty === null && each.offset >= 0,
  );
  if (view?.shape !== "series") return null;
  const state = report.source.frame(view).value;
  return state.kind === "ready" ? <Strip report={report} view={view} frame={state.frame} /> : null;
}

interface StripProps {
  readonly report: ReportContext;
  readonly view: SeriesHeader;
  readonly frame: Frame;
}

function Strip({ report, view, frame }: StripProps) {
  const peaks = view.marks.filter(({ kind }) => kind === "peak");
  const lane = peaks[0]?.lane ?? "";
  const curve = useMemo(() => curveOf(view, frame, lane), [view, frame, lane]);
  if (curve.top === 0) return null;
  const { start, length, points } = curve;
  const steps = view.marks.filter(({ kind }) => kind === "step");
  const { theme } = report.look.value;
  return (
    <Button class="tp-memory-strip" onClick={() => showView(report.store, view.tab)}>
      <span class="tp-memory-axis">
        <span class="tp-aloud">{`Memory of ${lane} over ${formatNs(length)}, at most `}</span>
        <span>{formatBytes(curve.top)}</span>
        <span class="tp-aloud">, on a scale from </span>
        <span>0</span>
      </span>
      <svg viewBox={`0 0 ${SLOTS} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {steps.map(({ time_ns: at }) => {
          const x = ((at - start) / length) * SLOTS;
          return <line key={at} class="tp-memory-step" x1={x} x2={x} y1={0} y2={HEIGHT} />;
        })}
        <polygon points={points} fill={bandColor("allocated_bytes", 0, theme)} fillOpacity={0.45} />
      </svg>
    </Button>
  );
}

function curveOf(view: SeriesHeader, frame: Frame, lane: string) {
  const { time_ns: time, bands } = laneSeries(view, frame, lane);
  const highest = highestBySlot(time, bands[0]?.values ?? [], SLOTS);
  const top = highest.reduce((most, value) => Math.max(most, value), 0);
  const y = (value: number) => (HEIGHT * (1 - value / Math.max(1, top * HEADROOM))).toFixed(1);
  const corners = Array.from(
    highest,
    (value, slot) => `${slot},${y(value)} ${slot + 1},${y(value)}`,
  );
  const points = `0,${HEIGHT} ${corners.join(" ")} ${SLOTS},${HEIGHT}`;
  const start = time[0] ?? 0;
  return { top, points, start, length: Math.max(1, (time.at(-1) ?? 0) - start) };
}
