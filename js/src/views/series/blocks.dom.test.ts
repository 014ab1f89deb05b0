import { h, render } from "preact";
import { expect, it } from "vitest";
import type { BlockGroup } from "../../layout/alive";
import type { ReportContext } from "../common/context";
import { Holders } from "./blocks";
import type { Blocks, Rise } from "./use-blocks";

const MIB = 2 ** 20;

function group(title: string, mib: number): BlockGroup {
  const none = { category: "activation", place: "", op: "", count: 1, first: 0, last: 0 };
  return { ...none, title, bytes: mib * MIB };
}

/** What is said of a curve from 100 MiB over 400 MiB, with the named groups new at its end. */
function textOf(end: number, grown: readonly BlockGroup[], fall: Rise["fall"] = 0.5): string {
  const blocks: Blocks = {
    state: "ready",
    message: "",
    listed: "peak",
    time: 5,
    total: 400 * MIB,
    groups: [group("x", 400)],
    leaks: [],
    trend: [],
    rise: { start: 100 * MIB, most: 400 * MIB, end: end * MIB, fall },
    grown,
  };
  const report = { look: { value: { theme: "light" } } } as ReportContext;
  const root = document.createElement("div");
  render(h(Holders, { report, lane: "cuda:0", blocks }), root);
  return (root.textContent ?? "").replaceAll("\u00a0", " ").replace(/^.*?\)?\. ?It/, "It");
}

it("calls most of what is new only what is more than half of it", () => {
  const half = [group("a", 60), group("b", 60), group("c", 80)];
  expect(textOf(300, [group("a", 120), group("b", 80)])).toBe(
    "It grows by 200 MiB; most of what is new is a (120.0 MiB).",
  );
  expect(textOf(300, half)).toContain("; the largest of what is new is a (60.0 MiB).");
});

it("tells growth apart from what takes the place of something else", () => {
  expect(textOf(150, [group("a", 140)])).toBe(
    "It grows by 50 MiB: 140.0 MiB is new at the end, 90.0 MiB from the start is gone; most of what is new is a (140.0 MiB).",
  );
});

it("says of a fall that the curve has no room for that it is there", () => {
  expect(textOf(90, [])).toBe("It rises by 300 MiB and ends with 10 MiB less than it began.");
  expect(textOf(90, [], 0.001)).toContain("rises by 300 MiB, falls at the very end, and ends");
});
