import { expect, it } from "vitest";
import { describeWhole } from "./flame-model";

const CPU = { name: "cpu_ns", title: "CPU", unit: "ns", share: 1 } as const;
const DEVICE = { name: "device_ns", title: "Device", unit: "ns", share: 1 } as const;
const ran = (name: string, host_ns: number) => ({ name, host_ns });
const threads = [ran("pt_main_thread", 666e6), ran("pt_autograd_0", 267e6)];

it("says of which steps and threads the total of a flame graph is", () => {
  const perStep = { steps: 3, recorded: 3, threads };
  expect(describeWhole(perStep, CPU)).toBe(
    "mean of 3 steps · host time: 222 ms of pt_main_thread + 89 ms of pt_autograd_0",
  );
  expect(describeWhole({ ...perStep, steps: 1 }, DEVICE)).toBe("all 3 steps");
});

it("counts threads that are too many to name", () => {
  const many = { steps: 1, recorded: 1, threads: [ran("a", 4e6), ran("b", 3e6), ran("c", 1e6)] };
  expect(describeWhole(many, CPU)).toBe("host time of 3 threads, up to 4 ms of one");
  expect(describeWhole({ ...many, threads: [ran("a", 4e6)] }, CPU)).toBe("host time of a");
});

it("calls a thread by its number only beside another one of its name", () => {
  const named = {
    steps: 1,
    recorded: 1,
    threads: [ran("thread 7 (python)", 2e6), ran("thread -8 (pt_autograd_0)", 1e6)],
  };
  expect(describeWhole(named, CPU)).toBe("host time: 2 ms of python + 1 ms of pt_autograd_0");
  const alike = {
    ...named,
    threads: [ran("thread 7 (python)", 2e6), ran("thread 9 (python)", 1e6)],
  };
  expect(describeWhole(alike, CPU)).toBe(
    "host time: 2 ms of thread 7 (python) + 1 ms of thread 9 (python)",
  );
});
