import { expect, it } from "vitest";
import { encodeFrame } from "../../../test/encode";
import { decodeFrame } from "../../wire/decode";
import { describeWhole, flameModelOf, isAwaiting } from "./flame-model";

const CPU = { name: "cpu_ns", title: "CPU", unit: "ns", share: 1 } as const;
const DEVICE = { name: "device_ns", title: "Device", unit: "ns", share: 1 } as const;
const ran = (name: string, host_ns: number) => ({ name, host_ns });
const device = null;
const threads = [ran("pt_main_thread", 666e6), ran("pt_autograd_0", 267e6)];

it("says of which steps and threads the total of a flame graph is", () => {
  const perStep = { steps: 3, recorded: 3, threads, device };
  expect(describeWhole(perStep, CPU)).toBe(
    "mean of 3 steps · host time: 222 ms of pt_main_thread + 89 ms of pt_autograd_0",
  );
  expect(describeWhole({ ...perStep, steps: 1 }, DEVICE)).toBe("all 3 steps");
});

it("counts threads that are too many to name", () => {
  const many = {
    steps: 1,
    recorded: 1,
    device,
    threads: [ran("a", 4e6), ran("b", 3e6), ran("c", 1e6)],
  };
  expect(describeWhole(many, CPU)).toBe("host time of 3 threads, up to 4 ms of one");
  expect(describeWhole({ ...many, threads: [ran("a", 4e6)] }, CPU)).toBe("host time of a");
});

it("calls a thread by its number only beside another one of its name", () => {
  const named = {
    steps: 1,
    recorded: 1,
    device,
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

it("says of what device time consists that is more than the busy time", () => {
  const device = { devices: 1, busy_ns: 9e6, overlap_ns: 3e6, outside_ns: 1.5e6, has_steps: true };
  const whole = { steps: 3, recorded: 3, threads, device };
  expect(describeWhole(whole, DEVICE)).toBe(
    "mean of 3 steps · device time: 3 ms busy + 1 ms on other streams at the same time + 500 µs outside of steps",
  );
  const rest = { ...device, devices: 2, overlap_ns: 0, has_steps: false };
  expect(describeWhole({ ...whole, steps: 1, recorded: 1, device: rest }, DEVICE)).toBe(
    "device time: 9 ms busy on 2 devices + 1.50 ms before the first op",
  );
  const same = { ...device, overlap_ns: 0, outside_ns: 90 };
  expect(describeWhole({ ...whole, device: same }, DEVICE)).toBe("mean of 3 steps");
});

function modelOf(columns: Record<string, readonly number[]>, kinds: readonly string[]) {
  const numbers = Object.entries(columns).map(
    ([name, values]) => [name, Float64Array.from(values)] as const,
  );
  const decoded = decodeFrame(
    encodeFrame([
      ["parent", Int32Array.of(-1, 0, 0)],
      ["name", ["all", "a", "b"]],
      ["kind", [...kinds]],
      ["phase", ["", "backward", "forward"]],
      ...numbers,
    ]),
  );
  if (!decoded.ok) throw new Error(decoded.message);
  return flameModelOf(decoded.value, [CPU], String);
}

it("takes a box for waiting that hardly runs while other threads do", () => {
  const awaits = { total_cpu_ns: [100, 60, 40], total_awaits_ns: [70, 50, 20] };
  const model = modelOf(awaits, ["root", "annotation", "annotation"]);
  expect([0, 1, 2].map((row) => isAwaiting(model, row, "cpu_ns"))).toEqual([false, true, false]);
  // Their device time is their own.
  expect(isAwaiting(model, 1, "device_ns")).toBe(false);
});

it("draws kernels in full where most have no op above them", () => {
  const device = { total_device_ns: [100, 60, 40] };
  expect(modelOf(device, ["root", "kernel", "op"]).kernelTone).toBe(1);
  expect(modelOf(device, ["root", "op", "kernel"]).kernelTone).toBeLessThan(1);
});
