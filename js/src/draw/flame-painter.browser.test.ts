import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { COLORS } from "../../test/colors";
import type { Boxes } from "../base/boxes";
import { MERGED_ROW } from "../base/boxes";
import { px } from "../base/units";
import { CanvasView } from "./canvas-view";
import { FillTable } from "./fills";
import { type FlameScene, paintFlame, ROW_PX } from "./flame-painter";
import { TextCache } from "./text-cache";

// Row 0 fills the width; below it row 1 on the left, a merged run on the right.
const BOXES: Boxes = {
  count: 3,
  left: Float64Array.of(0, 0, 60),
  width: Float64Array.of(100, 50, 40),
  row: Int32Array.of(0, 1, MERGED_ROW),
  depthStart: [0, 1, 3],
  widthPx: px(100),
};

const words = (...list: string[]) => ({
  kind: "text" as const,
  keys: Int32Array.from(list, (_, row) => row),
  words: list,
});

const SCENE: FlameScene = {
  boxes: BOXES,
  names: words("", "x"),
  titles: ["", "x"],
  calls: null,
  sizeOf: () => "",
  parents: [],
  isAwaiting: () => false,
  steps: 1,
  phases: words("forward", "backward"),
  kinds: words("op", "annotation"),
  runs: null,
  scrollTop: px(0),
  selectedKey: -1,
  selectedRow: -1,
  hoverRow: -1,
  matches: null,
  currentMatch: -1,
  colors: COLORS,
};

let context: CanvasRenderingContext2D;

beforeEach(() => {
  const canvas = document.createElement("canvas");
  canvas.width = 100;
  canvas.height = 60;
  context = canvas.getContext("2d", { willReadFrequently: true }) as CanvasRenderingContext2D;
});

function paint(more: Partial<FlameScene> = {}): void {
  const scene = { ...SCENE, ...more };
  const size = { width: px(100), height: px(60) };
  paintFlame(
    context,
    size,
    scene,
    new TextCache(),
    new FillTable(scene.phases, scene.kinds, scene.colors),
  );
}

function pixel(x: number, y: number): readonly number[] {
  return Array.from(context.getImageData(x, y, 1, 1).data);
}

// The palette's forward is #4477aa, backward #c77724.
const FORWARD = [0x44, 0x77, 0xaa];
const BACKWARD = [0xc7, 0x77, 0x24];

function tone(hue: readonly number[], share: number): readonly number[] {
  return [...hue.map((channel) => Math.round(255 * (1 - share) + channel * share)), 255];
}

describe("paintFlame", () => {
  it("fills a box in the colour of its phase", () => {
    paint();
    // An op has 58 % of the hue on the white ground, an annotation all of it.
    expect(pixel(50, 8)).toEqual(tone(FORWARD, 0.58));
    expect(pixel(20, ROW_PX + 8)).toEqual(tone(BACKWARD, 1));
  });

  it("hatches waiting where there is room for lines, and no other boxes", () => {
    paint({ phases: words("forward", "waiting") });
    const row = (depth: number) =>
      new Set(Array.from({ length: 20 }, (_, x) => pixel(10 + x, depth * ROW_PX + 3).join()));
    expect(row(1).size).toBeGreaterThan(1);
    expect(row(0).size).toBe(1);
  });

  it("fills a run of many boxes in grey", () => {
    paint();
    expect(pixel(80, ROW_PX + 8)).toEqual([100, 100, 100, 255]);
  });

  it("leaves gaps and the ground empty", () => {
    paint();
    expect(pixel(55, ROW_PX + 8)[3]).toBe(0);
    expect(pixel(50, 2 * ROW_PX + 8)[3]).toBe(0);
  });

  it("outlines what matches in the color of text, and dims nothing", () => {
    paint({ matches: Uint8Array.of(0, 1) });
    expect(pixel(50, 8)).toEqual(tone(FORWARD, 0.58));
    expect(pixel(20, ROW_PX)).toEqual([0, 0, 0, 255]);
  });

  it("outlines the selected box in the accent", () => {
    paint({ selectedRow: 1 });
    expect(pixel(20, ROW_PX)).toEqual([255, 0, 0, 255]);
  });

  it("paints added time solid, and saved time hatched, at the end of what both runs have", () => {
    const runs = (after: number) => ({
      before: Float64Array.of(100, 10),
      after: Float64Array.of(100, after),
      whole: Float64Array.of(100, 20),
    });
    const phases = (word: string) => ({
      ...words("same", word),
      keys: Int32Array.of(0, 1),
    });
    paint({ runs: runs(20), phases: phases("slower") });
    // The box of 50 px is 20 wide in the unit of its width: 25 px in both, 25 px added. Its palette is #dfe3e8, #c4532d.
    expect(pixel(22, ROW_PX + 3)).toEqual([0xdf, 0xe3, 0xe8, 255]);
    expect(pixel(40, ROW_PX + 3)).toEqual([0xc4, 0x53, 0x2d, 255]);
    paint({ runs: runs(5), phases: phases("faster") });
    // 12.5 px in both, 12.5 px saved. Of the saved part some pixels are ground and some are lines.
    const saved = Array.from({ length: 10 }, (_, x) => pixel(14 + x, ROW_PX + 3).join());
    expect(new Set(saved).size).toBeGreaterThan(2);
    expect(pixel(40, ROW_PX + 3)).toEqual([0xdf, 0xe3, 0xe8, 255]);
  });

  it("moves up when it is scrolled", () => {
    paint({ scrollTop: px(ROW_PX) });
    expect(pixel(20, 8)).toEqual(tone(BACKWARD, 1));
  });
});

describe("CanvasView", () => {
  const abort = new AbortController();
  afterEach(() => document.body.replaceChildren());

  const nextFrame = () => new Promise((resolve) => requestAnimationFrame(resolve));

  it("draws once for many redraw requests, at the resolution of the screen", async () => {
    const canvas = document.createElement("canvas");
    canvas.style.cssText = "display:block;width:120px;height:40px";
    document.body.append(canvas);
    let drawings = 0;
    const view = new CanvasView(
      canvas,
      () => {
        drawings += 1;
      },
      abort.signal,
    );
    await nextFrame();
    await nextFrame();
    drawings = 0;
    for (let wish = 0; wish < 5; wish += 1) view.requestRedraw();
    await nextFrame();
    await nextFrame();
    expect(drawings).toBe(1);
    expect(canvas.width).toBe(120 * window.devicePixelRatio);
  });
});
