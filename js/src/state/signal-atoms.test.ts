import { effect, signal } from "@preact/signals";
import { describe, expect, it } from "vitest";
import { atomOf, signalReactivity } from "./signal-atoms";

describe("an atom of a signal", () => {
  it("writes the signal from a value or an updater function", () => {
    const kept = signal(1);
    const atom = atomOf(kept);
    atom.set(2);
    atom.set((before) => before + 3);
    expect(kept.value).toBe(5);
  });

  it("tracks reads like the signal", () => {
    const kept = signal(1);
    const doubled = signalReactivity.createReadonlyAtom(() => atomOf(kept).get() * 2);
    const seen: number[] = [];
    effect(() => void seen.push(doubled.get()));
    kept.value = 4;
    expect(seen).toEqual([2, 8]);
  });

  it("notifies its subscribers until they unsubscribe", () => {
    const kept = signal(1);
    const seen: number[] = [];
    const subscription = atomOf(kept).subscribe({ next: (value) => void seen.push(value) });
    kept.value = 2;
    subscription.unsubscribe();
    kept.value = 3;
    expect(seen).toEqual([1, 2]);
  });
});
