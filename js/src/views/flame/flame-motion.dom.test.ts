import { afterEach, expect, it, vi } from "vitest";
import { weight } from "../../base/units";
import { Motion } from "./flame-motion";

const WHOLE = { start: weight(0), end: weight(100) };
const PART = { start: weight(40), end: weight(60) };

function prefer(motion: "reduce" | "no-preference"): void {
  vi.stubGlobal("matchMedia", (query: string) => ({ matches: query.endsWith(`: ${motion})`) }));
}

afterEach(() => vi.unstubAllGlobals());

it("glides to a new window in 110 ms, fast at first", () => {
  prefer("no-preference");
  const motion = new Motion();
  motion.aim(WHOLE, 0);
  motion.aim(PART, 1_000);
  expect(motion.at(1_000)).toEqual(WHOLE);
  // Half of the time: 7/8 of the way.
  expect(motion.at(1_055)).toEqual({ start: 35, end: 65 });
  expect(motion.isMoving(1_109)).toBe(true);
  expect([motion.isMoving(1_110), motion.at(1_110)]).toEqual([false, PART]);
});

it("is there at once where reduced motion is preferred", () => {
  prefer("reduce");
  const motion = new Motion();
  motion.aim(WHOLE, 0);
  motion.aim(PART, 1_000);
  expect([motion.isMoving(1_000), motion.at(1_000)]).toEqual([false, PART]);
});
