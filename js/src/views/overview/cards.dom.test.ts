import { afterEach, describe, expect, it } from "vitest";
import { encodeFrame, packViews } from "../../../test/encode";
import { adviceCard, columnHeader, factsHeader, tableHeader } from "../../../test/headers";
import { find, HOSTILE, hostOf, type Mounted, mount, settle } from "../../../test/report";
import type { Card } from "../../wire/header";

const CARD = adviceCard({ fix: "`x=1`, or not", view: "ops" });
let mounted: Mounted | null = null;

it("says whether savings are those of a step or of a recording without steps", async () => {
  const asides = [];
  for (const stepNs of [null, 4e6]) {
    mounted = mount(
      hostOf({ views: [factsHeader("overview", { cards: [CARD] })], step_ns: stepNs }),
    );
    await settle();
    asides.push(find(mounted.root, ".tp-cards h3 .tp-aside").textContent);
    mounted.unmount();
  }
  expect(asides).toEqual(["saving in all", "saving per step"]);
});

async function textsOf(...cards: readonly Partial<Card>[]): Promise<readonly string[]> {
  const views = [factsHeader("overview", { cards: cards.map((card) => ({ ...CARD, ...card })) })];
  mounted = mount(hostOf({ views }));
  await settle();
  return [...mounted.root.querySelectorAll(".tp-card")].map((card) => card.textContent ?? "");
}

afterEach(() => {
  mounted?.unmount();
  document.body.replaceChildren();
});

describe("what to change", () => {
  it("says the change, the line, the evidence, the saving and how sure it is", async () => {
    const [text] = await textsOf({});
    expect(text).toBe("1x=1, or not in line 3It takes 2\u00a0ms.up to 2 msmeasured ●●●");
    expect(find(document.body, ".tp-card-code").textContent).toBe("x=1");
    // Beside the verdict stands what to do, with the same number.
    expect(find(document.body, ".tp-first-cards li").textContent).toBe(
      "1Do less in line 3: up to 2\u00a0ms",
    );
  });

  it("has changed lines in place of the code, where they are all of the change", async () => {
    const changes = [{ line: 2, before: "f(a)", after: "f(a, x=1)" }];
    const [whole, part] = await textsOf({ changes, is_whole: true }, { changes });
    expect(whole).toContain("1Do less in line 32 −f(a)2 +f(a, x=1)It takes");
    expect(part).toContain("2x=1, or not in line 32 −f(a)2 +f(a, x=1)It takes");
  });

  it("says bytes where no time is known, and of a guess only that it is one", async () => {
    const texts = await textsOf(
      { saving_ns: null, saving_bytes: 2 ** 20, certainty: "estimated", level: 2 },
      { saving_ns: null, certainty: "guess", level: 1 },
    );
    expect(texts[0]).toContain("1 MiBestimated ●●○");
    expect(texts[1]).toMatch(/[^0-9a-z]guess ●○○/);
  });

  it("says what was measured here, and that it may be nothing", async () => {
    const here = { certainty: "measured here", level: 3 };
    const texts = await textsOf({ ...here, saving_ns: 2e6 }, { ...here, saving_ns: 0 });
    expect(texts[0]).toContain("2 msmeasured here ●●●");
    expect(texts[1]).toContain("nothingmeasured here ●●●");
  });

  it("says where other changes leave nothing to save", async () => {
    const [text] = await textsOf({ saving_ns: 0 });
    expect(text).toContain("nothing moremeasured ●●●");
  });

  it("says that memory which grows is saved with each step, and that its line allocates it", async () => {
    const leak = { saving_ns: null, saving_bytes: 2 ** 20, at: "; allocated in", per: " per step" };
    const [text] = await textsOf(leak);
    expect(text).toContain("x=1, or not; allocated in line 3");
    expect(text).toContain("1 MiB per step");
  });

  it("has advice tried where a kernel can answer, and says while it does so, and why it could not", async () => {
    const views = [
      factsHeader("overview", { cards: [CARD, { ...CARD, title: "Other", can_try: true }] }),
    ];
    mounted = mount(hostOf({ views, can_try: true }));
    await settle();
    const buttons = () => [...document.body.querySelectorAll<HTMLButtonElement>(".tp-try button")];
    expect(buttons().map(({ textContent }) => textContent)).toEqual(["Try it here"]);
    buttons()[0]?.click();
    await settle();
    const asked = mounted.host.sent.at(-1) as Readonly<Record<string, unknown>>;
    expect(asked).toMatchObject({ kind: "try", card: 2 });
    expect([buttons()[0]?.textContent, buttons()[0]?.disabled]).toEqual(["Trying…", true]);
    const message = "It cannot be tried here.";
    mounted.host.emit("msg:custom", { kind: "error", id: asked.id, message }, []);
    await settle();
    expect(find(document.body, ".tp-try-failure").textContent).toBe(message);
    expect(buttons()[0]?.textContent).toBe("Try it here");
  });

  it("offers no trial in a page that nothing answers", async () => {
    const views = [factsHeader("overview", { cards: [{ ...CARD, can_try: true }] })];
    mounted = mount(hostOf({ views }));
    await settle();
    expect(document.body.querySelector(".tp-try")).toBeNull();
  });

  it("shows hostile texts as they are", async () => {
    const [text] = await textsOf({ title: HOSTILE[0], fix: "", evidence: `\`${HOSTILE[2]}\`` });
    expect(text).toContain(HOSTILE[0]);
    expect(text).toContain(HOSTILE[2]);
    expect(document.body.querySelector("img")).toBeNull();
  });

  it("leads to its line, also where another has the same text", async () => {
    const columns = [
      columnHeader("line", "count"),
      columnHeader("source", "code", { is_verbatim: true }),
    ];
    const lines = encodeFrame([
      ["file", ["In [4]", "In [4]", "In [4]"]],
      ["line", Int32Array.of(1, 2, 3)],
      ["source", ["for x in data:", "h = layer(h)", "h = layer(h)"]],
    ]);
    const source = tableHeader("source", { columns, is_sparse: true, count: 3 });
    const packed = packViews([source], [lines]);
    const cards = [{ ...CARD, view: "source", spot: "In [4]:3" }];
    const host = hostOf({ views: [factsHeader("overview", { cards }), ...packed.views] });
    host.traits.set("_data", packed.data);
    mounted = mount(host);
    await settle();
    find(mounted.root, ".tp-card .tp-link").click();
    await settle();
    await settle();
    expect(find(mounted.root, ".tp-rows [aria-selected=true]").textContent).toBe("3h = layer(h)");
  });

  it("says what stands in place of advice, with code marked", async () => {
    const { verdict } = JSON.parse(String(hostOf().traits.get("_header")));
    const without_advice = "`aten::mul` could gain the most: up to 3 of 7 ms per step.";
    const views = [factsHeader("overview")];
    mounted = mount(hostOf({ views, verdict: { ...verdict, without_advice } }));
    await settle();
    const said = find(mounted.root, "[data-tp-no-advice]");
    expect(said.textContent).toContain("could gain the most: up to 3 of");
    expect(find(said, ".tp-card-code").textContent).toBe("aten::mul");
  });

  it("says that nothing was found without advice", async () => {
    expect(await textsOf()).toEqual([]);
    expect(document.body.textContent).toContain("No advice.");
  });
});
