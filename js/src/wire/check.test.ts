import { describe, expect, it } from "vitest";
import { checked, mapOf, number, scalar, text, tupleOf } from "./check";

describe("checks", () => {
  it("take a list of just so many values, and name the one that is wrong", () => {
    const pair = tupleOf(text, number);
    expect(checked(pair, ["a", 1])).toEqual({ ok: true, value: ["a", 1] });
    for (const wrong of [["a"], ["a", 1, 2], "ab", null])
      expect(checked(pair, wrong).ok).toBe(false);
    expect(checked(pair, ["a", "b"])).toMatchObject({ message: "1 is missing or invalid" });
  });

  it("take values by name, of which none is a prototype", () => {
    const names = checked(mapOf(text), JSON.parse('{"b": "x", "__proto__": "y"}'));
    expect(names.ok && Object.entries(names.value)).toEqual([
      ["b", "x"],
      ["__proto__", "y"],
    ]);
    expect(checked(mapOf(text), { b: 1 })).toMatchObject({ message: "b is missing or invalid" });
    expect(checked(mapOf(text), null).ok).toBe(false);
  });

  it("take a text or a number, and nothing else", () => {
    expect([scalar("a", ""), scalar(0, "")]).toEqual(["a", 0]);
    for (const wrong of [null, true, ["a"]]) expect(checked(scalar, wrong).ok).toBe(false);
  });
});
