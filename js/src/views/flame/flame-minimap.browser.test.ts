import { afterEach, expect, it } from "vitest";
import { encodeFrame, packViews } from "../../../test/encode";
import { treeHeader } from "../../../test/headers";
import { find, hostOf, type Mounted, mount, openTab, settle } from "../../../test/report";
import "../report.css";

let report: Mounted | undefined;

afterEach(() => {
  report?.unmount();
  document.body.replaceChildren();
});

it("hatches in the strip of the whole graph what the graph hatches", async () => {
  const self = Float64Array.of(0, 40e6, 60e6);
  const frame = encodeFrame([
    ["parent", Int32Array.of(-1, 0, 0)],
    ["name", ["all", "train.py(3): sleep", "aten::mm"]],
    ["kind", ["root", "python", "op"]],
    ["phase", ["python", "waiting", "forward"]],
    ["self_cpu_ns", self],
    ["total_cpu_ns", Float64Array.of(100e6, 40e6, 60e6)],
  ]);
  const weights = [{ name: "cpu_ns", title: "CPU", unit: "ns", share: 1 }] as const;
  const { views, data } = packViews([treeHeader("flame", { weights })], [frame]);
  const host = hostOf({ views });
  host.traits.set("_data", data);
  report = mount(host);
  report.element.style.width = "800px";
  await settle();
  await openTab(report.root, "flame");
  await settle();
  await new Promise((resolve) => setTimeout(resolve, 100));
  const canvas = find<HTMLCanvasElement>(report.root, ".tp-flame-minimap");
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  // The second row of the strip is 4 px high, from 6 px on; the one that waits is on the left.
  const colorsFrom = (share: number) => {
    const at = (x: number) => context.getImageData(share * canvas.width + x, 8, 1, 1).data.join();
    return new Set(Array.from({ length: 40 }, (_, x) => at(x))).size;
  };
  expect(colorsFrom(0.1)).toBeGreaterThan(1);
  expect(colorsFrom(0.6)).toBe(1);
});
