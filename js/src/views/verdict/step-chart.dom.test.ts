import { h, render } from "preact";
import { expect, it } from "vitest";
import type { StepBar } from "../../layout/step-bars";
import { Stack } from "./step-chart";

it("hatches waiting in a step, but for a layer that is too thin for lines", () => {
  const classesOf = (waited: number) => {
    const parts = [
      { phase: "forward", dur_ns: 100 - waited, ratio: 1 },
      { phase: "waiting", dur_ns: waited, ratio: 1 },
    ];
    const bar = { parts, dur_ns: 100 } as unknown as StepBar;
    const root = document.createElement("div");
    render(h(Stack, { bar, theme: "light" }), root);
    return [...root.children].map(({ className }) => className);
  };
  expect(classesOf(10)).toEqual(["tp-step-part", "tp-step-part tp-hatched"]);
  expect(classesOf(2)).toEqual(["tp-step-part", "tp-step-part"]);
});
