import { afterEach, describe, expect, it } from "vitest";
import { encodeFrame, packViews } from "../../../test/encode";
import { adviceCard, columnHeader, factsHeader, tableHeader } from "../../../test/headers";
import { find, HOSTILE, hostOf, type Mounted, mount, openTab, settle } from "../../../test/report";
import type { Card, ReportHeader, Section, TableHeader } from "../../wire/header";

const CARD = adviceCard({ spot: "In [4]:3" });
const PARTS = [
  { column: "own_ns", phase: "" },
  { column: "backward_ns", phase: "backward" },
  { column: "wait_ns", phase: "waiting" },
];
const COLUMNS = [
  columnHeader("line", "count"),
  columnHeader("source", "code", { is_verbatim: true }),
  columnHeader("cpu_ns", "ns", { title: "CPU", has_bar: true, is_sum: true, parts: PARTS }),
  columnHeader("phase", "phase"),
];
const TEXTS = ["%%torchprof", "for x in data:", "    h = layer(h)", HOSTILE[0], "outside"];
const LINES_COLUMNS: Parameters<typeof encodeFrame>[0] = [
  ["file", ["In [4]", "In [4]", "In [4]", "a.py", ""]],
  ["line", Float64Array.of(1, 2, 3, 7, Number.NaN)],
  ["source", TEXTS],
  ["phase", ["", "data", "forward", "forward", ""]],
  ["cpu_ns", Float64Array.of(0, 2e6, 16e6, 4e6, 8e6)],
  ["own_ns", Float64Array.of(0, 2e6, 4e6, 4e6, 8e6)],
  ["backward_ns", Float64Array.of(0, 0, 8e6, 0, 0)],
  ["wait_ns", Float64Array.of(0, 0, 4e6, 0, 0)],
];
const LINES = encodeFrame(LINES_COLUMNS);

let mounted: Mounted | null = null;

interface Shown {
  readonly cards?: readonly Card[];
  readonly sections?: readonly Section[];
  readonly source?: Partial<TableHeader>;
  readonly header?: Partial<ReportHeader>;
  readonly lines?: typeof LINES;
}

/** A report of two steps with the code above. */
async function show(shown: Shown = {}) {
  const { cards = [], sections = [], source = {}, header = {}, lines = LINES } = shown;
  const view = tableHeader("source", { columns: COLUMNS, is_sparse: true, ...source });
  const packed = packViews([view], [lines]);
  const views = [factsHeader("overview", { cards, sections }), ...packed.views];
  const host = hostOf({ views, steps: 2, step_ns: 15e6, ...header });
  host.traits.set("_data", packed.data);
  mounted = mount(host);
  await settle();
  await settle();
  return mounted.root;
}

const textsOf = (root: Element, selector: string) =>
  [...root.querySelectorAll(selector)].map(({ textContent }) => textContent);

afterEach(() => {
  mounted?.unmount();
  document.body.replaceChildren();
});

describe("the code on the overview", () => {
  it("stands first after the verdict, with its indents", async () => {
    const root = await show();
    expect(find(root, ".tp-verdict-whole").nextElementSibling?.className).toContain("tp-lines");
    expect(textsOf(root, ".tp-lines .tp-code")).toEqual(TEXTS);
    expect(textsOf(root, ".tp-line-number")).toEqual(["1", "2", "3", "7", ""]);
    expect(textsOf(root, ".tp-lines-file")).toEqual(["a.py"]);
    expect(root.querySelector("img")).toBeNull();
  });

  it("says of what device time consists that is more than the device was busy", async () => {
    const columns = COLUMNS.map((column) =>
      column.name === "cpu_ns" ? { ...column, name: "device_ns", title: "Device" } : column,
    );
    const lines = encodeFrame(
      LINES_COLUMNS.map(([name, values]) => [name === "cpu_ns" ? "device_ns" : name, values]),
    );
    const device = { devices: 1, busy_ns: 26e6, overlap_ns: 0, outside_ns: 4e6, has_steps: true };
    const root = await show({ source: { columns, device }, lines });
    const said = find(root, ".tp-lines .tp-split > .tp-aside").textContent?.replaceAll(
      "\u00a0",
      " ",
    );
    expect(said).toBe("Device ms per step: 13 ms busy + 2 ms outside of steps");
  });

  it("says where the rest of the time of a line stands", async () => {
    const notes = ["", "8 ms per step in a.py:7", "", HOSTILE[1], ""];
    const lines = encodeFrame([...LINES_COLUMNS, ["note", notes]]);
    const root = await show({ source: { note: "note" }, lines });
    expect(textsOf(root, ".tp-line-note")).toEqual(["8 ms per step in a.py:7", HOSTILE[1]]);
    expect(root.querySelector("img")).toBeNull();
  });

  it("has the numbers and bars of the view of the source, per step", async () => {
    const root = await show();
    const numbers = textsOf(root, ".tp-lines .tp-bar-value");
    const bars = () =>
      [...root.querySelectorAll<HTMLElement>(".tp-bar")].map(
        ({ className, style, title }) => `${className} ${style.cssText} ${title}`,
      );
    const drawn = bars();
    // 16 ms in two steps, the longest: a quarter itself, a half backward, and a quarter waiting.
    expect(numbers).toEqual(["", "1.000", "8.000", "2.000", "4.000"]);
    expect(drawn.filter((bar) => bar.includes("tp-hatched"))[1]).toContain("width: 25%");
    await openTab(root, "source");
    expect(textsOf(root, ".tp-rows .tp-bar-value")).toEqual(numbers);
    expect(bars()).toEqual(drawn);
  });

  it("has advice at its line, under its number, and leaves the rest in the list", async () => {
    const cards = [{ ...CARD, view: "", spot: "", title: "Elsewhere" }, CARD];
    const root = await show({ cards });
    const line = find(root, ".tp-line-change").closest("ul > li");
    expect(line?.querySelector(".tp-code")?.textContent).toBe("    h = layer(h)");
    expect(textsOf(root, ".tp-line-change")).toEqual([
      // What to do stands beside the verdict.
      "2x=1It takes 2\u00a0ms.up to 2 msmeasured ●●●",
    ]);
    expect(textsOf(root, ".tp-cards .tp-card-number")).toEqual(["1"]);
  });

  it("opens the reasons of advice, and folds those of a guess under what to do", async () => {
    const guess = { ...CARD, certainty: "guess", level: 1, saving_ns: null };
    const root = await show({ cards: [CARD, guess] });
    const folds = [...root.querySelectorAll<HTMLDetailsElement>(".tp-line-change details")];
    expect(folds.map(({ open }) => open)).toEqual([true, false]);
    expect(textsOf(root, ".tp-line-change summary")).toEqual(["x=1", "x=1"]);
  });

  it("shows advice at its line as the change of that line, or of the line that makes what it names", async () => {
    const changes = [{ line: 3, before: "h = f(h)  # ü", after: "h = f(h, fused=True)  # ü" }];
    const part = { ...CARD, changes };
    const root = await show({ cards: [{ ...part, is_whole: true }, part] });
    expect(textsOf(root, ".tp-diff > *").slice(0, 4)).toEqual([
      "3 −",
      "h = f(h)  # ü",
      "3 +",
      "h = f(h, fused=True)  # ü",
    ]);
    expect(textsOf(root, ".tp-diff del")[0]).toBe("h = f(h)  # ü");
    expect(textsOf(root, ".tp-diff ins strong")[0]).toBe(", fused=True");
    // What the lines do not say of the change stays.
    expect(textsOf(root, ".tp-line-change summary .tp-card-code")).toEqual(["x=1"]);
    expect(textsOf(root, ".tp-line-change p")).toEqual(Array(2).fill("It takes 2\u00a0ms."));
  });

  it("shows lines with markup as text", async () => {
    const [text] = HOSTILE;
    const changes = [{ line: 3, before: text, after: `${text}, x=1` }];
    const root = await show({ cards: [{ ...CARD, changes, is_whole: true }] });
    expect(textsOf(root, ".tp-diff del")).toEqual([text]);
    expect(textsOf(root, ".tp-diff ins")).toEqual([`${text}, x=1`]);
    expect(root.querySelector("img")).toBeNull();
  });

  it("is preceded by the changes that save most, whose titles stand there alone, with their numbers", async () => {
    const count = 12;
    const times = Float64Array.from({ length: count }, () => 1e6);
    const zeros = new Float64Array(count);
    const lines = encodeFrame([
      ["file", Array.from(times, () => "In [4]")],
      ["line", Float64Array.from(times, (_, at) => at + 1)],
      ["source", Array.from(times, (_, at) => `f(${at})`)],
      ["phase", Array.from(times, () => "forward")],
      ["cpu_ns", times],
      ["own_ns", times],
      ["backward_ns", zeros],
      ["wait_ns", zeros],
    ]);
    const card = (saving_ns: number | null, title: string, line: number) => {
      return { ...CARD, saving_ns, title, spot: `In [4]:${line}` };
    };
    const known = ["First", "Second", "Third", "Fourth", "Fifth"].map((title, at) =>
      card((5 - at) * 1e6, title, at + 1),
    );
    const root = await show({ cards: [...known, card(null, "Guess", 7)], lines });
    expect(textsOf(root, ".tp-first-cards li").map((text) => text.slice(0, 7))).toEqual([
      "1First ",
      "2Second",
      "3Third ",
      "4Fourth",
    ]);
    const savings = [5, 4, 3, 2].map((ms) => `up to ${ms}\u00a0ms`);
    expect(textsOf(root, ".tp-first-cards strong")).toEqual(savings);
    const numbers = textsOf(root, ".tp-line-change .tp-card-number");
    expect(numbers).toEqual(["1", "2", "3", "4", "5", "6"]);
    const titles = ["First", "Fourth", "Fifth", "Guess"];
    const told = textsOf(root, ".tp-line-change").join("");
    expect(titles.filter((title) => told.includes(title))).toEqual(["Fifth", "Guess"]);
  });

  it("names no place of a change that belongs to no line, and every color that can be seen", async () => {
    const waits = Float64Array.of(0, 0, 0.1e6, 0, 0);
    const columns = LINES_COLUMNS.filter(([name]) => name !== "wait_ns");
    const lines = encodeFrame([...columns, ["wait_ns", waits]]);
    const root = await show({ cards: [{ ...CARD, title: "Fuse", place: "", spot: "" }], lines });
    expect(textsOf(root, ".tp-first-cards li")).toEqual(["1Fuse: up to 2\u00a0ms"]);
    expect(textsOf(root, ".tp-lines .tp-legend li")).toContain("waiting");
  });

  it("shows an empty line as one, and not by its place", async () => {
    const lines = encodeFrame([
      ...LINES_COLUMNS.filter(([name]) => name !== "source"),
      ["source", ["", ...TEXTS.slice(1)]],
    ]);
    const root = await show({ lines });
    expect(textsOf(root, ".tp-line-text")[0]).toBe("");
  });

  it("leads from a line to its row in the view of the source", async () => {
    const root = await show();
    [...root.querySelectorAll<HTMLElement>(".tp-line-text")][2]?.click();
    await settle();
    await settle();
    const row = find(root, ".tp-rows [aria-selected=true]").textContent;
    expect(row).toContain("h = layer(h)");
  });

  it("marks the line that the verdict names, instead of repeating it there", async () => {
    const code = { line: 3, source: "h = layer(h)", spot: "In [4]:3" };
    const verdict = {
      title: "Host-bound",
      text: [],
      more: [],
      code,
      doubts: [],
      without_advice: "",
    };
    const root = await show({ header: { verdict } });
    expect(textsOf(root, ".tp-line-named .tp-code")).toEqual(["    h = layer(h)"]);
    expect(root.querySelector(".tp-code-line")).toBeNull();
  });

  it("names functions with their places, the hottest first, without the numbers of lines", async () => {
    const root = await show({ source: { sort_by: "cpu_ns" } });
    const rows = textsOf(root, ".tp-functions .tp-line-text");
    expect(rows[0]).toBe("    h = layer(h)In [4]:3");
    expect(rows[1]).toBe(`${HOSTILE[0]}a.py:7`);
    expect(rows.at(-1)).toBe("outside");
  });

  it("cuts the folders of a path before the name of the file", async () => {
    const lines = encodeFrame([
      ["file", ["qwen2/modeling_qwen2.py"]],
      ["line", Float64Array.of(150)],
      ["source", [HOSTILE[0]]],
      ["cpu_ns", Float64Array.of(4e6)],
    ]);
    const root = await show({ lines, source: { sort_by: "cpu_ns" } });
    expect(textsOf(root, ".tp-path-folders")).toEqual(["qwen2/"]);
    expect(textsOf(root, ".tp-path-file")).toEqual(["modeling_qwen2.py"]);
    expect(find(root, ".tp-line-text").title).toContain("qwen2/modeling_qwen2.py:150");
  });

  it("has the functions that its lines call below them, with their places", async () => {
    const lines = encodeFrame([
      ["file", ["In [4]", "", "a.py"]],
      ["line", Float64Array.of(1, Number.NaN, 7)],
      ["source", ["f(x)", "functions that these lines call", HOSTILE[0]]],
      ["phase", ["forward", "", "forward"]],
      ["cpu_ns", Float64Array.of(4e6, 0, 2e6)],
      ["is_aside", Int32Array.of(0, 0, 1)],
    ]);
    const root = await show({ lines });
    expect(textsOf(root, ".tp-lines-file")).toEqual(["functions that these lines call"]);
    expect(textsOf(root, ".tp-line-text")).toEqual(["f(x)", `${HOSTILE[0]}a.py:7`]);
    expect(textsOf(root, ".tp-line-number")).toEqual(["1", ""]);
  });

  it("stands for the top list of lines", async () => {
    const list = {
      title: "Lines",
      aside: "",
      kind: "bars",
      group: "top",
      lanes: [],
      marks: [],
    } as const;
    const fact = {
      label: "2",
      value: 1,
      unit: "ns",
      note: "",
      op: "x",
      phase: "",
      spot: "",
    } as const;
    const sections = [
      { ...list, facts: [{ ...fact, view: "source" }] },
      { ...list, title: "Ops", facts: [{ ...fact, view: "ops" }] },
    ];
    const root = await show({ sections });
    expect(textsOf(root, ".tp-breakdown h3")).toEqual(["Opsns "]);
  });

  it("is absent where no line is known, and the list of advice is whole", async () => {
    const root = await show({ cards: [CARD], source: { empty: "Lines are not known." } });
    expect(root.querySelector(".tp-lines")).toBeNull();
    expect(textsOf(root, ".tp-cards .tp-card-number")).toEqual(["1"]);
  });
});
