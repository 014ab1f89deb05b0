import axe from "axe-core";
import { afterEach, describe, expect, it, vi } from "vitest";
import { encodeFrame, lateView, type Values } from "../../../test/encode";
import { goldenHost } from "../../../test/golden";
import { factsHeader } from "../../../test/headers";
import {
  find,
  HOSTILE,
  hostOf,
  type Mounted,
  OPS,
  openTab,
  press,
  settle,
} from "../../../test/report";
import { show } from "../../../test/shown";
import { ns } from "../../base/units";
import { sharedOf } from "../../state/shared";

const CARD = {
  rule: "r",
  title: "Do less",
  fix: "",
  place: "",
  evidence: "",
  saving_ns: 2e6,
  saving_bytes: null,
  certainty: "measured",
  level: 3,
  at: "",
  spot: "",
  per: "",
  can_try: false,
  changes: [],
  is_whole: false,
  view: "",
};
let mounts = 0;

afterEach(() => {
  document.body.removeAttribute("data-jp-theme-light");
  vi.restoreAllMocks();
});

describe("a report", () => {
  it("marks its root as ready, with the id of its run", async () => {
    const { root } = await show();
    expect([root.dataset.tpReady, root.dataset.tpRun]).toEqual(["true", "run-1"]);
  });

  it("opens at its first view", async () => {
    const { root } = await show();
    expect(root.dataset.tpView).toBe("ops");
    expect(find(root, '[role="tab"][aria-selected="true"]').textContent).toBe("Ops6");
  });

  it("shows a sentence when its header cannot be read", async () => {
    const host = hostOf();
    host.traits.set("_header", "{");
    const { root } = await show(host);
    expect(root.textContent).toContain("cannot be read");
  });

  it("has no tab for an empty view, and says in one menu which flag brings it", async () => {
    const { root } = await show(hostOf({ missing: [{ title: "Memory", flag: "--memory" }] }));
    expect(root.querySelector('[data-tp-tab="memory"]')).toBeNull();
    find(root, ".tp-missing button").click();
    await settle();
    expect(find(root, ".tp-missing .tp-menu").textContent).toBe("Not in this runMemory--memory");
  });

  it("shows the message of a view that throws in its own tab only", async () => {
    const { root } = await show();
    await openTab(root, "broken");
    expect(find(root, ".tp-panel").textContent).toContain("This view cannot be shown");
    await openTab(root, "ops");
    expect(root.querySelectorAll("[data-tp-row]")).toHaveLength(6);
  });

  it("shows another report when Python sends one, at the tab that was open", async () => {
    const { root, host } = await show();
    await openTab(root, "notes");
    host.traits.set("_header", hostOf({ title: "In [5]" }).get("_header"));
    host.emit("change:_header");
    await settle();
    expect(find(root, ".tp-title").textContent).toBe("In [5]");
    expect(root.dataset.tpView).toBe("notes");
  });

  it("keeps filter, sorting and selection when the rest of the same run comes, and of no other page", async () => {
    const { root, host } = await show();
    host.traits.set("_progress", "Still running");
    host.emit("change:_progress");
    await openTab(root, "ops");
    const search = () => find(root, ".tp-search") as HTMLInputElement;
    search().value = "aten";
    search().dispatchEvent(new Event("input", { bubbles: true }));
    await settle();
    find(root, "[data-tp-row]").click();
    await settle();
    expect(find(root, ".tp-progress").textContent).toBe("Still running");
    const chosen = () => find(root, "[data-tp-row][aria-selected='true']").textContent;
    const before = chosen();
    host.traits.set("_progress", "");
    host.emit("change:_progress");
    await settle();
    host.traits.set("_is_more", true);
    host.traits.set("_header", hostOf({ title: "the whole run" }).get("_header"));
    host.emit("change:_header");
    await settle();
    expect(find(root, ".tp-title").textContent).toBe("the whole run");
    expect(root.querySelector(".tp-progress")).toBeNull();
    expect(root.dataset.tpView).toBe("ops");
    expect(search().value).toBe("aten");
    expect(chosen()).toBe(before);
    host.traits.set("_is_more", false);
    host.emit("change:_header");
    await settle();
    expect(search().value).toBe("");
  });

  it("opens the notes when the notice is clicked", async () => {
    const { root } = await show(hostOf({ notice: "214 kernels are missing." }));
    find(root, ".tp-notice").click();
    await settle();
    expect(root.dataset.tpView).toBe("notes");
  });

  it("lists problems in the order given", async () => {
    const { root } = await show();
    await openTab(root, "notes");
    const codes = Array.from(root.querySelectorAll<HTMLElement>("[data-tp-note]"));
    expect(codes.map((note) => note.dataset.tpNote)).toEqual(["b", "a"]);
  });

  it("has no accessibility violations that axe finds", async () => {
    const { root } = await show(hostOf({ notice: "Something was lost." }));
    for (const view of ["ops", "flame", "notes"]) {
      await openTab(root, view);
      // jsdom paints nothing, so contrast cannot be judged here.
      const rules = { "color-contrast": { enabled: false } };
      const { violations } = await axe.run(root, { rules });
      expect(violations.map(({ id, nodes }) => [view, id, nodes[0]?.html])).toEqual([]);
    }
  });
});

describe("the golden report", () => {
  // Memory needs a canvas, which jsdom has not: report.browser.test.ts shows it.
  const VIEWS = ["overview", "timeline", "ops", "flame", "source", "modules"];

  it("shows every view without accessibility violations", async () => {
    const { root } = await show(goldenHost());
    for (const view of VIEWS) {
      await openTab(root, view);
      expect(root.querySelector(".tp-panel .tp-sentence")).toBeNull();
      const { violations } = await axe.run(root, {
        rules: { "color-contrast": { enabled: false } },
      });
      expect(violations.map(({ id, nodes }) => [view, id, nodes[0]?.html])).toEqual([]);
    }
  });

  it("has a column for every step, on one scale and with that of the device", async () => {
    const { root } = await show(goldenHost());
    const labels = Array.from(root.querySelectorAll(".tp-step"), (step) => step.textContent);
    expect(labels).toEqual(["100.02", "120.03"]);
    const stacks = Array.from(root.querySelectorAll<HTMLElement>(".tp-step .tp-step-stack"));
    const devices = Array.from(root.querySelectorAll<HTMLElement>(".tp-step-device"));
    const ratio = (at: number) =>
      Number.parseFloat(devices[at]?.style.height ?? "") /
      Number.parseFloat(stacks[at]?.style.height ?? "");
    // 70 of 100 us, and 70 of 120.
    expect([ratio(0), ratio(1)].map((each) => each.toFixed(3))).toEqual(["0.700", "0.583"]);
  });

  it("shows one step in all views when its column is clicked, and all steps again", async () => {
    // As in a file, which counts the ops of a range itself.
    const { root } = await show(goldenHost({ ranged: [] }));
    find(root, '.tp-step[data-tp-step="3"] button').click();
    await settle();
    expect(find(root, ".tp-range-bar").textContent).toContain("Step 3, 120 µs");
    await openTab(root, "ops");
    const row = Array.from(root.querySelectorAll(".tp-rows [role=row]")).find((each) =>
      each.textContent?.includes("aten::mm"),
    );
    // One call of 80 us, all the host time there is, with a kernel of 70 us.
    expect(row?.textContent).toBe(
      ["forward aten::mm", "1", "80.00", "100.0", "80.00", "70.00"].join(""),
    );
    find(root, ".tp-range-bar button").click();
    await settle();
    expect(root.querySelector(".tp-range-bar")).toBeNull();
  });

  it("writes a fact as a number in its unit, or as the text that it is", async () => {
    const { root } = await show(goldenHost());
    find(root, "[data-tp-about]").click();
    await settle();
    const facts = Array.from(root.querySelectorAll(".tp-fact"), (fact) => fact.textContent);
    expect(facts).toContain("Mean step110 µsover 2 steps");
    expect(facts).toContain("Rank1 of 2, nccl");
    const phases = Array.from(root.querySelectorAll(".tp-phase-row"), (row) => row.textContent);
    expect(phases).toEqual(["forward72.5065.9 %", "Python37.5034.1 %"]);
  });

  it("opens the row of an op from a fact about it", async () => {
    const { root } = await show(goldenHost());
    const links = Array.from(root.querySelectorAll<HTMLElement>(".tp-top-lists .tp-link"));
    links.find((link) => link.textContent === "aten::mm")?.click();
    await settle();
    expect(root.dataset.tpView).toBe("ops");
    expect(find(root, '.tp-rows [aria-selected="true"] .tp-name').textContent).toBe("aten::mm");
  });

  it("has a line of keys in every view", async () => {
    const { root } = await show(goldenHost());
    for (const view of VIEWS) {
      await openTab(root, view);
      expect([view, root.querySelectorAll(".tp-hint").length > 0]).toEqual([view, true]);
    }
  });

  it("says the verdict in one line over the tabs of all other views", async () => {
    const { root } = await show(goldenHost());
    expect(root.querySelector(".tp-verdict-line")).toBeNull();
    await openTab(root, "ops");
    expect(find(root, ".tp-verdict-line").textContent).toContain("Device-bound");
  });

  it("opens its views with digits, and the list of keys with a question mark", async () => {
    const { root } = await show(goldenHost());
    press(root, "3");
    await settle();
    expect(root.dataset.tpView).toBe("ops");
    press(root, "?");
    await settle();
    expect(find(root, "[role=dialog]").textContent).toContain("choose a range of time");
  });

  it("goes back and forward through what was shown", async () => {
    const { root } = await show(goldenHost());
    const rest = () => new Promise((resolve) => setTimeout(resolve, 300));
    await rest();
    await openTab(root, "ops");
    await rest();
    find(root, '[aria-label="Back"]').click();
    await settle();
    expect(root.dataset.tpView).toBe("overview");
    find(root, '[aria-label="Forward"]').click();
    await settle();
    expect(root.dataset.tpView).toBe("ops");
  });
});

describe("hostile names", () => {
  it("stay text in every view", async () => {
    const { root } = await show();
    for (const view of ["ops", "flame", "notes"]) {
      await openTab(root, view);
      expect(root.querySelector("img, script")).toBeNull();
    }
    expect(root.querySelector(".tp-verdict code")?.textContent).toBe(HOSTILE[0]);
  });

  it("are shown whole", async () => {
    const { root } = await show();
    const names = Array.from(
      root.querySelectorAll(".tp-rows .tp-name"),
      (name) => name.textContent,
    );
    expect(names).toEqual(["aten::add", "aten::mm", ...HOSTILE]);
  });

  it("cannot reorder the text around them", async () => {
    const { root } = await show();
    const names = Array.from(root.querySelectorAll(".tp-rows .tp-name"));
    expect(names.every((name) => name.tagName === "BDI")).toBe(true);
  });

  it("can be selected", async () => {
    const { root } = await show();
    find(root, '[data-tp-row="3"]').click();
    await settle();
    expect(find(root, ".tp-item-name").textContent).toBe("__proto__");
  });
});

it("calls a selected kernel by what it fuses, as the tables do", async () => {
  const { root } = await show(hostOf({ titles: [["aten::mm", "relu · mm"]] }));
  find(root, '[data-tp-row="0"]').click();
  await settle();
  expect(find(root, ".tp-footer .tp-item-name").textContent).toBe("relu · mm");
  expect(find(root, ".tp-footer .tp-item").title).toContain("aten::mm");
});

describe("keys", () => {
  it("do not reach the notebook from any focusable element", async () => {
    const { root } = await show(hostOf({ notice: "Lost." }));
    const leaked: string[] = [];
    const listen = (event: Event) => leaked.push((event.target as HTMLElement).className);
    document.addEventListener("keydown", listen);
    for (const view of ["ops", "flame", "notes"]) {
      await openTab(root, view);
      for (const target of focusables(root)) press(target, "b");
    }
    document.removeEventListener("keydown", listen);
    expect(leaked).toEqual([]);
  });

  it("are excluded from notebook shortcuts on every focusable element", async () => {
    const { root } = await show(hostOf({ notice: "Lost." }));
    for (const view of ["ops", "flame", "notes"]) {
      await openTab(root, view);
      const bare = focusables(root).filter((each) => each.dataset.lmSuppressShortcuts !== "true");
      expect(bare.map((each) => each.outerHTML)).toEqual([]);
    }
  });

  it("include a slash that moves the focus to the search box", async () => {
    const { root } = await show();
    press(find(root, "[role=grid]"), "/");
    expect(document.activeElement).toBe(find(root, ".tp-search"));
  });

  it("move between tabs", async () => {
    const { root } = await show();
    press(find(root, '[data-tp-tab="ops"]'), "ArrowRight");
    await settle();
    expect(root.dataset.tpView).toBe("flame");
    press(find(root, '[data-tp-tab="flame"]'), "Home");
    await settle();
    expect(root.dataset.tpView).toBe("ops");
  });
});

function focusables(root: HTMLElement): readonly HTMLElement[] {
  return Array.from(
    root.querySelectorAll<HTMLElement>("button, input, canvas[tabindex], [tabindex]"),
  );
}

describe("a pulled view", () => {
  const answer = (report: Mounted, message: object, buffers: readonly DataView[]) => {
    const { id } = report.host.sent.at(-1) as { readonly id: string };
    report.host.emit("msg:custom", { id, ...message }, buffers);
    return settle();
  };

  it("shows that it is loading, and then its rows", async () => {
    const report = await show();
    await openTab(report.root, "pulled");
    expect(find(report.root, ".tp-panel").textContent).toBe("Loading…");
    const bytes = encodeFrame(OPS);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    await answer(report, { kind: "chunk", chunk: 0, chunks: 1 }, [view]);
    expect(report.root.querySelectorAll("[data-tp-row]")).toHaveLength(6);
  });

  it("offers to try again after a failure", async () => {
    const report = await show();
    await openTab(report.root, "pulled");
    await answer(report, { kind: "error", message: "The run is gone." }, []);
    expect(find(report.root, "[role=alert]").textContent).toBe("The run is gone.");
    find(report.root, ".tp-panel .tp-button").click();
    await settle();
    expect(report.host.sent).toHaveLength(2);
    expect(find(report.root, ".tp-panel").textContent).toBe("Loading…");
  });
});

describe("a view that the kernel computes for a range", () => {
  const TREE: readonly (readonly [string, Values])[] = [
    ["parent", Int32Array.of(-1, 0)],
    ["name", ["all", "aten::relu"]],
    ["kind", ["root", "op"]],
    ["phase", ["other", "forward"]],
    ["self_cpu", Float64Array.of(0, 7)],
    ["total_cpu", Float64Array.of(7, 7)],
  ];
  const HEADER = { shape: "tree", weights: [{ name: "cpu", title: "CPU", unit: "ns", share: 1 }] };
  const note = ({ root }: Mounted) => root.querySelector(".tp-range-note")?.textContent ?? "";
  const boxes = ({ root }: Mounted) =>
    find(root, "canvas.tp-flame-canvas").getAttribute("aria-label");
  const asked = ({ host }: Mounted) => host.sent.at(-1) as Readonly<Record<string, unknown>>;

  const answer = (report: Mounted, header: object, columns = TREE) => {
    const view = new DataView(lateView({ empty: null, ...HEADER, ...header }, columns).buffer);
    const message = { kind: "chunk", id: asked(report).id, chunk: 0, chunks: 1 };
    report.host.emit("msg:custom", message, [view]);
    return settle();
  };

  const choose = ({ root }: Mounted) => {
    const { range } = sharedOf(String(root.dataset.tpRun), new AbortController().signal);
    range.value = { start: ns(10), end: ns(30) };
    return settle();
  };

  /** A report whose flame graph is open, in a range of 20 ns. */
  async function inRange(more: Parameters<typeof hostOf>[0]): Promise<Mounted> {
    const host = hostOf({ run_id: `range-${mounts++}`, ...more });
    const report = await show(host);
    await openTab(report.root, "flame");
    await choose(report);
    return report;
  }

  it("keeps the old picture, marked as busy, until the answer is there", async () => {
    const report = await inRange({ ranged: ["flame"] });
    const { id, ...question } = asked(report);
    expect(id).toBeDefined();
    expect(question).toEqual({ kind: "get", name: "flame", chunk: 0, start_ns: 10, end_ns: 30 });
    expect(find(report.root, ".tp-in-range").getAttribute("aria-busy")).toBe("true");
    expect(boxes(report)).toContain("4 boxes");
    await answer(report, {});
    expect(boxes(report)).toContain("2 boxes");
    expect(find(report.root, ".tp-in-range").getAttribute("aria-busy")).toBe("false");
    expect(note(report)).toBe("");
  });

  it("has the facts of the range, and what to change in the whole", async () => {
    const section = (title: string) =>
      ({
        title,
        facts: [],
        kind: "facts",
        group: "main",
        aside: "",
        lanes: [],
        marks: [],
      }) as const;
    const host = hostOf({
      run_id: `range-${mounts++}`,
      views: [factsHeader("overview", { sections: [section("Of all")], cards: [CARD] })],
      ranged: ["overview"],
    });
    const report = await show(host);
    await choose(report);
    await answer(report, { shape: "facts", sections: [section("Of the step")], cards: [] }, []);
    const titles = Array.from(
      report.root.querySelectorAll(".tp-facts h3"),
      (each) => each.textContent,
    );
    expect(titles).toEqual([
      "What to changesaving in all",
      "Of the step",
      "In detailsaving in all",
    ]);
    expect(find(report.root, ".tp-first-cards").textContent).toContain("Do less");
  });

  it("shows all steps again without asking, and a known range at once", async () => {
    const report = await inRange({ ranged: ["flame"] });
    await answer(report, {});
    const count = report.host.sent.length;
    find(report.root, ".tp-range-bar button").click();
    await settle();
    expect(boxes(report)).toContain("4 boxes");
    await choose(report);
    expect(boxes(report)).toContain("2 boxes");
    expect(report.host.sent).toHaveLength(count);
  });

  it("says what the kernel says when it fails, and that nothing ran in a range", async () => {
    const failed = await inRange({ ranged: ["flame"] });
    failed.host.emit("msg:custom", { kind: "error", id: asked(failed).id, message: "Too bad." });
    await settle();
    expect(find(failed.root, ".tp-panel [role=alert]").textContent).toBe("Too bad.");
    find(failed.root, ".tp-panel .tp-sentence button").click();
    await settle();
    await answer(failed, {});
    expect(boxes(failed)).toContain("2 boxes");
    const empty = await inRange({ ranged: ["flame"] });
    await answer(empty, { empty: "Nothing in this range." });
    expect(find(empty.root, ".tp-panel").textContent).toBe("Nothing in this range.");
  });

  it("does not ask for the threads in time order, which the page cuts itself", async () => {
    const report = await show(goldenHost());
    await openTab(report.root, "flame");
    const shapes = find(report.root, '.tp-segmented[aria-label="Shape"]').querySelectorAll(
      "button",
    );
    shapes[1]?.click();
    await settle();
    expect(shapes[1]?.textContent).toBe("In time order");
    find(report.root, '[data-tp-step="3"]').click();
    await settle();
    expect(find(report.root, ".tp-range-bar").textContent).toContain("Step 3");
    // The panel beside it asks for the ops.
    expect(JSON.stringify(report.host.sent)).not.toContain('"flame"');
    expect(note(report)).toBe("");
    find(report.root, ".tp-range-bar button").click();
    await settle();
  });

  it("shows all steps and says so where nothing can compute it", async () => {
    const report = await inRange({ ranged: [] });
    expect(report.host.sent).toEqual([]);
    expect(boxes(report)).toContain("4 boxes");
    expect(note(report)).toBe("This view shows all steps.");
  });
});

describe("a grouping that the kernel builds on request", () => {
  const COLUMN = { definition: "", is_minor: false, has_bar: false, is_verbatim: false };
  const PLAIN = { is_sum: false, share: 1, is_change: false, parts: [] };
  const HEADER = {
    shape: "table",
    columns: [
      { name: "name", title: "Op", unit: "code", ...COLUMN, ...PLAIN },
      { name: "calls", title: "Calls", unit: "count", ...COLUMN, ...PLAIN },
    ],
    sort_by: "calls",
    bars: null,
    points: null,
    outline: null,
    is_sparse: false,
    ranks: null,
    note: null,
    device: null,
    answer: "",
    rest: null,
    empty: null,
  };
  const asked = ({ host }: Mounted) => host.sent.at(-1) as Readonly<Record<string, unknown>>;

  const answer = (report: Mounted, names: readonly string[], empty: string | null = null) => {
    const columns: readonly (readonly [string, Values])[] = [
      ["name", names],
      ["calls", Float64Array.from(names, () => 1)],
    ];
    const view = new DataView(lateView({ ...HEADER, empty }, columns).buffer);
    const message = { kind: "chunk", id: asked(report).id, chunk: 0, chunks: 1 };
    report.host.emit("msg:custom", message, [view]);
    return settle();
  };

  const shown = ({ root }: Mounted) =>
    Array.from(root.querySelectorAll("[data-tp-row]"), (row) => row.getAttribute("data-tp-row"));

  /** The ops by step, of which two are shown. */
  async function bySteps(ranged: readonly string[]): Promise<Mounted> {
    const report = await show(goldenHost({ ranged }));
    await openTab(report.root, "ops");
    const groups = find(report.root, '.tp-segmented[aria-label="Group by"]');
    Array.from(groups.querySelectorAll("button"))
      .find(({ textContent }) => textContent === "Step")
      ?.click();
    await settle();
    await answer(report, ["step 2", "step 3"]);
    expect(report.root.querySelectorAll("[data-tp-row]")).toHaveLength(2);
    return report;
  }

  const choose = async ({ root }: Mounted) => {
    find(root, '[data-tp-step="3"]').click();
    await settle();
  };

  it("is asked for again in the chosen step, and shows all steps after it", async () => {
    const report = await bySteps(["ops_step"]);
    await choose(report);
    const step = { start_ns: 100_000, end_ns: 220_000 };
    expect(asked(report)).toMatchObject({ kind: "get", name: "ops_step", ...step });
    await answer(report, ["step 3"]);
    expect(shown(report)).toHaveLength(1);
    expect(report.root.querySelector(".tp-range-note")).toBeNull();
    find(report.root, ".tp-range-bar button").click();
    await settle();
    expect(shown(report)).toHaveLength(2);
  });

  it("leaves a way to the other groupings where nothing ran", async () => {
    const report = await bySteps(["ops_step"]);
    await choose(report);
    await answer(report, [], "Nothing in this range.");
    expect(find(report.root, ".tp-sentence").textContent).toBe("Nothing in this range.");
    expect(report.root.querySelector('[aria-label="Group by"]')).not.toBeNull();
    find(report.root, ".tp-range-bar button").click();
  });

  it("shows all steps and says so where there is no kernel", async () => {
    const report = await bySteps([]);
    await choose(report);
    expect(shown(report)).toHaveLength(2);
    expect(find(report.root, ".tp-range-note").textContent).toBe("This view shows all steps.");
    find(report.root, ".tp-range-bar button").click();
  });
});

describe("exports", () => {
  const html = {
    name: "html",
    title: "HTML file",
    aside: "",
    kind: "save" as const,
    filename: "a.html",
    mime: "text/html",
  };
  const perfetto = {
    name: "perfetto",
    title: "Open in Perfetto",
    aside: "opens ui.perfetto.dev",
    kind: "perfetto" as const,
    filename: "a.json.gz",
    mime: "application/gzip",
  };

  /** Chooses an entry of the menu by its place. */
  async function choose(root: Element, place: number): Promise<void> {
    find(root, ".tp-export .tp-menu-box > button").click();
    await settle();
    const entries = root.querySelectorAll<HTMLElement>(".tp-export .tp-menu button");
    entries[place]?.click();
    await settle();
  }

  it("are offered where a kernel can answer, with what they open", async () => {
    const { root } = await show(hostOf({ exports: [html, perfetto] }));
    find(root, ".tp-export .tp-menu-box > button").click();
    await settle();
    expect(find(root, ".tp-export .tp-menu").textContent).toBe(
      "HTML fileOpen in Perfettoopens ui.perfetto.dev",
    );
  });

  it("are hidden where no kernel can be asked", async () => {
    const host = hostOf({ exports: [html, perfetto] });
    delete host.send;
    const { root } = await show(host);
    expect(root.querySelector(".tp-export")).toBeNull();
  });

  it("are hidden in a saved file that lists none", async () => {
    const host = hostOf();
    delete host.send;
    host.traits.set("_standalone", true);
    const { root } = await show(host);
    expect(root.querySelector(".tp-export")).toBeNull();
  });

  it("open nothing before the click, and say why Perfetto could not be opened until that is closed", async () => {
    const open = vi.spyOn(window, "open").mockReturnValue(null);
    const { root, host } = await show(hostOf({ exports: [html, perfetto] }));
    expect(open).not.toHaveBeenCalled();
    await choose(root, 1);
    expect(open).toHaveBeenCalledExactlyOnceWith("https://ui.perfetto.dev");
    expect(host.sent).toEqual([]);
    const status = find(root, ".tp-export [role=status]");
    expect(status.textContent).toContain("blocked the window");
    find(root, ".tp-status-failure button").click();
    await settle();
    expect(status.isConnected).toBe(true);
    expect(status.textContent).toBe("");
  });

  it("ask the kernel for the trace after the window is open, and say what they do", async () => {
    const close = vi.fn();
    const opened = {
      closed: false,
      location: { href: "about:blank" },
      postMessage: vi.fn(),
      close,
    };
    vi.spyOn(window, "open").mockReturnValue(opened as unknown as Window);
    const { root, host } = await show(hostOf({ exports: [html, perfetto] }));
    await choose(root, 1);
    expect(host.sent).toMatchObject([{ kind: "get", name: "export:perfetto", chunk: 0 }]);
    expect(find(root, ".tp-export [role=status]").textContent).toBe("Opening Perfetto…");
    const [{ id }] = host.sent as [{ id: string }];
    host.emit("msg:custom", { kind: "error", id, message: "The run is gone." }, []);
    await settle();
    expect(find(root, ".tp-export [role=status]").textContent).toBe("The run is gone.");
    expect(close).toHaveBeenCalledOnce();
  });

  it("close the window of Perfetto when the report is removed before the trace was sent", async () => {
    const close = vi.fn();
    const opened = {
      closed: false,
      location: { href: "about:blank" },
      postMessage: vi.fn(),
      close,
    };
    vi.spyOn(window, "open").mockReturnValue(opened as unknown as Window);
    const { root, unmount } = await show(hostOf({ exports: [perfetto] }));
    await choose(root, 0);
    unmount();
    await settle();
    expect(close).toHaveBeenCalled();
  });

  it("say why a file could not be made", async () => {
    const { root, host } = await show(hostOf({ exports: [html] }));
    await choose(root, 0);
    expect(find(root, ".tp-export .tp-status").textContent).toBe("Exporting…");
    const [{ id }] = host.sent as [{ id: string }];
    host.emit("msg:custom", { kind: "error", id, message: "No space left." }, []);
    await settle();
    expect(find(root, ".tp-status-failure [role=status]").textContent).toBe("No space left.");
  });
});

describe("the theme", () => {
  it("follows a dark notebook", async () => {
    document.body.dataset.jpThemeLight = "false";
    const { root } = await show();
    expect(root.dataset.tpTheme).toBe("dark");
  });

  it("changes when the notebook's does", async () => {
    const { root } = await show();
    expect(root.dataset.tpTheme).toBe("light");
    document.body.dataset.jpThemeLight = "false";
    await settle();
    expect(root.dataset.tpTheme).toBe("dark");
  });
});

describe("the static copy", () => {
  const addStatic = (runId: string) => {
    const element = document.createElement("details");
    element.dataset.tpStatic = runId;
    document.body.append(element);
    return element;
  };

  it("is hidden while the live report of its run is shown", async () => {
    const before = addStatic("run-1");
    const other = addStatic("run-2");
    await show();
    expect([before.style.display, other.style.display]).toEqual(["none", ""]);
  });

  it("is hidden also when it comes later", async () => {
    await show();
    const late = addStatic("run-1");
    await settle();
    expect(late.style.display).toBe("none");
  });

  it("comes back when the last live report of its run leaves", async () => {
    const element = addStatic("run-1");
    const first = await show();
    const second = await show();
    first.unmount();
    expect(element.style.display).toBe("none");
    second.unmount();
    expect(element.style.display).toBe("");
  });
});

describe("cleanup", () => {
  it("leaves nothing behind", async () => {
    const report = await show();
    await openTab(report.root, "flame");
    report.unmount();
    expect(report.element.childElementCount).toBe(0);
    expect(report.host.listeners).toEqual([]);
  });

  it("keeps another view of the same model alive", async () => {
    const host = hostOf();
    const first = await show(host);
    const second = await show(host);
    first.unmount();
    await openTab(second.root, "notes");
    expect(second.root.dataset.tpView).toBe("notes");
  });
});
