import { afterEach, describe, expect, it } from "vitest";
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
  const empty = {
    title: "",
    aside: "",
    kind: "bars",
    group: "top",
    facts: [],
    lanes: [],
    marks: [],
  } as const;
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

describe("a run that was watched", () => {
  const strip = {
    title: "The whole run",
    kind: "strip",
    group: "main",
    aside: "500 steps in 6.5 s",
    lanes: [
      { title: "Step time", unit: "ns", values: [10e6, null, 162e6], most: 162e6 },
      { title: "Memory", unit: "bytes", values: [1048576, 2097152, 1048576], most: 2097152 },
    ],
    marks: [0],
    facts: [
      fact("Step 300", 162e6, { note: "14 times the usual", view: "source", spot: "In [4]:7" }),
      fact("Step 9", 30e6, { note: "2 times the usual" }),
    ],
  } as const;

  it("has a lane for all that is known of its steps, on one axis, and says where some were recorded", async () => {
    const root = await shown(strip);
    expect(textsOf(root, ".tp-run-title")).toEqual(["Step time", "Memory", "Recorded"]);
    expect(textsOf(root, ".tp-run-most")).toEqual(["162 ms", "2 MiB"]);
    const [times] = Array.from(root.querySelectorAll(".tp-run-part"));
    // Two of three parts are known, the higher one to 36 / 1.08.
    expect(times?.getAttribute("d")).toBe("M0,36v-2.06h1V36zM2,36v-33.33h1V36z");
    expect(root.querySelector(".tp-run-recorded path")?.getAttribute("d")).toBe("M0,4v-4h1v4z");
  });

  it("names its slow steps, and leads to the line that ran in one where it is known", async () => {
    const root = await shown(strip);
    const slow = textsOf(root, ".tp-run-slow li");
    expect(slow).toEqual([
      "Step 300 162 ms, 14 times the usual show the line",
      "Step 9 30 ms, 2 times the usual ",
    ]);
    expect(root.querySelectorAll(".tp-run-slow button").length).toBe(1);
  });
});
