import { h, render } from "preact";
import { expect, it } from "vitest";
import type { BlockGroup } from "../../layout/alive";
import type { ReportContext } from "../common/context";
import { Holders } from "./blocks";
import type { Blocks } from "./use-blocks";

const MIB = 2 ** 20;
const PEAK_MARK = { kind: "peak", lane: "cuda:0", time_ns: 5, label: "peak 400 MiB" } as const;

function group(title: string, mib: number): BlockGroup {
  const none = { category: "activation", place: "", op: "", count: 1, first: 0, last: 0 };
  return { ...none, title, bytes: mib * MIB };
}

/** What is said of a curve from 100 MiB over 400 MiB, with the named groups new at its end. */
function textOf(
  end: number,
  grown: readonly BlockGroup[],
  {
    state = "ready" as Blocks["state"],
    steps = 3,
    most = 400,
    others = [50],
    leaks = [] as Blocks["leaks"],
  } = {},
) {
  const blocks: Blocks = {
    state,
    message: "",
    listed: "peak",
    time: 5,
    total: 400 * MIB,
    groups: [group("x", 250), group("y", 100), ...others.map((mib) => group("z", mib))],
    leaks,
    trend: [],
    rise: { start: 100 * MIB, most: most * MIB, end: end * MIB },
    grown,
  };
  const source = { header: { steps } };
  const report = { look: { value: { theme: "light" } }, source } as unknown as ReportContext;
  const root = document.createElement("div");
  render(h(Holders, { report, lane: "cuda:0", marks: [PEAK_MARK], blocks }), root);
  return (root.textContent ?? "").replaceAll("\u00a0", " ");
}

const PEAK = "Holds the peak400 MiB on cuda:0: x 62.5 %, y 25 %Grows";
const GROWN = "from 100 MiB to 300 MiB";

it("names the two that hold most of the peak, and says where all that grows is freed", () => {
  expect(textOf(90, [])).toBe(`${PEAK}Nothing in 3 steps: all beyond 100 MiB is freed by the end`);
  expect(textOf(90, [], { most: 100 })).toBe(`${PEAK}Nothing in 3 steps`);
});

it("says what each step leaves behind also where the memory in use falls on the whole", () => {
  const leak = { bytes: 512, steps: 3, where: "", op: "", keeper: "", keptAt: "", isCertain: true };
  expect(textOf(90, [], { leaks: [leak, leak] })).toBe(`${PEAK}By 1 KiB with each step`);
  const leaks = [{ ...leak, isCertain: false }];
  expect(textOf(90, [], { leaks })).toBe(`${PEAK}By 512 B with each step, perhaps`);
});

it("names one more that holds as much as the last, to the digits of the list, and counts several", () => {
  const said = (...others: number[]) => textOf(90, [], { others });
  // 100.0 MiB: 99.96 is written like it, 99.94 is not.
  expect(said(99.96, 99.94)).toContain("x 62.5 %, y 25 %, z 25 %Grows");
  expect(said(100, 100, 20)).toContain("x 62.5 %, y 25 % and 2 others with as muchGrows");
});

it("names what grows only where that is more than half of what is new", () => {
  expect(textOf(300, [group("a", 120), group("b", 80)])).toBe(
    `${PEAK}By 200 MiB in 3 steps, ${GROWN}, mostly in a`,
  );
  expect(textOf(300, [group("a", 80), group("b", 70), group("c", 50)], { steps: 1 })).toBe(
    `${PEAK}By 200 MiB, ${GROWN}, mostly in a and b`,
  );
  const four = ["a", "b", "c", "d"].map((title) => group(title, 50));
  expect(textOf(300, four, { steps: 1 })).toBe(`${PEAK}By 200 MiB, ${GROWN}`);
});

it("tells what stays where more than half of what grows is freed", () => {
  expect(textOf(150, [group("a", 50)])).toBe(
    `${PEAK}By 50 MiB in 3 steps, from 100 MiB to 150 MiB, mostly in a`,
  );
});

it("says how much is new where that is more than the growth, and what most of it is", () => {
  // 290 MiB are new, and 90 MiB from the start are gone.
  expect(textOf(300, [group("a", 290)])).toBe(
    `${PEAK}By 200 MiB in 3 steps, from 100 MiB to 300 MiB: 290 MiB is new, mostly in a, and 90 MiB was freed`,
  );
});

it("says first that holders are not known, and what brings them", () => {
  expect(textOf(90, [], { state: "none" })).toMatch(
    /^Holds the peakNot known: allocations of cuda:0 \(peak 400 MiB\) have no addresses\. Record with --memory\.GrowsNothing in 3 steps: .* freed by the end$/,
  );
});
