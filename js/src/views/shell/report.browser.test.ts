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

it("draws the memory of a lane as a chart that fills its box", async () => {
  report = mount(goldenHost());
  await settle();
  await openTab(report.root, "memory");
  expect(find(report.root, ".tp-view").dataset.tpPoints).toBe("2");
  const plot = find(report.root, ".tp-plot");
  const canvas = find(plot, "canvas");
  expect(canvas.getBoundingClientRect().width).toBe(plot.clientWidth);
});
