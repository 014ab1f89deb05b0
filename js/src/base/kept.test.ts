// @vitest-project logic
import { expect, it, vi } from "vitest";
import { keptBy, keptPer } from "./kept";

it("makes a result once for an object and its arguments", () => {
  const make = vi.fn((key: { readonly at: number }, size: number) => [key.at, size]);
  const kept = keptPer(make);
  const key = { at: 1 };
  expect(kept(key, 2)).toBe(kept(key, 2));
  expect(make).toHaveBeenCalledOnce();
});

it("makes another result for another argument or object", () => {
  const kept = keptPer((key: { readonly at: number }, size: number) => [key.at, size]);
  const key = { at: 1 };
  expect(kept(key, 2)).toEqual([1, 2]);
  expect(kept(key, 3)).toEqual([1, 3]);
  expect(kept({ at: 4 }, 3)).toEqual([4, 3]);
});

it("makes a result once for each key", () => {
  const make = vi.fn(({ tab, size }: { readonly tab: string; readonly size: number }) => [
    tab,
    size,
  ]);
  const kept = keptBy(({ tab }) => tab, make);
  expect(kept({ tab: "ops", size: 1 })).toEqual(["ops", 1]);
  expect(kept({ tab: "ops", size: 2 })).toEqual(["ops", 1]);
  expect(kept({ tab: "flame", size: 2 })).toEqual(["flame", 2]);
  expect(make).toHaveBeenCalledTimes(2);
});
