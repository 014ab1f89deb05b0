import { afterEach, expect, it } from "vitest";
import { encodeFrame, packViews, type Values } from "../../../test/encode";
import { find, hostOf, type Mounted, mount, settle } from "../../../test/report";
import { SLICES_VIEW, type Slice, sliceFrame } from "../../../test/timeline-slices";
import type { SlicesHeader } from "../../wire/header";
import { setHeight } from "../shell/height";
import "../report.css";

let report: Mounted | undefined;

afterEach(() => {
  report?.unmount();
  document.body.replaceChildren();
});

const LEVELS = 24;

/** A thread of many levels, over a device that waits all the time. */
const SLICES: readonly Slice[] = [
  { lane: 0, start: 0, dur: 1000, name: "Step 1", kind: "step" },
  ...Array.from({ length: LEVELS }, (_, depth) => {
    return { lane: 1, start: 0, dur: 1000, name: `op ${depth}`, kind: "op", depth };
  }),
  { lane: 3, start: 0, dur: 1000, name: "waiting", kind: "idle", note: "Python" },
  { lane: 4, start: 0, dur: 1, name: "gemm", kind: "kernel" },
];

function valuesOf(slices: readonly Slice[]): readonly (readonly [string, Values])[] {
  return [...sliceFrame(slices).columns].map(([name, column]) => {
    if (column.kind === "number") return [name, Float64Array.from(column.values)];
    return [name, Array.from(column.keys, (key) => column.words[key] ?? "")];
  });
}

async function show(heightPx: number): Promise<HTMLElement> {
  const lanes = SLICES_VIEW.lanes.map((lane) => ({ ...lane, scale: null, is_folded: false }));
  const view: SlicesHeader = {
    ...SLICES_VIEW,
    lanes,
    columns: [],
    typical_step: null,
    waits_from_ns: 0,
  };
  const { views, data } = packViews([view], [encodeFrame(valuesOf(SLICES))]);
  const host = hostOf({ views });
  host.traits.set("_data", data);
  report = mount(host);
  report.element.style.width = "480px";
  setHeight(report.root, heightPx);
  await settle();
  await settle();
  return report.root;
}

async function clickAt(canvas: HTMLElement, x: number, y: number): Promise<void> {
  const { left, top } = canvas.getBoundingClientRect();
  const at = { clientX: left + x, clientY: top + y, pointerId: 1, bubbles: true, button: 0 };
  for (const kind of ["pointermove", "pointerdown", "pointerup"]) {
    canvas.dispatchEvent(new PointerEvent(kind, at));
  }
  await settle();
}

it("keeps the waits of a device in sight under a thread of many levels", async () => {
  const root = await show(560);
  const canvas = find(root, ".tp-stage-canvas");
  const scroller = find(root, ".tp-graph");
  expect(scroller.scrollHeight).toBeGreaterThan(scroller.clientHeight + 200);
  await clickAt(canvas, 300, canvas.clientHeight - 20);
  expect(canvas.dataset.tpSelected).toBe("waiting");
});

it("lets the waits go to their place where that is in sight", async () => {
  const root = await show(560);
  const canvas = find(root, ".tp-stage-canvas");
  const scroller = find(root, ".tp-graph");
  scroller.scrollTop = scroller.scrollHeight;
  await settle();
  // The stream, of which only the first nanosecond is a slice, is the last lane.
  await clickAt(canvas, 300, canvas.clientHeight - 20);
  expect(canvas.dataset.tpSelected).toBe("");
});
