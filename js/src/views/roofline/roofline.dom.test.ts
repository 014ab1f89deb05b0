import axe from "axe-core";
import { afterEach, expect, it } from "vitest";
import { encodeFrame, packViews } from "../../../test/encode";
import { columnHeader, tableHeader } from "../../../test/headers";
import { find, hostOf, type Mounted, mount, press, settle } from "../../../test/report";

const mounted: Mounted[] = [];

afterEach(() => {
  for (const report of mounted.splice(0)) report.unmount();
});

const COLUMNS = [
  columnHeader("name", "code", { title: "Op" }),
  columnHeader("phase", "phase", { title: "Phase" }),
  columnHeader("worked_ns", "ns", { title: "Work time" }),
  columnHeader("roof_ratio", "ratio", { title: "Of the roof" }),
];
const ROOFS = [
  { title: "memory", flops_per_s: 0, bytes_per_s: 1e12 },
  { title: "bf16 products", flops_per_s: 1e14, bytes_per_s: 0 },
];

/** A product at half of its roof, a sum at half of the memory's, and a copy, which computes nothing. */
async function show(roofs = ROOFS): Promise<HTMLElement> {
  const points = {
    x: "flops_per_byte",
    y: "flops_per_s",
    x_of_none: "moved_bytes_per_s",
    size: "worked_ns",
    phase: "phase",
    roofs,
  };
  const views = [
    tableHeader("roofline", { title: "Roofline", group: "Op", columns: COLUMNS, points, count: 3 }),
  ];
  const packed = packViews(views, [
    encodeFrame([
      ["name", ["aten::mm", "aten::add", "aten::copy_"]],
      ["phase", ["forward", "backward", "forward"]],
      ["kind", ["cpu_op", "cpu_op", "cpu_op"]],
      ["worked_ns", Float64Array.of(4e6, 1e6, 1e6)],
      ["roof_ratio", Float64Array.of(0.5, 0.5, 0.5)],
      ["flops_per_byte", Float64Array.of(1000, 0.25, 0)],
      ["flops_per_s", Float64Array.of(5e13, 1.25e11, Number.NaN)],
      ["moved_bytes_per_s", Float64Array.of(5e10, 5e11, 5e11)],
    ]),
  ]);
  const host = hostOf({ views: packed.views });
  host.traits.set("_data", packed.data);
  const report = mount(host);
  mounted.push(report);
  await settle();
  return report.root;
}

const circles = (root: HTMLElement) => [
  ...root.querySelectorAll<SVGCircleElement>(".tp-roof-point"),
];
const numberOf = (element: Element | undefined, name: string) =>
  Number(element?.getAttribute(name));

const placeOf = (element: Element) => {
  const [x = 0, y = 0] =
    element
      .getAttribute("transform")
      ?.match(/-?[\d.]+/g)
      ?.map(Number) ?? [];
  return { x, y };
};

it("puts the name of a roof where it covers no point", async () => {
  const root = await show();
  const [product] = circles(root);
  const name = find(root, ".tp-roofs g:nth-child(2) text");
  // The product is at half of its roof, so that it reaches up to the line, and is as far to the right as the name.
  const gap = Math.abs(placeOf(name).y - numberOf(product, "cy"));
  expect(gap).toBeGreaterThan(numberOf(product, "r") + 5);
});

it("draws a point for each row, as large as its time, and below its roof", async () => {
  const root = await show();
  const [product, sum, copy] = circles(root);
  expect(numberOf(product, "r")).toBeCloseTo(2 * numberOf(sum, "r"));
  expect(numberOf(product, "cx")).toBeGreaterThan(numberOf(sum, "cx"));
  // Both are at half of the memory's bandwidth, which rises to the right: as far below it.
  const fall =
    (numberOf(copy, "cy") - numberOf(sum, "cy")) / (numberOf(sum, "cx") - numberOf(copy, "cx"));
  const rise = numberOf(sum, "cy") - numberOf(product, "cy");
  expect(fall).toBeGreaterThan(0);
  expect(rise).toBeGreaterThan(0);
  const roofs = [...root.querySelectorAll(".tp-roofs text")].map(({ textContent }) => textContent);
  // 100 TFLOP/s at 1 TB/s: with fewer than 100 operations a byte the memory limits.
  // The first row is the one that could gain the most: its point is named, too.
  expect(roofs).toEqual(["memory 1 TB/s", "bf16 products 100 TFLOP/s", "ridge 100", "aten::mm"]);
  const foot = placeOf(find(root, ".tp-roof-foot")).x;
  expect(foot).toBeLessThan(numberOf(product, "cx"));
  expect(foot).toBeGreaterThan(numberOf(sum, "cx"));
});

it("has no roofs where the peak of the device is not known", async () => {
  const root = await show([]);
  expect(circles(root)).toHaveLength(3);
  expect(root.querySelectorAll(".tp-roofs path")).toHaveLength(0);
});

it("chooses points with the arrow keys, which selects their rows and says so", async () => {
  const root = await show();
  const plane = find<HTMLElement>(root, ".tp-roof-plane");
  press(plane, "ArrowRight");
  await settle();
  press(plane, "ArrowRight");
  await settle();
  expect(circles(root).findIndex((each) => each.classList.contains("tp-roof-chosen"))).toBe(1);
  expect(plane.getAttribute("aria-label")).toContain("Selected: aten::add");
  expect(find(root, ".tp-grid [aria-selected=true]").textContent).toContain("aten::add");
});

it("is a picture with words for those who do not see it", async () => {
  const root = await show();
  const label = find(root, ".tp-roof-plane").getAttribute("aria-label");
  expect(label).toContain("3 points below the roofs");
  const found = await axe.run(find(root, ".tp-roofline"), {
    rules: { "color-contrast": { enabled: false } },
  });
  expect(found.violations.map(({ id }) => id)).toEqual([]);
});
