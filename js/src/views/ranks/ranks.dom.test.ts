import axe from "axe-core";
import { afterEach, describe, expect, it } from "vitest";
import { encodeFrame, packViews } from "../../../test/encode";
import { columnHeader, tableHeader } from "../../../test/headers";
import {
  type FakeHost,
  find,
  hostOf,
  type Mounted,
  mount,
  press,
  settle,
} from "../../../test/report";

const mounted: Mounted[] = [];

afterEach(() => {
  for (const report of mounted.splice(0)) report.unmount();
});

const COLUMNS = [
  columnHeader("rank", "count", { title: "Rank" }),
  columnHeader("step_ns", "ns", { title: "Step" }),
  columnHeader("compute_ns", "ns", { title: "Compute" }),
  columnHeader("caused_wait_ns", "ns", { title: "Others wait for it" }),
];

/** Ranks 0, 1 and 2 of 10, 20 and 15 ms, and as many `more` between; rank 1 waits 5 ms for the last, which is late. */
function host(more = 0): FakeHost {
  const between = (value: number) => Array<number>(more).fill(value);
  const parts = [
    { column: "compute_ns", title: "compute", look: "forward" },
    { column: "idle_ns", title: "GPU waits", look: "idle" },
  ];
  const ranks = {
    number: "rank",
    total: "step_ns",
    late: "is_late",
    parts,
    beside: ["step_ns", "compute_ns", "caused_wait_ns"],
    waits: "waits",
    cards: [
      {
        rule: "straggler",
        title: "Let rank 2 keep up",
        fix: "do this on all ranks alike",
        place: "line 12 of train.py",
        evidence: "Last in 1 of 1 collectives",
        saving_ns: 2e6,
        saving_bytes: null,
        certainty: "measured",
        level: 3,
        view: "",
        spot: "",
        at: " in",
        per: "",
        can_try: false,
        changes: [],
        is_whole: false,
      },
    ],
  };
  const views = [
    tableHeader("ranks", { columns: COLUMNS, ranks, count: 3 }),
    tableHeader("waits", { place: "strip" }),
  ];
  const packed = packViews(views, [
    encodeFrame([
      ["rank", Int32Array.from({ length: 3 + more }, (_, rank) => rank)],
      ["step_ns", Float64Array.of(10e6, 20e6, ...between(10e6), 15e6)],
      ["compute_ns", Float64Array.of(4e6, 5e6, ...between(4e6), 6e6)],
      ["idle_ns", Float64Array.of(6e6, 15e6, ...between(6e6), 9e6)],
      ["caused_wait_ns", Float64Array.of(0, 0, ...between(0), 5e6)],
      ["is_late", Int32Array.of(0, 0, ...between(0), 1)],
      ["steps", Int32Array.of(3, 3, ...between(3), 3)],
    ]),
    encodeFrame([
      ["number", Int32Array.of(1, 1, 1)],
      ["rank", Int32Array.of(0, 1, 2)],
      ["name", ["all_reduce", "all_reduce", "all_reduce"]],
      ["wait_ns", Float64Array.of(5e6, 2e6, 0)],
      ["is_last", Int32Array.of(0, 0, 1)],
    ]),
  ]);
  const made = hostOf({ views: packed.views });
  made.traits.set("_data", packed.data);
  return made;
}

async function show(shown = host()): Promise<Mounted> {
  const report = mount(shown);
  mounted.push(report);
  await settle();
  return report;
}

const order = (root: HTMLElement) =>
  Array.from(root.querySelectorAll<HTMLElement>("[data-tp-rank]"), (row) => row.dataset.tpRank);

describe("the ranks of a job", () => {
  it("are bars on one scale, the late one marked", async () => {
    const { root } = await show();
    const widths = Array.from(
      root.querySelectorAll<HTMLElement>(".tp-rank-bar"),
      (bar) => bar.style.width,
    );
    expect(widths.map(Number.parseFloat)).toEqual([50, 100, 75]);
    expect(find(root, ".tp-late .tp-rank-name").textContent).toBe("rank 2 ▲");
    expect(find(root, ".tp-rank-bar").getAttribute("aria-label")).toBe(
      "compute 4 ms, GPU waits 6 ms",
    );
  });

  it("have numbers with their points below one another, also that of a 0", async () => {
    const { root } = await show();
    const last = [0, 2].map((rank) => {
      const number = [...find(root, `[data-tp-rank="${rank}"]`).querySelectorAll("td")][3];
      return [
        number?.textContent,
        number?.querySelector("[data-tp-tail]")?.getAttribute("data-tp-tail"),
      ];
    });
    expect(last).toEqual([
      ["0", ".00"],
      ["5.00", undefined],
    ]);
  });

  it("stand by rank, by step time, or by what others wait for them", async () => {
    const { root } = await show();
    const buttons = root.querySelectorAll<HTMLElement>(".tp-segmented button");
    expect(order(root)).toEqual(["0", "1", "2"]);
    buttons[1]?.click();
    await settle();
    expect(order(root)).toEqual(["1", "2", "0"]);
    buttons[2]?.click();
    await settle();
    expect(order(root)[0]).toBe("2");
  });

  it("begin with the late one where it would be far down by its number", async () => {
    const { root } = await show(host(100));
    expect(order(root)[0]).toBe("102");
    const pressed = root.querySelector(".tp-segmented [aria-pressed=true]");
    expect(pressed?.textContent).toBe("Most waited for");
  });

  it("say what to change, with the line and the saving", async () => {
    const { root } = await show();
    const card = find(root, ".tp-card").textContent;
    expect(card).toContain("Let rank 2 keep up: do this on all ranks alike in line 12 of train.py");
    expect(card).toContain("up to 2 ms");
    expect(find(root, ".tp-cards h3").textContent).toContain("saving per step");
  });

  it("say who is late in one sentence, and the sums behind a click", async () => {
    const made = host();
    const header = JSON.parse(String(made.get("_header")));
    const plain = (text: string) => [{ text, style: "" }];
    const text = plain("It starts 3 ms later than the others; rank 1 waits longest, 5 ms.");
    const more = plain(" The others wait 7 ms for it together.");
    const verdict = { ...header.verdict, title: "Rank 2 is late", text, more, doubts: [] };
    made.traits.set("_header", JSON.stringify({ ...header, verdict }));
    const { root } = await show(made);
    const said = () => find(root, ".tp-verdict-line").textContent;
    expect(said()).toContain("rank 1 waits longest");
    expect(said()).not.toContain("together");
    find(root, ".tp-verdict-line .tp-link").click();
    await settle();
    expect(said()).toContain("The others wait 7\u00a0ms for it together.");
  });

  it("say what each waits in each collective, and who came last", async () => {
    const { root } = await show();
    const cells = Array.from(root.querySelectorAll(".tp-wait"), (cell) => cell.textContent);
    expect(cells).toEqual(["5.000", "2.000", "last"]);
  });

  it("ask for the report of a rank with a click or Enter, and show why it does not come", async () => {
    const { root, host: asked } = await show();
    find(root, '[data-tp-rank="1"] .tp-button').click();
    await settle();
    const [sent] = asked.sent as { kind: string; rank: number; id: string }[];
    expect([sent?.kind, sent?.rank]).toEqual(["open", 1]);
    asked.emit("msg:custom", { kind: "error", id: sent?.id, message: "It is gone." }, []);
    await settle();
    expect(find(root, ".tp-tools-note").textContent).toBe("It is gone.");
    press(find(root, '[data-tp-rank="2"] .tp-rank-name'), "Enter");
    await settle();
    expect((asked.sent[1] as { rank: number }).rank).toBe(2);
  });

  it("offer no reports where no kernel can answer", async () => {
    const silent = host();
    delete silent.send;
    const { root } = await show(silent);
    expect(root.querySelector("[data-tp-rank] .tp-button")).toBeNull();
  });

  it("lead back from the report of a rank", async () => {
    const { root, host: asked } = await show(hostOf({ parent: "All ranks" }));
    find(root, "[data-tp-parent]").click();
    await settle();
    expect(asked.sent).toMatchObject([{ kind: "open", rank: -1 }]);
  });

  it("have no accessibility violations", async () => {
    const { root } = await show();
    const { violations } = await axe.run(root, { rules: { "color-contrast": { enabled: false } } });
    expect(violations.map(({ id }) => id)).toEqual([]);
  });
});
