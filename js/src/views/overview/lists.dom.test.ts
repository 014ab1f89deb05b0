import { afterEach, expect, it } from "vitest";
import { factsHeader } from "../../../test/headers";
import { hostOf, type Mounted, mount, settle } from "../../../test/report";
import type { Fact, Section } from "../../wire/header";

let mounted: Mounted | null = null;

afterEach(() => {
  mounted?.unmount();
  document.body.replaceChildren();
});

function fact(label: string, value: number, more: Partial<Fact> = {}): Fact {
  return { label, value, unit: "ns", note: "", view: "", op: "", phase: "", spot: "", ...more };
}

async function shown(...sections: readonly Partial<Section>[]): Promise<HTMLElement> {
  const empty = { title: "", aside: "", kind: "bars", group: "top", facts: [] } as const;
  const views = [
    factsHeader("overview", { sections: sections.map((section) => ({ ...empty, ...section })) }),
  ];
  mounted = mount(hostOf({ views }));
  await settle();
  return mounted.root;
}

const textsOf = (root: HTMLElement, selector: string) =>
  [...root.querySelectorAll(selector)].map((each) => each.textContent);

it("draws the bars of lists side by side on one scale", async () => {
  const root = await shown(
    { title: "Ops", facts: [fact("mm", 5e6), fact("add", 1e6)] },
    { title: "Lines", facts: [fact("step()", 20e6)] },
  );
  const widths = [...root.querySelectorAll<HTMLElement>(".tp-phase-fill")].map(
    ({ style }) => style.width,
  );
  // 5, 1 and 20 of 20 ms.
  expect(widths.map(Number.parseFloat)).toEqual([25, 5, 100]);
});

it("writes shares with one decimal, and puts 0 below the digit before the point", async () => {
  const root = await shown({
    kind: "phases",
    group: "main",
    facts: [
      fact("forward", 23e6),
      fact("backward", 76.99e6),
      fact("idle", 0.01e6),
      fact("data", 0),
    ],
  });
  expect(textsOf(root, ".tp-phase-ratio")).toEqual(["23.0 %", "77.0 %", "<0.1 %", "0 %"]);
  expect(textsOf(root, ".tp-phase-number")).toEqual(["23.00", "76.99", "0.01", "0"]);
  const zero = [...root.querySelectorAll<HTMLElement>(".tp-phase-number > span")].at(-1);
  expect(zero?.getAttribute("data-tp-tail")).toBe(".00");
});
