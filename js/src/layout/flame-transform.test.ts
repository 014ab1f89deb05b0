import { describe, expect, it } from "vitest";
import { type FlameChange, type FlameOptions, PLAIN } from "../base/flame-options";
import { type Column, type Frame, numbersOf, stringAt } from "../wire/frame";
import { transformFlame } from "./flame-transform";
import { buildTree } from "./flame-tree";

interface Box {
  readonly parent: number;
  readonly name: string;
  readonly kind?: string;
  readonly phase?: string;
  readonly self: number;
}

function textOf(texts: readonly string[]) {
  const words = [...new Set(texts)];
  const keys = Int32Array.from(texts, (text) => words.indexOf(text));
  return { kind: "text" as const, words, keys };
}

/** A frame of boxes in preorder; every box but the root is one call. Totals are those of all boxes inside. */
function frameOf(boxes: readonly Box[]): Frame {
  const rolledUp = (values: readonly number[]) => {
    const total = Float64Array.from(values);
    for (let row = boxes.length - 1; row > 0; row -= 1) {
      const above = boxes[row]?.parent ?? 0;
      total[above] = (total[above] ?? 0) + (total[row] ?? 0);
    }
    return total;
  };
  const numbers = (values: ArrayLike<number>) => ({
    kind: "number" as const,
    values: Float64Array.from(values),
  });
  const self = boxes.map((box) => box.self);
  const calls = boxes.map((_, row) => (row === 0 ? 0 : 1));
  return {
    rows: boxes.length,
    columns: new Map<string, Column>([
      ["parent", numbers(boxes.map(({ parent }) => parent))],
      ["name", textOf(boxes.map(({ name }) => name))],
      ["kind", textOf(boxes.map(({ kind }) => kind ?? "op"))],
      ["phase", textOf(boxes.map(({ phase }) => phase ?? "python"))],
      ["self_cpu", numbers(self)],
      ["total_cpu", numbers(rolledUp(self))],
      ["self_calls", numbers(calls)],
      ["total_calls", numbers(rolledUp(calls))],
    ]),
  };
}

/** The boxes of a frame, indented, with their totals and own weights. */
function linesOf(frame: Frame, weight = "cpu"): readonly string[] {
  const { depth } = buildTree(numbersOf(frame, "parent"));
  const total = numbersOf(frame, `total_${weight}`);
  const self = numbersOf(frame, `self_${weight}`);
  return Array.from({ length: frame.rows }, (_, row) => {
    const name = stringAt(frame, "name", row);
    return `${"  ".repeat(depth[row] ?? 0)}${name} ${total[row]}/${self[row]}`;
  });
}

function changed(boxes: readonly Box[], options: Partial<FlameOptions>, weights = ["cpu"]) {
  return transformFlame(frameOf(boxes), weights, { ...PLAIN, ...options });
}

const lines = (boxes: readonly Box[], options: Partial<FlameOptions>) =>
  linesOf(changed(boxes, options).frame);

const change = (kind: FlameChange["kind"], ...texts: readonly string[]) => ({
  changes: texts.map((text) => ({ kind, text })),
});

//  all 100
//  ├ train 90 (own 10)
//  │ └ call 80
//  │   ├ mm 70 (own 50)
//  │   │ └ add 20
//  │   └ add 10
//  └ eval 10 (own 5)
//    └ add 5
const BOXES: readonly Box[] = [
  { parent: -1, name: "all", kind: "root", self: 0 },
  { parent: 0, name: "train", kind: "python", self: 10 },
  { parent: 1, name: "call", kind: "library", self: 0 },
  { parent: 2, name: "mm", phase: "forward", self: 50 },
  { parent: 3, name: "add", phase: "forward", self: 20 },
  { parent: 2, name: "add", phase: "backward", self: 10 },
  { parent: 0, name: "eval", kind: "python", self: 5 },
  { parent: 6, name: "add", phase: "other", self: 5 },
];

it("returns the frame itself when nothing changes", () => {
  const frame = frameOf(BOXES);
  expect(transformFlame(frame, ["cpu"], PLAIN)).toEqual({ frame, folded: 0 });
  expect(transformFlame(frame, ["cpu"], PLAIN).frame).toBe(frame);
  const unknown = { ...PLAIN, ...change("hide", "nothing") };
  expect(transformFlame(frame, ["cpu"], unknown).frame).toBe(frame);
});

describe("leaving out boxes", () => {
  it("puts what a hidden box contains into the box around it", () => {
    const { frame, folded } = changed(BOXES, change("hide", "call"));
    expect(folded).toBe(1);
    expect(linesOf(frame)).toEqual([
      "all 100/0",
      "  train 90/10",
      "    mm 70/50",
      "      add 20/20",
      "    add 10/10",
      "  eval 10/5",
      "    add 5/5",
    ]);
  });

  it("gives the own time of a hidden box to the one around it, and merges equal names", () => {
    expect(lines(BOXES, change("hide", "mm"))).toEqual([
      "all 100/0",
      "  train 90/10",
      "    call 80/50",
      // 20 of inside mm, 10 of beside it.
      "      add 30/30",
      "  eval 10/5",
      "    add 5/5",
    ]);
  });

  it("does not count the calls of a hidden box as calls of the one around it", () => {
    const { frame } = changed(BOXES, change("hide", "mm"), ["cpu", "calls"]);
    const calls = linesOf(frame, "calls").map((line) => line.trim());
    expect(calls).toContain("call 3/1");
    expect(calls).toContain("add 2/2");
  });

  it("drops a box with all that is in it", () => {
    const { frame, folded } = changed(BOXES, change("drop", "mm"));
    expect(folded).toBe(0);
    expect(linesOf(frame)).toEqual([
      "all 30/0",
      "  train 20/10",
      "    call 10/0",
      "      add 10/10",
      "  eval 10/5",
      "    add 5/5",
    ]);
  });

  it("drops what is in a hidden box when that is to be dropped", () => {
    const changes = [...change("hide", "call").changes, ...change("drop", "mm").changes];
    expect(lines(BOXES, { changes }).slice(0, 3)).toEqual([
      "all 30/0",
      "  train 20/10",
      "    add 10/10",
    ]);
  });

  it("hides all functions of a file", () => {
    const boxes: readonly Box[] = [
      { parent: -1, name: "all", kind: "root", self: 0 },
      { parent: 0, name: "a.py(1): f", self: 1 },
      { parent: 1, name: "a.py(9): g", self: 2 },
      { parent: 2, name: "ab.py(1): h", self: 4 },
    ];
    const { frame, folded } = changed(boxes, change("file", "a.py("));
    expect(folded).toBe(2);
    expect(linesOf(frame)).toEqual(["all 7/3", "  ab.py(1): h 4/4"]);
  });

  it("orders siblings anew, the heaviest first", () => {
    const boxes: readonly Box[] = [
      { parent: -1, name: "all", kind: "root", self: 0 },
      { parent: 0, name: "a", self: 30 },
      { parent: 0, name: "b", self: 0 },
      { parent: 2, name: "x", self: 20 },
      { parent: 0, name: "x", self: 15 },
    ];
    expect(lines(boxes, change("hide", "b"))).toEqual(["all 65/0", "  x 35/35", "  a 30/30"]);
  });

  it("gives a merged box the phase of its heaviest part", () => {
    const phaseOfAdd = (first: number, second: number) => {
      const boxes: readonly Box[] = [
        { parent: -1, name: "all", kind: "root", self: 0 },
        { parent: 0, name: "b", self: 0 },
        { parent: 1, name: "add", phase: "forward", self: first },
        { parent: 0, name: "add", phase: "backward", self: second },
      ];
      const { frame } = changed(boxes, change("hide", "b"));
      return stringAt(frame, "phase", 1);
    };
    expect([phaseOfAdd(3, 2), phaseOfAdd(2, 3)]).toEqual(["forward", "backward"]);
  });

  it("keeps boxes of one name apart that are of different kinds", () => {
    const boxes: readonly Box[] = [
      { parent: -1, name: "all", kind: "root", self: 0 },
      { parent: 0, name: "b", self: 0 },
      { parent: 1, name: "x", kind: "op", self: 3 },
      { parent: 0, name: "x", kind: "kernel", self: 2 },
    ];
    expect(lines(boxes, change("hide", "b"))).toEqual(["all 5/0", "  x 3/3", "  x 2/2"]);
  });
});

describe("folding libraries", () => {
  /** A frame of a library with `own` time, around an op with the rest of 100. */
  const wrapped = (own: number, kind = "library"): readonly Box[] => [
    { parent: -1, name: "all", kind: "root", self: 0 },
    { parent: 0, name: "train", kind: "python", self: 0 },
    { parent: 1, name: "wrapper", kind, self: own },
    { parent: 2, name: "mm", self: 100 - own },
  ];

  it("leaves out library frames that pass on 97 % to one other box", () => {
    expect(lines(wrapped(3), { foldsLibraries: true })).toEqual([
      "all 100/0",
      "  train 100/3",
      "    mm 97/97",
    ]);
    expect(changed(wrapped(3.1), { foldsLibraries: true }).folded).toBe(0);
  });

  it("keeps a library frame that waits where the first weight, that of the device, is none of its own", () => {
    const { rows, columns } = frameOf(wrapped(100));
    const none = { kind: "number" as const, values: new Float64Array(rows) };
    const ofDevice = [["self_device", none] as const, ["total_device", none] as const];
    const frame = { rows, columns: new Map<string, Column>([...columns, ...ofDevice]) };
    const options = { ...PLAIN, foldsLibraries: true };
    expect(transformFlame(frame, ["device", "cpu", "calls"], options).folded).toBe(0);
  });

  it("keeps library frames unless it is asked to fold them", () => {
    expect(changed(wrapped(0), {}).folded).toBe(0);
  });

  it("keeps frames of the user's own code", () => {
    expect(changed(wrapped(0, "python"), { foldsLibraries: true }).folded).toBe(0);
  });

  it("keeps library frames that share out their time", () => {
    // The larger of the two has 70 of the 80.
    expect(changed(BOXES, { foldsLibraries: true }).folded).toBe(0);
  });

  it("leaves out the forward of a module, but not another forward", () => {
    const around = (kind: string): readonly Box[] => [
      { parent: -1, name: "all", kind: "root", self: 0 },
      { parent: 0, name: "Net", kind, self: 0 },
      { parent: 1, name: "net.py(7): forward", kind: "python", self: 10 },
      { parent: 2, name: "mm", self: 20 },
    ];
    expect(lines(around("module"), { foldsLibraries: true })).toEqual([
      "all 30/0",
      "  Net 30/10",
      "    mm 20/20",
    ]);
    expect(changed(around("python"), { foldsLibraries: true }).folded).toBe(0);
  });
});

describe("collapsing recursion", () => {
  const RECURSIVE: readonly Box[] = [
    { parent: -1, name: "all", kind: "root", self: 0 },
    { parent: 0, name: "f", self: 10 },
    { parent: 1, name: "g", self: 5 },
    { parent: 2, name: "f", self: 20 },
    { parent: 3, name: "h", self: 7 },
  ];

  it("puts a call inside a call of the same name into the outer one", () => {
    expect(lines(RECURSIVE, { collapsesRecursion: true })).toEqual([
      "all 42/0",
      "  f 42/30",
      "    h 7/7",
      "    g 5/5",
    ]);
  });

  it("counts both calls", () => {
    const { frame } = changed(RECURSIVE, { collapsesRecursion: true }, ["cpu", "calls"]);
    expect(linesOf(frame, "calls")[1]).toBe("  f 4/2");
  });

  it("keeps boxes of one name that are beside each other in other boxes", () => {
    expect(lines(BOXES, { collapsesRecursion: true })).toEqual(linesOf(frameOf(BOXES)));
  });
});

describe("from the leaves up", () => {
  it("shows own time by box, and under it where it was called", () => {
    expect(lines(BOXES, { shape: "inverted" })).toEqual([
      "all 100/0",
      "  mm 50/0",
      "    call 50/0",
      "      train 50/50",
      "  add 35/0",
      "    mm 20/0",
      "      call 20/0",
      "        train 20/20",
      "    call 10/0",
      "      train 10/10",
      "    eval 5/5",
      "  train 10/10",
      "  eval 5/5",
    ]);
  });

  it("counts the calls of each box", () => {
    const { frame } = changed(BOXES, { shape: "inverted" }, ["cpu", "calls"]);
    const calls = linesOf(frame, "calls").filter((line) => /^ {2}\w/.test(line));
    expect(calls.map((line) => line.trim().split("/")[0])).toEqual([
      "mm 1",
      "add 3",
      "train 1",
      "eval 1",
      "call 1",
    ]);
  });

  it("adds the own time of a hidden box to the one around it", () => {
    const top = lines(BOXES, { shape: "inverted", ...change("hide", "mm") }).filter((line) =>
      /^ {2}\w/.test(line),
    );
    expect(top).toEqual(["  call 50/0", "  add 35/0", "  train 10/10", "  eval 5/5"]);
  });

  it("leaves out what was dropped", () => {
    expect(lines(BOXES, { shape: "inverted", ...change("drop", "train") })).toEqual([
      "all 10/0",
      "  add 5/0",
      "    eval 5/5",
      "  eval 5/5",
    ]);
  });

  it("ends paths after 64 levels", () => {
    // A chain of 100 boxes; only the last has time of its own.
    const chain = Array.from({ length: 101 }, (_, row) => ({
      parent: row - 1,
      name: `f${row}`,
      self: row === 100 ? 1 : 0,
    }));
    const found = lines(chain, { shape: "inverted" });
    // The root and 64 boxes, from f100 up to f37.
    expect(found).toHaveLength(65);
    expect(found.at(-1)?.trim()).toBe("f37 1/1");
  });
});

describe("around one name", () => {
  it("shows who calls it, with its whole time", () => {
    expect(lines(BOXES, { shape: "callers", name: "add" })).toEqual([
      "all 35/0",
      "  add 35/0",
      "    mm 20/0",
      "      call 20/0",
      "        train 20/20",
      "    call 10/0",
      "      train 10/10",
      "    eval 5/5",
    ]);
    // The 70 of mm include the 20 of the add inside.
    expect(lines(BOXES, { shape: "callers", name: "mm" })[1]).toBe("  mm 70/0");
  });

  it("counts a name that calls itself once among its callers", () => {
    const boxes: readonly Box[] = [
      { parent: -1, name: "all", kind: "root", self: 0 },
      { parent: 0, name: "main", self: 0 },
      { parent: 1, name: "f", self: 10 },
      { parent: 2, name: "f", self: 20 },
    ];
    expect(lines(boxes, { shape: "callers", name: "f" })).toEqual([
      "all 30/0",
      "  f 30/0",
      "    main 30/30",
    ]);
  });

  it("shows what it calls, all its boxes merged", () => {
    expect(lines(BOXES, { shape: "callees", name: "call" })).toEqual([
      "all 80/0",
      "  call 80/0",
      "    mm 70/50",
      "      add 20/20",
      "    add 10/10",
    ]);
    expect(lines(BOXES, { shape: "callees", name: "add" })).toEqual(["all 35/0", "  add 35/35"]);
  });

  it("leaves out hidden and dropped boxes", () => {
    const around = (kind: "hide" | "drop") =>
      lines(BOXES, { shape: "callees", name: "call", ...change(kind, "mm") });
    expect(around("hide")).toEqual(["all 80/0", "  call 80/50", "    add 30/30"]);
    expect(around("drop")).toEqual(["all 10/0", "  call 10/0", "    add 10/10"]);
  });

  it("has only the root for a name that does not occur", () => {
    expect(lines(BOXES, { shape: "callers", name: "nothing" })).toEqual(["all 0/0"]);
    expect(lines(BOXES, { shape: "callees", name: "nothing" })).toEqual(["all 0/0"]);
  });

  it("turns a tree with more boxes side by side than a call takes arguments", () => {
    const rows = 200_001;
    const column = (at: (row: number) => number): Column => ({
      kind: "number",
      values: Float64Array.from({ length: rows }, (_, row) => at(row)),
    });
    const text = (words: readonly string[], keyOf: (row: number) => number): Column => ({
      kind: "text",
      words,
      keys: Int32Array.from({ length: rows }, (_, row) => keyOf(row)),
    });
    const names = Array.from({ length: rows }, (_, row) => `op${row}`);
    const frame = {
      rows,
      columns: new Map<string, Column>([
        ["parent", column((row) => (row === 0 ? -1 : 0))],
        ["name", text(names, (row) => row)],
        ["kind", text(["op"], () => 0)],
        ["phase", text(["python"], () => 0)],
        ["self_cpu", column((row) => (row === 0 ? 0 : 1))],
        ["total_cpu", column((row) => (row === 0 ? rows - 1 : 1))],
      ]),
    };
    const turned = transformFlame(frame, ["cpu"], { ...PLAIN, shape: "inverted" }).frame;
    expect(turned.rows).toBe(rows);
    expect(numbersOf(turned, "total_cpu")[0]).toBe(rows - 1);
  });
});
