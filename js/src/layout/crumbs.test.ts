import { describe, expect, it } from "vitest";
import { beforeGenerated, fitCrumbs, toldOf } from "./crumbs";

const PATH = ["all", "Qwen2Model", "Qwen2DecoderLayer", "aten::linear"];

describe("fitCrumbs", () => {
  it("keeps a path whole that fits", () => {
    // 3 + 10 + 17 + 12 characters, and 3 between each two.
    expect(fitCrumbs(PATH, 51)).toEqual({ hidden: 0, texts: PATH });
  });

  it("leaves out the first parts, which are never cut to a few letters", () => {
    expect(fitCrumbs(PATH, 50)).toEqual({ hidden: 2, texts: PATH.slice(2) });
    // 12 for the last, and 6 for those that are left out.
    expect(fitCrumbs(PATH, 18)).toEqual({ hidden: 3, texts: ["aten::linear"] });
  });

  it("cuts the last part in its middle where it has no room itself", () => {
    const { hidden, texts } = fitCrumbs(["all", "convolution_backward_overrideable"], 20);
    expect(hidden).toBe(1);
    expect(texts[0]).toMatch(/^convolut.*….*able$/);
    expect(texts[0]).toHaveLength(14);
  });

  it("shortens a single part, before which nothing is left out", () => {
    expect(fitCrumbs(["all"], 2)).toEqual({ hidden: 0, texts: [expect.any(String)] });
    expect(fitCrumbs(["all"], 3)).toEqual({ hidden: 0, texts: ["all"] });
  });
});

describe("what is said of a path", () => {
  const own = [(row: number) => row < 20, (row: number) => row >= 20 && row < 40];

  it("is the user's last line, the last module, and the end", () => {
    expect(toldOf([10, 11, 20, 30, 50, 60], own)).toEqual([null, 11, null, 30, null, 60]);
    expect(toldOf([10, 20, 50], own)).toEqual([10, 20, 50]);
    expect(toldOf([20, 30, 50], own)).toEqual([null, 30, 50]);
    expect(toldOf([50, 10], own)).toEqual([null, 10]);
  });

  it("is its end where none of it is the user's", () => {
    expect(toldOf([50, 60, 70], own)).toEqual([null, 60, 70]);
    expect(toldOf([50], own)).toEqual([50]);
  });
});

describe("a path into generated code", () => {
  const isLibrary = (row: number) => row >= 50;
  const isGenerated = (row: number) => row >= 90;
  const told = (...path: readonly number[]) => beforeGenerated(path, isLibrary, isGenerated);

  it("ends at the last box before it that is of no library", () => {
    expect(told(0, 10, 20, 50, 90)).toEqual([0, 10, 20]);
    expect(told(0, 10, 20, 50, 90, 60)).toEqual([0, 10, 20]);
  });

  it("is whole where it goes on to an op, or ends in a library", () => {
    expect(told(0, 10, 90, 60, 20)).toEqual([0, 10, 90, 60, 20]);
    expect(told(0, 10, 50, 60)).toEqual([0, 10, 50, 60]);
  });
});
