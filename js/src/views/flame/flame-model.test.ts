import { expect, it } from "vitest";
import { describeWhole } from "./flame-model";

const CPU = { name: "cpu_ns", title: "CPU", unit: "ns", share: 1 } as const;
const DEVICE = { name: "device_ns", title: "Device", unit: "ns", share: 1 } as const;
const threads = ["pt_main_thread", "pt_autograd_0"];

it("says of which steps and threads the total of a flame graph is", () => {
  const perStep = { steps: 3, recorded: 3, threads };
  expect(describeWhole(perStep, CPU)).toBe(
    "mean of 3 steps · host time of pt_main_thread + pt_autograd_0",
  );
  expect(describeWhole({ ...perStep, steps: 1 }, DEVICE)).toBe("all 3 steps");
});

it("counts threads that are too many to name", () => {
  const many = { steps: 1, recorded: 1, threads: ["a", "b", "c"] };
  expect(describeWhole(many, CPU)).toBe("host time of 3 threads");
  expect(describeWhole({ ...many, threads: ["a"] }, CPU)).toBe("host time of a");
});

it("calls a thread by its number only beside another one of its name", () => {
  const named = {
    steps: 1,
    recorded: 1,
    threads: ["thread 7 (python)", "thread -8 (pt_autograd_0)"],
  };
  expect(describeWhole(named, CPU)).toBe("host time of python + pt_autograd_0");
  const alike = { ...named, threads: ["thread 7 (python)", "thread 9 (python)"] };
  expect(describeWhole(alike, CPU)).toBe("host time of thread 7 (python) + thread 9 (python)");
});
