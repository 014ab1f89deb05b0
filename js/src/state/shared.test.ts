import { expect, it } from "vitest";
import { sharedOf } from "./shared";

it("is one for all views of a run", () => {
  const abort = new AbortController();
  const first = sharedOf("run", abort.signal);
  expect(sharedOf("run", abort.signal)).toBe(first);
  expect(sharedOf("other run", abort.signal)).not.toBe(first);
  abort.abort();
});

it("begins anew when the last view of a run is gone", () => {
  const one = new AbortController();
  const other = new AbortController();
  const first = sharedOf("run", one.signal);
  expect(sharedOf("run", other.signal)).toBe(first);
  one.abort();
  const third = new AbortController();
  expect(sharedOf("run", third.signal)).toBe(first);
  other.abort();
  third.abort();
  expect(sharedOf("run", new AbortController().signal)).not.toBe(first);
});
