import { describe, expect, it } from "vitest";
import { amountOf } from "./verdict-line";

const said = (...parts: string[]) =>
  amountOf(parts.map((text, at) => ({ text, style: at === 1 ? "strong" : "" })))
    .map(({ text }) => text)
    .join("");

describe("the verdict in one line", () => {
  it("says how much of what, and why, without the share and the place", () => {
    const after = " per step (64.3 %) for op dispatch, mostly in ";
    expect(said("The device waits ", "143 ms of 222 ms", after, "aten::mm")).toBe(
      "The device waits 143 ms of 222 ms per step for op dispatch",
    );
    expect(said("The device is busy ", "43.3 ms of 47.2 ms", " per step (91.8 %); ", "mul")).toBe(
      "The device is busy 43.3 ms of 47.2 ms per step",
    );
  });

  it("says all where no amount is told", () => {
    expect(said("Memory was recorded, and no times.")).toBe("Memory was recorded, and no times.");
  });
});
