import { afterEach, expect, it } from "vitest";
import { encodeFrame, packViews } from "../../../test/encode";
import { treeHeader } from "../../../test/headers";
import { hostOf, type Mounted, mount, settle } from "../../../test/report";
import type { TreeHeader } from "../../wire/header";

let mounted: Mounted | undefined;

afterEach(() => mounted?.unmount());

const WEIGHTS = {
  cpu_ns: { name: "cpu_ns", title: "CPU", unit: "ns", share: 1 },
  device_ns: { name: "device_ns", title: "Device", unit: "ns", share: 1 },
  bytes: { name: "bytes", title: "Bytes", unit: "bytes", share: 1 },
} as const;

/** Boxes of a name, a kind and a size, each in the box of a number. */
type Boxes = readonly (readonly [name: string, kind: string, size: number, parent: number])[];

/** What the flame graph says above its boxes. */
async function answerOf(
  weight: keyof typeof WEIGHTS,
  boxes: Boxes,
  more: Partial<TreeHeader> = {},
  awaits: Float64Array | null = null,
): Promise<string | undefined> {
  const sizes = Float64Array.from(boxes, ([, , size]) => size);
  const frame = encodeFrame([
    ["parent", Int32Array.from(boxes, ([, , , parent]) => parent)],
    ["name", boxes.map(([name]) => name)],
    ["kind", boxes.map(([, kind]) => kind)],
    ["phase", boxes.map(() => "forward")],
    [`self_${weight}`, sizes],
    [`total_${weight}`, sizes],
    ...(awaits === null
      ? []
      : (["self_awaits_ns", "total_awaits_ns"] as const).map((name) => [name, awaits] as const)),
  ]);
  const packed = packViews([treeHeader("flame", { weights: [WEIGHTS[weight]], ...more })], [frame]);
  const host = hostOf({ views: packed.views });
  host.traits.set("_data", packed.data);
  mounted = mount(host);
  await settle();
  return mounted.root.querySelector(".tp-answer")?.textContent?.replaceAll("\u00a0", " ");
}

it("leaves the base to the total beside the path", async () => {
  const boxes: Boxes = [
    ["all", "root", 9e6, -1],
    ["line 4", "line", 7e6, 0],
  ];
  const thread = (name: string) => ({ name, host_ns: 1e6 });
  const threads = [thread("main"), thread("autograd")];
  expect(await answerOf("cpu_ns", boxes, { threads })).toBe("7 ms in line 4");
  expect(mounted?.root.querySelector(".tp-crumb-total")?.textContent).toContain("total 9 ms");
});

it("says that waits stand aside where a thread waits for another", async () => {
  const boxes: Boxes = [
    ["all", "root", 9e6, -1],
    ["backward", "annotation", 5e6, 0],
    ["line 4", "line", 4e6, 0],
  ];
  const said = await answerOf("cpu_ns", boxes, {}, Float64Array.of(4e6, 4e6, 0));
  expect(said).toBe("Not counting waits, 4 ms in line 4");
  expect(mounted?.root.querySelector(".tp-legend")?.textContent).toContain(
    "waiting for other threads",
  );
  mounted?.unmount();
  await answerOf("cpu_ns", boxes, {}, Float64Array.of(1e6, 1e6, 0));
  // No box waits for most of its time, so none is hatched.
  expect(mounted?.root.querySelector(".tp-legend")?.textContent).not.toContain("waiting");
});

it("says that no path is known where only kernels are", async () => {
  const boxes: Boxes = [
    ["all", "root", 9e6, -1],
    ["merge", "kernel", 6e6, 0],
    ["copy", "kernel", 3e6, 0],
  ];
  expect(await answerOf("device_ns", boxes)).toBe(
    "No code path was recorded, nor which op launched this work. 6 ms in merge",
  );
});

it("leads to what first holds the memory, rather than into the allocator or to what was there before", async () => {
  const boxes: Boxes = [
    ["all", "root", 9 << 20, -1],
    ["from before the recording", "root", 6 << 20, 0],
    ["step", "python", 3 << 20, 0],
    ["AccumulateGrad", "op", 2 << 20, 2],
    ["c10::malloc", "op", 2 << 20, 3],
  ];
  expect(await answerOf("bytes", boxes)).toBe("2 MiB in step › AccumulateGrad");
});

it("ends before code that torch.compile wrote, which no user knows", async () => {
  const file = `inductor/s4/c${"s4".repeat(25)}.py(3980): partition_0`;
  const boxes: Boxes = [
    ["all", "root", 9e6, -1],
    ["model.py(7): forward", "python", 9e6, 0],
    ["Torch-Compiled Region: 0/0", "op", 8e6, 1],
    ["torch/_inductor/graph.py(9): run", "library", 8e6, 2],
    [file, "library", 7e6, 3],
  ];
  expect(await answerOf("cpu_ns", boxes)).toBe(
    "8 ms in forward model.py:7 › Torch-Compiled Region: 0/0",
  );
});
