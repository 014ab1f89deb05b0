import { afterEach, expect, it } from "vitest";
import { goldenHost } from "../../../test/golden";
import { find, type Mounted, mount, openTab, settle } from "../../../test/report";
import "../report.css";

let report: Mounted | undefined;

afterEach(() => report?.unmount());

it("shows every view of the golden report inside the panel", async () => {
  report = mount(goldenHost());
  await settle();
  const { root } = report;
  for (const view of ["overview", "timeline", "ops", "flame", "source", "modules", "memory"]) {
    await openTab(root, view);
    expect(root.querySelector(".tp-panel .tp-sentence")).toBeNull();
    const panel = find(root, ".tp-panel").getBoundingClientRect();
    const shown = find(root, ".tp-panel > *").getBoundingClientRect();
    expect([shown.top, shown.bottom]).toEqual([panel.top, panel.bottom]);
  }
});

it("answers the question of each view in a sentence above it", async () => {
  report = mount(goldenHost());
  await settle();
  const { root } = report;
  const said: Record<string, string> = {};
  for (const view of ["timeline", "ops", "flame", "source", "modules", "memory"]) {
    await openTab(root, view);
    said[view] = root.querySelector(".tp-answer")?.textContent?.replaceAll("\u00a0", " ") ?? "";
  }
  expect(said).toEqual({
    timeline: "The device idles 50 of 120 µs in step 3, 35 µs of it for Python between ops.",
    // There is a single op, and no block is in use.
    ops: "",
    flame: "35 µs per step in … › cell:2: loss = model(batch) › … › layers.*: Linear › gemm",
    source: "Line 2 takes the most CPU time, 45.00 µs per step.",
    modules: "layers.0 (Linear) takes the most self device time: 35.00 µs per step.",
    memory: "",
  });
});

it("draws the memory of a lane as a chart that fills its box", async () => {
  report = mount(goldenHost());
  await settle();
  await openTab(report.root, "memory");
  expect(find(report.root, ".tp-view").dataset.tpPoints).toBe("2");
  const plot = find(report.root, ".tp-plot");
  const canvas = find(plot, "canvas");
  expect(canvas.getBoundingClientRect().width).toBe(plot.clientWidth);
});
