import { describe, expect, it } from "vitest";
import { goldenHost } from "../../test/golden";
import { measureText } from "../base/measure";
import { decodeFrame, viewBytes } from "./decode";
import { type Frame, numbersOf, textOf, wordAt } from "./frame";
import { parseHeader, type Shape, type ViewHeader } from "./header";

const host = goldenHost();
const parsed = parseHeader(host.get("_header"));
if (!parsed.ok) throw new Error(parsed.message);
const { views, verdict } = parsed.value;

function viewOf<S extends Shape>(name: string, shape: S): Extract<ViewHeader, { shape: S }> {
  const view = views.find((each) => each.name === name);
  if (view?.shape !== shape) throw new Error(`no ${shape} is named ${name}`);
  return view as Extract<ViewHeader, { shape: S }>;
}

function frameOf(name: string, shape: "table" | "tree" | "series" | "slices"): Frame {
  const decoded = decodeFrame(viewBytes(host.get("_data"), viewOf(name, shape)));
  if (!decoded.ok) throw new Error(decoded.message);
  return decoded.value;
}

function numbers(frame: Frame, name: string): readonly number[] {
  return Array.from(numbersOf(frame, name));
}

function words(frame: Frame, name: string): readonly string[] {
  const column = textOf(frame, name);
  return Array.from(column.keys, (_, row) => wordAt(column, row));
}

describe("the golden page", () => {
  it("has its views in order", () => {
    expect(views.map(({ name, shape }) => `${name}: ${shape}`)).toEqual([
      "overview: facts",
      "timeline: slices",
      "ops: table",
      "flame: tree",
      "source: table",
      "modules: table",
      "memory: series",
      "allocations: waiting",
      "savings: waiting",
      "kernels: table",
      "ops_module: waiting",
      "ops_line: waiting",
      "ops_phase: waiting",
      "ops_step: waiting",
      "steps: table",
      "notes: problems",
    ]);
  });

  it("has the verdict as spans", () => {
    expect(verdict.title).toBe("Device-bound");
    expect(verdict.text[0]).toEqual({ text: "The device is busy ", style: "" });
  });

  it("has every column that a table names, with hostile names as they are", () => {
    const { columns, sort_by } = viewOf("ops", "table");
    const ops = frameOf("ops", "table");
    expect(columns.filter(({ name }) => !ops.columns.has(name))).toEqual([]);
    expect(sort_by).toBe("self_device_ns");
    expect(words(ops, "name")).toContain("</script><img src=x onerror=alert(1)>");
    expect(numbers(ops, "self_device_ns")[0]).toBe(140_000);
  });

  it("has the columns of every part of a bar", () => {
    const { bars } = viewOf("steps", "table");
    const steps = frameOf("steps", "table");
    expect(Object.keys(bars?.parts ?? {})).toEqual([
      "forward",
      "backward",
      "optimizer",
      "communication",
      "data",
      "waiting",
      "compile",
      "initialisation",
      "python",
      "idle",
    ]);
    const total = bars === null ? [] : numbers(steps, bars.total);
    const parts = Object.values(bars?.parts ?? {}).map((column) => numbers(steps, column));
    expect(total).toEqual([100_000, 120_000]);
    expect(total.map((_, row) => parts.reduce((sum, part) => sum + (part[row] ?? 0), 0))).toEqual(
      total,
    );
    expect(numbers(steps, bars?.line ?? "")).toEqual([70_000, 70_000]);
  });

  it("has a tree with parents before their children and a column per weight", () => {
    const { weights } = viewOf("flame", "tree");
    const flame = frameOf("flame", "tree");
    expect(numbers(flame, "parent").every((parent, row) => parent < row)).toBe(true);
    expect(weights.map(({ title }) => title)).toEqual([
      "Device",
      "CPU",
      "Device waits",
      "Bytes",
      "Calls",
    ]);
    for (const { name } of weights) {
      expect(numbers(flame, `total_${name}`)).toHaveLength(flame.rows);
      expect(numbers(flame, `self_${name}`)).toHaveLength(flame.rows);
    }
  });

  it("has a series with a column per band and its peak", () => {
    const { bands, marks } = viewOf("memory", "series");
    const memory = frameOf("memory", "series");
    expect(bands.map(({ name, unit }) => [name, unit])).toEqual([["allocated_bytes", "bytes"]]);
    expect(Math.max(...numbers(memory, "allocated_bytes"))).toBe(768);
    expect(marks.filter(({ kind }) => kind === "peak")).toEqual([
      { lane: "cpu", time_ns: 112_000, label: "peak 768 B", kind: "peak" },
    ]);
  });

  it("has slices of every kind, sorted by lane and start, linked to what launched them", () => {
    const { lanes, layers } = viewOf("timeline", "slices");
    const slices = frameOf("timeline", "slices");
    expect(lanes.map(({ kind }) => kind)).toEqual([
      ...["steps", "thread", "calls", "waits", "stream", "queue", "counters", "counter"],
    ]);
    expect(layers.map(({ column }) => column)).toEqual(["depth", "depth_modules"]);
    const lane = numbers(slices, "lane");
    const start = numbers(slices, "start_ns");
    const isSorted = lane.every(
      (each, row) =>
        row === 0 ||
        each > (lane[row - 1] ?? 0) ||
        (each === lane[row - 1] && (start[row] ?? 0) >= (start[row - 1] ?? 0)),
    );
    expect(isSorted).toBe(true);
    const names = words(slices, "name");
    const kernel = words(slices, "kind").indexOf("kernel");
    expect(names[numbers(slices, "op")[kernel] ?? -1]).toBe("aten::mm");
    expect(names[numbers(slices, "source")[kernel] ?? -1]).toBe("cudaLaunchKernel");
  });

  it("has the values of a counter as levels of its scale", () => {
    const { lanes } = viewOf("timeline", "slices");
    const slices = frameOf("timeline", "slices");
    const at = lanes.findIndex(({ kind }) => kind === "counter");
    const scale = lanes[at]?.scale;
    expect(lanes[at]).toMatchObject({ title: "Power", group: "Device 0" });
    expect(scale).toEqual({ low: 0, high: 320, unit: "W", least: 80, most: 320 });
    expect(lanes[at - 1]).toMatchObject({ title: "1 counter: Power", is_folded: false });
    const count = numbers(slices, "count");
    const levels = count.filter((_, row) => numbers(slices, "lane")[row] === at);
    const texts = levels.map((level) => scale && measureText(scale, level));
    expect(texts).toEqual(["80 W", "320 W"]);
  });

  it("has facts with a number in its unit, or a text", () => {
    const { sections } = viewOf("overview", "facts");
    const facts = sections.flatMap((section) => section.facts);
    expect(sections.filter(({ kind }) => kind === "phases").map(({ title }) => title)).toEqual([
      "Where the host's time goes",
    ]);
    expect(facts.find(({ label }) => label === "Mean step")).toMatchObject({
      value: 110_000,
      unit: "ns",
    });
    expect(facts.find(({ label }) => label === "Rank")).toMatchObject({
      value: "1 of 2, nccl",
      unit: "text",
    });
  });

  it("has the problems of the recording", () => {
    const { problems, count } = viewOf("notes", "problems");
    expect(problems.map(({ code, severity }) => [code, severity])).toEqual([
      ["chrome.negative_duration", "warning"],
    ]);
    expect(count).toBe(1);
  });
});
