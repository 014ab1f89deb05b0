import { afterEach, describe, expect, it } from "vitest";
import { goldenHost } from "../../../test/golden";
import { factsHeader, tableHeader } from "../../../test/headers";
import { find, hostOf, type Mounted, mount, openTab, press, settle } from "../../../test/report";
import "../report.css";

let report: Mounted | undefined;

afterEach(() => {
  report?.unmount();
  document.body.replaceChildren();
});

async function show(widthPx: number, host = goldenHost()): Promise<HTMLElement> {
  report = mount(host);
  report.element.style.width = `${widthPx}px`;
  await settle();
  await settle();
  return report.root;
}

/** Opens a view by its tab, or where that has no room by its entry in the menu. */
async function open(root: HTMLElement, view: string): Promise<void> {
  if (root.querySelector(`[data-tp-tab="${view}"]`) === null) {
    find(root, ".tp-tabs .tp-menu-box button").click();
    await settle();
  }
  await openTab(root, view);
}

const boxOf = (root: Element, selector: string) => find(root, selector).getBoundingClientRect();

describe("what can be pressed over a table", () => {
  it.each([480, 700])("stands in one line with the filter at %d px", async (widthPx) => {
    const root = await show(widthPx);
    await open(root, "ops");
    const search = boxOf(root, ".tp-tools .tp-search");
    const buttons = [...root.querySelectorAll(".tp-tools > .tp-menu-box")];
    expect(buttons.length).toBeGreaterThan(0);
    for (const button of buttons) {
      expect(button.getBoundingClientRect().top).toBeLessThan(search.bottom);
    }
  });
});

it("leaves no column empty where there is no advice", async () => {
  const fact = { value: 1, unit: "ns", note: "", op: "", phase: "", view: "", spot: "" } as const;
  const facts = ["a", "b", "c"].map((label) => ({ ...fact, label }));
  const shown = { aside: "", kind: "bars", group: "main", lanes: [], marks: [], facts } as const;
  const sections = ["Waits", "Memory"].map((title) => ({ ...shown, title }));
  const root = await show(1100, hostOf({ views: [factsHeader("overview", { sections })] }));
  const placed = [...root.querySelectorAll(".tp-columns .tp-breakdown")];
  const lefts = placed.map((section) => section.getBoundingClientRect().left);
  expect(new Set(lefts).size).toBe(2);
  expect(find(root, "[data-tp-no-advice]").textContent).toContain("No advice.");
});

it("paints bars of what became slower and faster in two colors", async () => {
  const root = await show(1100);
  const colors = ["slower", "faster"].map((kind) => {
    const bar = document.createElement("span");
    bar.className = `tp-bar tp-${kind}`;
    root.append(bar);
    return getComputedStyle(bar).backgroundColor;
  });
  expect(new Set(colors).size).toBe(2);
  expect(colors).not.toContain("rgba(0, 0, 0, 0)");
});

describe("the tabs", () => {
  const lefts = (root: Element) =>
    [...root.querySelectorAll("[role=tab]")].map((tab) => tab.getBoundingClientRect().left);

  it("stay where they are, whichever is chosen", async () => {
    const root = await show(1100);
    await open(root, "timeline");
    const before = lefts(root);
    for (const view of ["ops", "memory"]) {
      await open(root, view);
      expect(lefts(root)).toEqual(before);
    }
  });

  it("stay at one height in all views of a job, whose verdict is long", async () => {
    const bars = {
      number: "name",
      total: "self_ns",
      late: "self_ns",
      parts: [],
      beside: [],
      waits: "",
      cards: [],
    };
    const words = "rank 7 starts later than the others. ".repeat(6);
    const verdict = {
      title: "Rank 7 is late",
      text: [{ text: words, style: "" as const }],
      more: [],
      code: null,
      doubts: [],
      without_advice: "",
    };
    const views = JSON.parse(String(hostOf().get("_header"))).views;
    const [ops] = views;
    const ranks = { ...tableHeader("ranks"), ...ops, name: "ranks", tab: "ranks", ranks: bars };
    const root = await show(700, hostOf({ verdict, views: [ranks, ...views] }));
    const tops = [];
    for (const view of ["ranks", "ops", "flame"]) {
      await open(root, view);
      tops.push(boxOf(root, ".tp-tabs").top);
    }
    expect(new Set(tops).size).toBe(1);
    const line = find(root, ".tp-verdict-line .tp-verdict");
    expect(line.scrollWidth).toBeLessThanOrEqual(line.clientWidth);
  });
});

it("keeps the end of the path in a flame graph legible, and leaves out its beginning", async () => {
  const root = await show(320, hostOf());
  await open(root, "flame");
  const canvas = find(root, ".tp-flame-canvas");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "Enter"]) press(canvas, key);
  await settle();
  const crumbs = [...root.querySelectorAll<HTMLElement>(".tp-crumb button")];
  const list = boxOf(root, ".tp-crumb-list");
  expect(crumbs.map(({ textContent }) => textContent)).toEqual(["…", "aten::add"]);
  expect(crumbs[0]?.title).toBe("all › aten::mm");
  for (const crumb of crumbs) {
    expect(crumb.getBoundingClientRect().left).toBeGreaterThanOrEqual(list.left);
  }
});

it("leaves a name whole in the footer where nothing else is said of it", async () => {
  const { views } = JSON.parse(String(hostOf().get("_header")));
  const flame = views.filter(({ name }: { readonly name: string }) => name === "flame");
  const root = await show(480, hostOf({ views: flame }));
  for (const key of ["ArrowDown", "ArrowDown"]) press(find(root, ".tp-flame-canvas"), key);
  await settle();
  const name = find(root, ".tp-footer .tp-item-name");
  expect(find(root, ".tp-footer .tp-item").textContent).toBe(name.textContent);
  expect(name.scrollWidth).toBeLessThanOrEqual(name.clientWidth);
});
