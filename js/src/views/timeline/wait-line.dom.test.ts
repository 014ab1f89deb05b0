import { h, render } from "preact";
import { expect, it } from "vitest";
import { SLICES_VIEW, sliceFrame } from "../../../test/timeline-slices";
import { ns } from "../../base/units";
import type { ReportContext } from "../common/context";
import { createTimelineModel } from "./timeline-model";
import type { TimelineMoves } from "./timeline-moves";
import { WaitLine } from "./timeline-panel";

const MS = 1_000_000;
// Those of the host, as without a device.
const threads = SLICES_VIEW.lanes.slice(0, 1);
const lanes = [...threads, { ...threads[0], kind: "host_waits" as const }];
const view = { ...SLICES_VIEW, lanes } as typeof SLICES_VIEW;
const step = { lane: 0, start: 0, dur: 20 * MS, name: "Step 1", kind: "step", count: 1 };

const phase = (start: number, dur: number, name: string) => {
  const at = { lane: 0, depth: 1, start: start * MS, dur: dur * MS };
  return { ...at, name, kind: "phase", phase: name };
};

/** What is said of a step of 20 ms with these slices, and no device. */
const said = (...slices: Parameters<typeof sliceFrame>[0]) => saidOf(view, slices);

function saidOf(shown: typeof view, slices: Parameters<typeof sliceFrame>[0]): string {
  const model = createTimelineModel(shown, sliceFrame([step, ...slices]));
  const span = { start: ns(0), end: ns(20 * MS) };
  const moves = { model, span, models: { overview: model, source: null } };
  const report = { source: { header: { views: [] } } } as unknown as ReportContext;
  const root = document.createElement("div");
  const props = { report, moves: moves as unknown as TimelineMoves, range: null };
  render(h(WaitLine, props), root);
  return (root.textContent ?? "").replaceAll("\u00a0", " ");
}

it("says how long the host waits and in what, and what most of the rest is", () => {
  const sleep = { lane: lanes.length - 1, start: 16 * MS, dur: 4 * MS, name: "time.sleep" };
  const phases = [phase(0, 4, "forward"), phase(4, 12, "backward"), phase(16, 4, "idle")];
  expect(said(...phases, { ...sleep, kind: "blocking" })).toBe(
    "The host waits 4 of 20 ms in the whole recording in time.sleep; of the rest most is backward, 12 ms.",
  );
});

it("says what the host does for most of the time where it is not seen to wait", () => {
  expect(said(phase(0, 5, "forward"), phase(5, 15, "communication"))).toBe(
    "The host takes 15 of 20 ms in the whole recording for communication.",
  );
});

const device = (kind: "idle" | "busy", start: number, dur: number, note = "") => {
  const at = { lane: 3, depth: kind === "busy" ? 1 : 0, start: start * MS, dur: dur * MS };
  return { ...at, name: "", kind, note };
};

it("says of the idle time of a device the one cause that has most of it", () => {
  const short = [0, 4, 8, 12].map((start) => device("idle", start, 2, "op dispatch"));
  expect(saidOf(SLICES_VIEW, [...short, device("idle", 15, 3, "Python between ops")])).toBe(
    "The device idles 11 ms in the whole recording, 8 ms of it for op dispatch.",
  );
});

it("says that a device hardly idles, and a cause only of most of it, below a tenth of the time", () => {
  // 1.9 of 19 ms are a tenth, and 1.8 of 18.9 are less.
  const of = (idle: number) =>
    saidOf(SLICES_VIEW, [device("busy", 0, 17.1), device("idle", 17.1, idle, "op dispatch")]);
  expect(of(1.9)).toBe(
    "The device idles 1.90 ms in the whole recording, 1.90 ms of it for op dispatch.",
  );
  expect(of(1.8)).toBe(
    "The device hardly idles: 1.80 ms in the whole recording, mostly for op dispatch.",
  );
  const halves = [device("busy", 0, 17.1), device("idle", 17.1, 0.9, "op dispatch")];
  expect(saidOf(SLICES_VIEW, [...halves, device("idle", 18, 0.9, "Python between ops")])).toBe(
    "The device hardly idles: 1.80 ms in the whole recording.",
  );
});
