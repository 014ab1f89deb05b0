import { describe, expect, it } from "vitest";
import { moduleBoxes } from "./module-boxes";

function call(name: string, start: number, end: number) {
  return { name, start, end };
}

describe("moduleBoxes", () => {
  it("makes one box of narrow equal layers that follow each other", () => {
    const calls = [call("embed", 0, 9), call("blocks.0", 10, 14), call("blocks.1", 15, 19)];
    expect(moduleBoxes(calls, 5)).toEqual([call("embed", 0, 9), call("blocks.*", 10, 19)]);
  });

  it("keeps boxes that are wide enough for their names", () => {
    const calls = [call("blocks.0", 0, 10), call("blocks.1", 10, 20)];
    expect(moduleBoxes(calls, 5)).toEqual(calls);
  });

  it("begins a new box where the same layer runs again", () => {
    const calls = [call("0", 0, 1), call("1", 1, 2), call("0", 8, 9), call("1", 9, 10)];
    expect(moduleBoxes(calls, 5)).toEqual([call("*", 0, 2), call("*", 8, 10)]);
  });

  it("knows equal layers by their numbers in names from Python frames, too", () => {
    const calls = [call("Net_0.Block_0", 0, 1), call("Net_0.Block_1", 1, 2)];
    expect(moduleBoxes(calls, 5)).toEqual([call("Net_*.Block_*", 0, 2)]);
  });

  it("does not join different modules", () => {
    const calls = [call("encoder", 0, 1), call("decoder", 1, 2)];
    expect(moduleBoxes(calls, 5)).toEqual(calls);
  });
});
