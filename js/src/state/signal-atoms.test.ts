import { effect, signal } from "@preact/signals";
import { describe, expect, it } from "vitest";
import { atomOf, signalReactivity } from "./signal-atoms";

describe("an atom of a signal", () => {
  it("writes the signal, by a value or by what follows from the last", () => {
    const kept = signal(1);
    const atom = atomOf(kept);
    atom.set(2);
    atom.set((before) => before + 3);
    expect(kept.value).toBe(5);
  });

  it("is read like the signal: what read it runs again", () => {
    const kept = signal(1);
    const doubled = signalReactivity.createReadonlyAtom(() => atomOf(kept).get() * 2);
    const seen: number[] = [];
    effect(() => void seen.push(doubled.get()));
    kept.value = 4;
    expect(seen).toEqual([2, 8]);
  });

  it("tells its subscribers until they leave", () => {
    const kept = signal(1);
    const seen: number[] = [];
    const subscription = atomOf(kept).subscribe({ next: (value) => void seen.push(value) });
    kept.value = 2;
    subscription.unsubscribe();
    kept.value = 3;
    expect(seen).toEqual([1, 2]);
  });
});
