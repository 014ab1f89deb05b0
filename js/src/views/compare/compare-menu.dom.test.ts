import { describe, expect, it } from "vitest";
import { find, hostOf, type Mounted, openTab, press, settle } from "../../../test/report";
import { show } from "../../../test/shown";
import type { ChangeHeader } from "../../wire/header";

const RUNS = [
  { key: "recorded:a", title: "In [4]", aside: "14:05:12 · 222 ms per step", group: "This cell" },
  { key: "recorded:b", title: "<b>In [2]</b>", aside: "14:01:00", group: "This kernel" },
  { key: "kept:base", title: "base", aside: "2026-11-01 09:00", group: "Kept" },
];

/** Answers the last request of a page. */
async function answer({ host }: Mounted, reply: object): Promise<void> {
  const { id } = host.sent.at(-1) as { id: string };
  host.emit("msg:custom", { ...reply, id }, []);
  await settle();
}

async function openMenu({ root }: Mounted): Promise<void> {
  find(root, ".tp-compare .tp-menu-box > button").click();
  await settle();
}

function changeOf(shown: 0 | 1): ChangeHeader {
  const run = (index: number) => ({
    title: `run ${index}`,
    is_shown: index === shown,
    left_out: [],
    steps: [1e6, 2e6],
    typical: 1e6,
  });
  return {
    kind: "faster",
    title: "20 % faster, sure",
    numbers: "",
    answer: "",
    opens: "",
    evidence: "",
    warnings: [],
    runs: [run(0), run(1)],
    settings: [],
    same: "machine",
  };
}

/** A report that is compared; its table of ops is the tab Compare. */
function comparedHost(shown: 0 | 1, more: object = {}) {
  const host = hostOf({ can_compare: true, change: changeOf(shown), first: "compare", ...more });
  const header = JSON.parse(String(host.get("_header")));
  header.views.push({ ...header.views[0], name: "compare", tab: "compare", title: "Compare" });
  host.traits.set("_header", JSON.stringify(header));
  return host;
}

describe("the menu of runs to compare with", () => {
  it("lists the runs that the kernel knows when it opens, by where they come from", async () => {
    const report = await show(hostOf({ can_compare: true }));
    expect(report.host.sent).toEqual([]);
    await openMenu(report);
    expect(report.host.sent).toMatchObject([{ kind: "runs" }]);
    expect(find(report.root, ".tp-compare .tp-menu").textContent).toBe("Asking the kernel…");
    await answer(report, { kind: "runs", runs: RUNS });
    const lines = Array.from(report.root.querySelectorAll(".tp-compare .tp-menu li"));
    expect(lines.map((line) => line.textContent)).toEqual([
      "This cell",
      "In [4]14:05:12 · 222 ms per step",
      "This kernel",
      "<b>In [2]</b>14:01:00",
      "Kept",
      "base2026-11-01 09:00",
    ]);
  });

  it("asks for the comparison with the chosen one, once, and says so until the page comes", async () => {
    const report = await show(hostOf({ can_compare: true }));
    await openMenu(report);
    await answer(report, { kind: "runs", runs: RUNS });
    report.root.querySelectorAll<HTMLElement>(".tp-compare .tp-menu button")[1]?.click();
    await settle();
    expect(report.host.sent.at(-1)).toMatchObject({
      kind: "compare",
      run: "recorded:b",
      is_swapped: false,
    });
    expect(find(report.root, ".tp-compare [role=status]").textContent).toBe("Comparing…");
    expect(document.activeElement).toBe(find(report.root, ".tp-compare .tp-menu-box > button"));
    await answer(report, { kind: "error", message: "This run is no longer in memory." });
    expect(find(report.root, ".tp-status-failure [role=status]").textContent).toBe(
      "This run is no longer in memory.",
    );
  });

  it("says what to do when no other run is known", async () => {
    const report = await show(hostOf({ can_compare: true }));
    await openMenu(report);
    await answer(report, { kind: "runs", runs: [] });
    expect(find(report.root, ".tp-compare .tp-menu").textContent).toContain("Run the cell again");
  });

  it("says what is wrong with a list that is damaged", async () => {
    const report = await show(hostOf({ can_compare: true }));
    await openMenu(report);
    await answer(report, { kind: "runs", runs: [{ key: 1 }] });
    expect(find(report.root, ".tp-compare .tp-menu").textContent).toContain("missing or invalid");
  });

  it("is not there without a kernel, nor for a report that cannot be compared", async () => {
    const saved = hostOf({ can_compare: true });
    delete saved.send;
    expect((await show(saved)).root.querySelector(".tp-compare")).toBeNull();
    expect((await show(hostOf())).root.querySelector(".tp-compare")).toBeNull();
  });
});

describe("a comparison", () => {
  it("is shown when it comes, whatever tab was open, with the focus in the report", async () => {
    const report = await show(hostOf({ can_compare: true }));
    find(report.root, '[data-tp-tab="flame"]').click();
    await settle();
    report.root.focus();
    const compared = comparedHost(1);
    report.host.traits.set("_header", compared.get("_header"));
    report.host.emit("change:_header");
    await settle();
    expect(report.root.dataset.tpView).toBe("compare");
    expect(document.activeElement).toBe(report.root);
    expect(find(report.root, ".tp-dots-names").textContent).toBe(
      "run 02 steps · mean 1 msrun 1this run · 2 steps · mean 1 ms",
    );
  });

  it("is exchanged by X and by its button, back and forth", async () => {
    const report = await show(comparedHost(1));
    press(report.root, "x");
    await settle();
    expect(report.host.sent).toMatchObject([{ kind: "compare", run: "", is_swapped: true }]);
    press(report.root, "x"); // one at a time
    expect(report.host.sent).toHaveLength(1);
    const back = await show(comparedHost(0));
    find(back.root, ".tp-swap").click();
    await settle();
    expect(back.host.sent).toMatchObject([{ kind: "compare", run: "", is_swapped: false }]);
  });

  it("leaves X alone in other tabs, and offers no exchange without a kernel", async () => {
    const report = await show(comparedHost(1));
    find(report.root, '[data-tp-tab="ops"]').click();
    await settle();
    press(report.root, "x");
    expect(report.host.sent).toEqual([]);
    const saved = comparedHost(1);
    delete saved.send;
    expect((await show(saved)).root.querySelector(".tp-swap")).toBeNull();
  });
});

describe("the head of a comparison", () => {
  const legend = (root: HTMLElement) => find(root, ".tp-dots-legend").textContent;

  it("says what its marks mean, and of crosses only where there are some", async () => {
    const whole = changeOf(1);
    expect(legend((await show(comparedHost(1))).root)).toBe("● a step┃ mean");
    const runs = whole.runs.map((run) => ({ ...run, left_out: [1] }));
    const { root } = await show(comparedHost(1, { change: { ...whole, runs } }));
    expect(legend(root)).toContain("× not in the mean of its run");
  });

  it("has one color for its title, the steps after and the line of the header", async () => {
    const { root } = await show(comparedHost(1, { change_line: "▼ 2 ms faster" }));
    for (const part of [".tp-change h2", ".tp-dots-after"]) {
      expect(find(root, part).getAttribute("class")).toContain("tp-faster-text");
    }
    // The tab says it in its first line; all others in that of the header.
    expect(root.querySelector(".tp-change-line")).toBeNull();
    await openTab(root, "ops");
    expect(find(root, ".tp-change-line").getAttribute("class")).toContain("tp-faster-text");
  });
});
