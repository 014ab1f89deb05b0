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
  { state = "ready" as Blocks["state"], steps = 3 } = {},
) {
  const blocks: Blocks = {
    state,
    message: "",
    listed: "peak",
    time: 5,
    total: 400 * MIB,
    groups: [group("x", 250), group("y", 100), group("z", 50)],
    leaks: [],
    trend: [],
    rise: { start: 100 * MIB, most: 400 * MIB, end: end * MIB },
    grown,
  };
  const source = { header: { steps } };
  const report = { look: { value: { theme: "light" } }, source } as unknown as ReportContext;
  const root = document.createElement("div");
  render(h(Holders, { report, lane: "cuda:0", marks: [PEAK_MARK], blocks }), root);
  return (root.textContent ?? "").replaceAll("\u00a0", " ");
}

const PEAK = "At its peak cuda:0 holds 400 MiB: 250.0 MiB x, then 100.0 MiB y. ";

it("names the two that hold most of the peak, and says where nothing grows", () => {
  expect(textOf(90, [])).toBe(`${PEAK}It ends no higher than it began.`);
});

it("names what grows only where that is more than half of what is new", () => {
  expect(textOf(300, [group("a", 120), group("b", 80)])).toBe(
    `${PEAK}It goes from 100 MiB to 300 MiB after the last step, mostly a.`,
  );
  expect(textOf(300, [group("a", 100), group("b", 100)])).toBe(
    `${PEAK}It goes from 100 MiB to 300 MiB after the last step.`,
  );
});

it("names nothing as what grows where it takes the place of something else", () => {
  // 140 MiB are new, and 90 MiB from the start are gone.
  expect(textOf(150, [group("a", 140)])).toBe(
    `${PEAK}It goes from 100 MiB to 150 MiB after the last step.`,
  );
});

it("says where no second step tells whether it grows", () => {
  expect(textOf(300, [], { steps: 1 })).toBe(
    `${PEAK}It goes from 100 MiB to 300 MiB, with no second step to compare.`,
  );
});

it("says first that holders are not known, and what brings them", () => {
  expect(textOf(90, [], { state: "none" })).toMatch(
    /^At its peak 400 MiB who holds the memory of cuda:0 is not known: .* --memory\.$/,
  );
});
