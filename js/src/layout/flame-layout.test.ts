import { describe, expect, it } from "vitest";
import { MERGED_ROW } from "../base/boxes";
import { linearScale } from "../base/scale";
import { px, weight } from "../base/units";
import { boxAt, depthsOf, layoutFlame } from "./flame-layout";
import { holderOf, neighbour } from "./flame-place";
import { heaviestRow, searchFlame } from "./flame-search";
import { buildExtent, buildTree, childrenOf, hottestPath, pathTo } from "./flame-tree";

//  0 all 100
//  ├ 1 a 60
//  │ └ 2 b 20
//  └ 3 c 40
//    ├ 4 b 10
//    └ 5 d 30
const PARENT = Int32Array.of(-1, 0, 1, 0, 3, 3);
const TOTAL = Float64Array.of(100, 60, 20, 40, 10, 30);
const NAMES = {
  kind: "text" as const,
  keys: Int32Array.of(0, 1, 2, 3, 2, 4),
  words: ["all", "aten::a", "aten::b", "c", "d"],
};
const tree = buildTree(PARENT);
const extent = buildExtent(tree, TOTAL);

function layout(start: number, end: number, width: number) {
  const scale = linearScale({ start: weight(start), end: weight(end) }, px(width));
  const boxes = layoutFlame(tree, extent, scale);
  return Array.from({ length: boxes.count }, (_, box) => [
    boxes.row[box],
    boxes.left[box],
    boxes.width[box],
  ]);
}

describe("buildTree", () => {
  it("finds children in wire order", () => {
    expect(Array.from(childrenOf(tree, 0))).toEqual([1, 3]);
    expect(Array.from(childrenOf(tree, 3))).toEqual([4, 5]);
  });

  it("counts depths from the root", () => {
    expect(Array.from(tree.depth)).toEqual([0, 1, 2, 1, 2, 2]);
  });

  it("refuses a child before its parent", () => {
    expect(() => buildTree(Int32Array.of(-1, 2, 0))).toThrow("before its parent");
  });

  it("returns the path to a row", () => {
    expect(pathTo(tree, 5)).toEqual([0, 3, 5]);
  });
});

describe("the hottest path", () => {
  it("ends at the largest box with a fifth of the whole, and in which no box has that", () => {
    // a has most, but b in it only 20 of 100, and d in c 30.
    expect(hottestPath(tree, TOTAL)).toEqual([0, 3, 5]);
    expect(hottestPath(tree, Float64Array.of(100, 60, 19, 40, 10, 30))).toEqual([0, 1]);
    expect(hottestPath(tree, Float64Array.of(100, 30, 20, 70, 10, 60))).toEqual([0, 3, 5]);
  });

  it("passes over a box that mostly waits for another thread", () => {
    // Of the 60 of a, 50 are waits; c has 40 of the 50 that are left, and d 30 of these.
    const awaits = Float64Array.of(50, 50, 0, 0, 0, 0);
    expect(hottestPath(tree, TOTAL, awaits)).toEqual([0, 3, 5]);
  });

  it("is the root alone where nothing has any weight", () => {
    expect(hottestPath(tree, new Float64Array(6))).toEqual([0]);
  });
});

it("begins a row where the siblings before it end", () => {
  // c begins after a (60); d begins after b, 10 into c.
  expect(Array.from(extent.start)).toEqual([0, 0, 0, 60, 60, 70]);
});

describe("layoutFlame", () => {
  it("lays rows out depth by depth", () => {
    expect(layout(0, 100, 1000)).toEqual([
      [0, 0, 1000],
      [1, 0, 600],
      [3, 600, 400],
      [2, 0, 200],
      [4, 600, 100],
      [5, 700, 300],
    ]);
  });

  it("omits boxes outside the window", () => {
    // From 60 to 100 only c and what is under it; ten pixels a unit at 400 px.
    expect(layout(60, 100, 400)).toEqual([
      [0, -600, 1000],
      [3, 0, 400],
      [4, 0, 100],
      [5, 100, 300],
    ]);
  });

  it("returns no boxes without weight or width", () => {
    expect(layout(0, 100, 0)).toEqual([]);
  });

  it("merges boxes narrower than half a pixel", () => {
    // 1,000 children of one unit on 100 px: a tenth of a pixel each, one run of 100 px.
    const { boxes } = wide(1000, 100);
    expect(boxes.count).toBe(2);
    expect([boxes.row[1], boxes.left[1], boxes.width[1]]).toEqual([MERGED_ROW, 0, 100]);
  });

  it("keeps boxes of just half a pixel", () => {
    const { boxes } = wide(1000, 500);
    expect(boxes.count).toBe(1001);
    expect(boxes.width[1]).toBe(0.5);
  });

  it("does work in proportion to pixels, not to a million rows", () => {
    const { boxes, reads } = wide(1_000_000, 1000);
    expect(boxes.count).toBe(2);
    // Some 2,000 halves of a pixel, each found in some 20 bisections.
    expect(reads).toBeLessThan(100_000);
  });
});

/** A root with `rows` equal children, laid out on `width` pixels. */
function wide(rows: number, width: number) {
  const parents = Int32Array.from({ length: rows + 1 }, (_, row) => (row === 0 ? -1 : 0));
  const totals = Float64Array.from({ length: rows + 1 }, (_, row) => (row === 0 ? rows : 1));
  const flat = buildTree(parents);
  const flatExtent = buildExtent(flat, totals);
  const scale = linearScale({ start: weight(0), end: weight(rows) }, px(width));
  let reads = 0;
  const total = new Proxy(totals, {
    get: (target, key) => {
      reads += 1;
      return Reflect.get(target, key);
    },
  });
  const boxes = layoutFlame(flat, { start: flatExtent.start, total }, scale);
  return { boxes, reads };
}

describe("boxAt", () => {
  const scale = linearScale({ start: weight(0), end: weight(100) }, px(1000));
  const boxes = layoutFlame(tree, extent, scale);
  const rowAt = (depth: number, x: number) => boxes.row[boxAt(boxes, depth, x)] ?? -1;

  it("finds the box under a pixel", () => {
    expect([rowAt(0, 999), rowAt(1, 599), rowAt(1, 601), rowAt(2, 750)]).toEqual([0, 1, 3, 5]);
  });

  it("finds nothing in a gap, below the graph or beside it", () => {
    expect([boxAt(boxes, 2, 300), boxAt(boxes, 3, 10), boxAt(boxes, 1, 1001)]).toEqual([
      -1, -1, -1,
    ]);
  });

  it("returns the depth of the graph", () => {
    expect(depthsOf(boxes)).toBe(3);
  });
});

describe("searchFlame", () => {
  it("counts matches without regard to case and weighs the outermost", () => {
    // aten::a (60) holds one aten::b; the other aten::b (10) is in c: (60 + 10) / 100.
    const found = searchFlame(tree, extent, NAMES, "ATEN");
    expect([found?.rows.length, found?.ratio]).toEqual([3, 0.7]);
  });

  it("lists the heaviest match first", () => {
    // aten::a has 60, the aten::b in it 30, and the other one 10.
    expect(Array.from(searchFlame(tree, extent, NAMES, "aten")?.rows ?? [])).toEqual([1, 2, 4]);
  });

  it("takes a regular expression between slashes", () => {
    expect(searchFlame(tree, extent, NAMES, "/b$/")?.rows.length).toBe(2);
    expect(searchFlame(tree, extent, NAMES, "/(/")?.rows.length).toBe(0);
  });

  it("finds nothing for an empty search", () => {
    expect(searchFlame(tree, extent, NAMES, "  ")).toBeNull();
  });

  it("finds the heaviest row of a name", () => {
    expect(heaviestRow(extent, NAMES, "aten::b")).toBe(2);
    expect(heaviestRow(extent, NAMES, "__proto__")).toBe(-1);
  });
});

describe("places", () => {
  it("finds the nearest ancestor that contains a window", () => {
    expect(holderOf(tree, extent, 5, { start: weight(65), end: weight(90) })).toBe(3);
    expect(holderOf(tree, extent, 5, { start: weight(50), end: weight(90) })).toBe(0);
  });

  it("goes to parent, heaviest child and siblings", () => {
    expect(neighbour(tree, extent, 5, "up")).toBe(3);
    expect(neighbour(tree, extent, 3, "down")).toBe(5);
    expect(neighbour(tree, extent, 1, "next")).toBe(3);
    expect(neighbour(tree, extent, 3, "previous")).toBe(1);
  });

  it("stays where there is nothing further", () => {
    expect(neighbour(tree, extent, 2, "down")).toBe(2);
    expect(neighbour(tree, extent, 3, "next")).toBe(3);
    expect(neighbour(tree, extent, 0, "up")).toBe(0);
  });
});
