import { signal } from "@preact/signals";
import type { SortingState } from "@tanstack/table-core";
import { afterEach, describe, expect, it } from "vitest";
import { encodeFrame, packViews } from "../../../test/encode";
import { columnHeader, tableHeader } from "../../../test/headers";
import { find, hostOf, type Mounted, mount, openTab, press, settle } from "../../../test/report";
import { decodeFrame } from "../../wire/decode";
import type { Column } from "../../wire/frame";
import type { BarPart, ChangeHeader, ReportHeader } from "../../wire/header";
import { barRatio, fittingColumns, gridColumns } from "./grid-columns";
import { orderedRows } from "./grid-order";
import { createGridTable, type GridTable } from "./grid-table";

let report: Mounted | undefined;

async function show(): Promise<HTMLElement> {
  report = mount();
  await settle();
  return report.root;
}

afterEach(() => {
  report?.unmount();
  document.body.replaceChildren();
});

function names(root: HTMLElement): readonly (string | null)[] {
  const rows = Array.from(root.querySelectorAll(".tp-rows [role=row]"));
  const byPlace = rows.toSorted(
    (a, b) => Number(a.getAttribute("aria-rowindex")) - Number(b.getAttribute("aria-rowindex")),
  );
  return byPlace.map((row) => find(row, ".tp-name").textContent).slice(0, 2);
}

function header(root: HTMLElement, column: string): HTMLElement {
  return find(root, `[data-tp-column="${column}"]`);
}

async function type(root: HTMLElement, text: string): Promise<void> {
  const search = find<HTMLInputElement>(root, ".tp-search");
  search.value = text;
  search.dispatchEvent(new Event("input", { bubbles: true }));
  await settle();
}

function changeOf(kind: ChangeHeader["kind"]): ChangeHeader {
  const words = { title: "", numbers: "", answer: "", opens: "", evidence: "", same: "" };
  return { kind, ...words, warnings: [], runs: [], settings: [] };
}

describe("a table", () => {
  it("is first sorted as its header says, largest first", async () => {
    const root = await show();
    expect(names(root)).toEqual(["aten::add", "aten::mm"]);
    expect(header(root, "self_ns").getAttribute("aria-sort")).toBe("descending");
  });

  it("reverses its order when the header is clicked", async () => {
    const root = await show();
    find(header(root, "self_ns"), "button").click();
    await settle();
    expect(header(root, "self_ns").getAttribute("aria-sort")).toBe("ascending");
    expect(names(root)).toEqual(["a\u202Eb", "</script>"]);
  });

  it("pins a column beside the names with Shift and a click, or P, and lets it go again", async () => {
    const root = await show();
    const last = Array.from(root.querySelectorAll(".tp-head [data-tp-column]")).at(-1);
    const id = last?.getAttribute("data-tp-column") ?? "";
    const order = () =>
      Array.from(root.querySelectorAll(".tp-head [data-tp-column]"), (cell) =>
        cell.getAttribute("data-tp-column"),
      );
    const before = order();
    const sort = header(root, id).getAttribute("aria-sort");
    find(header(root, id), "button").dispatchEvent(
      new MouseEvent("click", { bubbles: true, shiftKey: true }),
    );
    await settle();
    expect(order()).toEqual([before[0], id, ...before.slice(1, -1)]);
    expect(header(root, id).classList.contains("tp-pinned")).toBe(true);
    expect(Number.parseFloat(header(root, id).style.left)).toBeGreaterThan(0);
    expect(header(root, id).getAttribute("aria-sort")).toBe(sort);
    press(find(header(root, id), "button"), "p");
    await settle();
    expect(order()).toEqual(before);
  });

  it("writes the unit of a column into its header", async () => {
    const root = await show();
    expect(header(root, "self_ns").textContent).toContain("Self CPU ms");
    expect(find(header(root, "self_ns"), "button").title).toContain("Self CPU ms\nOwn time.");
  });

  it("shows the rows of which a name contains the filter", async () => {
    const root = await show();
    await type(root, "ATEN");
    expect(names(root)).toEqual(["aten::add", "aten::mm"]);
    expect(find(root, ".tp-tools-note").textContent).toBe("2 of 6 ops");
    expect(find(root, ".tp-view").dataset.tpRowsShown).toBe("2");
  });

  it("filters by phase too", async () => {
    const root = await show();
    await type(root, "backward");
    expect(names(root)).toEqual(["aten::add"]);
  });

  it("says so when nothing matches", async () => {
    const root = await show();
    await type(root, "zzz");
    expect(find(root, ".tp-sentence").textContent).toBe("No op matches “zzz”.");
  });

  it("moves the selection with the arrow keys", async () => {
    const root = await show();
    const grid = find(root, "[role=grid]");
    press(grid, "ArrowDown");
    await settle();
    expect(find(root, '[aria-selected="true"] .tp-name').textContent).toBe("aten::add");
    press(grid, "End");
    await settle();
    expect(find(root, '.tp-rows [aria-selected="true"] .tp-name').textContent).toBe("a\u202Eb");
  });

  it("moves on past rows of the same name", async () => {
    const host = hostOf();
    const twins = encodeFrame([
      ["name", ["a", "a", "b"]],
      ["phase", ["python", "python", "python"]],
      ["calls", Int32Array.of(1, 1, 1)],
      ["self_ns", Float64Array.of(3, 2, 1)],
    ]);
    const header = JSON.parse(String(host.get("_header"))) as ReportHeader;
    const views = header.views.slice(0, 1).map((view) => ({ ...view, length: twins.byteLength }));
    host.traits.set("_header", JSON.stringify({ ...header, views }));
    host.traits.set("_data", new DataView(twins.slice().buffer));
    report = mount(host);
    await settle();
    const grid = find(report.root, "[role=grid]");
    for (let times = 0; times < 3; times += 1) {
      press(grid, "ArrowDown");
      await settle();
    }
    expect(find(report.root, '.tp-rows [aria-selected="true"] .tp-name').textContent).toBe("b");
  });

  it("keeps its sort order and filter when its tab is opened again", async () => {
    const root = await show();
    find(header(root, "calls"), "button").click();
    await type(root, "aten");
    await openTab(root, "flame");
    await openTab(root, "ops");
    expect(header(root, "calls").getAttribute("aria-sort")).toBe("descending");
    expect(find(root, ".tp-tools-note").textContent).toBe("2 of 6 ops");
  });

  it("reports all rows and the header to screen readers", async () => {
    const root = await show();
    expect(find(root, "[role=grid]").getAttribute("aria-rowcount")).toBe("7");
    expect(find(root, '[data-tp-row="1"]').getAttribute("aria-rowindex")).toBe("2");
  });
});

describe("the selection", () => {
  it("goes from the table to the flame graph and back", async () => {
    const root = await show();
    find(root, '[data-tp-row="1"]').click();
    await openTab(root, "flame");
    expect(find(root, ".tp-flame-canvas").dataset.tpSelected).toBe("aten::add");
    await openTab(root, "ops");
    expect(find(root, '.tp-rows [aria-selected="true"] .tp-name').textContent).toBe("aten::add");
  });

  it("is shown inside its parent in the flame graph by Enter", async () => {
    const root = await show();
    find(root, '[data-tp-row="0"]').click();
    press(find(root, "[role=grid]"), "Enter");
    await settle();
    expect(root.dataset.tpView).toBe("flame");
    expect(find(root, "[aria-live]").textContent).toContain(
      "aten::mm, CPU self 40 ns, total 60 ns",
    );
  });

  it("moves by keys in the flame graph and shows in the table", async () => {
    const root = await show();
    await openTab(root, "flame");
    const canvas = find(root, ".tp-flame-canvas");
    press(canvas, "ArrowDown");
    press(canvas, "ArrowDown");
    await settle();
    expect(canvas.dataset.tpSelected).toBe("aten::mm");
    find(root, '.tp-links [data-tp-target="ops"]').click();
    await settle();
    expect(root.dataset.tpView).toBe("ops");
    expect(find(root, '.tp-rows [aria-selected="true"] .tp-name').textContent).toBe("aten::mm");
  });

  it("clears a filter that would hide the requested row", async () => {
    const root = await show();
    await type(root, "script");
    await openTab(root, "flame");
    press(find(root, ".tp-flame-canvas"), "ArrowDown");
    press(find(root, ".tp-flame-canvas"), "ArrowDown");
    await settle();
    find(root, '.tp-links [data-tp-target="ops"]').click();
    await settle();
    expect(find(root, ".tp-tools-note").textContent).toBe("6 ops");
  });
});

/** Shows the ops with bars of parts and, if it is asked for, a column with remarks; returns the longest row. */
async function longestWith(parts: readonly BarPart[], note: string | null = null) {
  const { views } = JSON.parse(String(hostOf().get("_header"))) as ReportHeader;
  const changed = views.map((view) =>
    view.shape === "table"
      ? { ...view, note, columns: view.columns.map((each) => ({ ...each, parts })) }
      : view,
  );
  report = mount(hostOf({ views: changed }));
  await settle();
  return find(report.root, '.tp-rows [data-tp-row="1"]');
}

function barsOf(row: HTMLElement) {
  return Array.from(row.querySelectorAll<HTMLElement>(".tp-bar"));
}

describe("a bar of parts", () => {
  it("has one for each, in the share that it is of the sum", async () => {
    const row = await longestWith([
      { column: "self_ns", phase: "forward" },
      { column: "calls", phase: "backward" },
    ]);
    // All of its 50 ms are in the first part, and 10 ns in the second.
    expect(barsOf(row).map(({ title, style }) => [title, style.width])).toEqual([
      ["forward", "100%"],
      ["backward", "0%"],
    ]);
  });

  it("has the hue of the row where a part has no phase, and is hatched where it waits", async () => {
    const row = await longestWith([
      { column: "self_ns", phase: "" },
      { column: "self_ns", phase: "waiting" },
    ]);
    expect(
      barsOf(row).map(({ title, style, className }) => [title, style.width, className]),
    ).toEqual([
      ["backward", "50%", "tp-bar"],
      ["waiting", "50%", "tp-bar tp-hatched"],
    ]);
  });
});

describe("waiting", () => {
  it("is hatched in the dot beside a name, as in bars", async () => {
    const { views } = JSON.parse(String(hostOf().get("_header"))) as ReportHeader;
    const columns = [columnHeader("name", "code"), columnHeader("phase", "phase")];
    const ops = encodeFrame([
      ["name", ["aten::item", "aten::mm"]],
      ["phase", ["waiting", "forward"]],
    ]);
    const [first] = views;
    if (first?.shape !== "table") throw new Error("the first view is no table");
    const packed = packViews([{ ...first, columns, sort_by: null, count: 2 }], [ops]);
    const host = hostOf({ views: packed.views });
    host.traits.set("_data", packed.data);
    report = mount(host);
    await settle();
    const dots = Array.from(report.root.querySelectorAll(".tp-rows .tp-dot"));
    expect(dots.map(({ className }) => className)).toEqual(["tp-dot tp-hatched", "tp-dot"]);
  });
});

describe("a sparse table", () => {
  it("leaves zeros blank, also in rows below others", async () => {
    const columns = [columnHeader("source", "code"), columnHeader("wait_ns", "ns")];
    const lines = encodeFrame([
      ["id", ["a", "b"]],
      ["above", ["", "a"]],
      ["source", ["functions", "f"]],
      ["wait_ns", Float64Array.of(5, 0)],
    ]);
    const outline = {
      id: "id",
      parent: "above",
      open_levels: 1,
      closed: null,
      aside: null,
      extra: null,
    };
    const view = tableHeader("source", { columns, outline, is_sparse: true, count: 2 });
    const packed = packViews([view], [lines]);
    const host = hostOf({ views: packed.views });
    host.traits.set("_data", packed.data);
    report = mount(host);
    await settle();
    expect(find(report.root, '.tp-rows [data-tp-row="0"] .tp-value').textContent).toBe("5");
    expect(find(report.root, '.tp-rows [data-tp-row="1"] .tp-value').textContent).toBe("");
  });
});

describe("the count of rows", () => {
  it.each([
    ["Source", "2 lines"],
    ["Function", "2 functions"],
    ["Source function", "2 lines"],
  ])("calls the rows of a column %s as that does: %s", async (title, count) => {
    const columns = [columnHeader("source", "code", { title, is_verbatim: true })];
    const view = tableHeader("source", { columns, sort_by: null, count: 2 });
    const packed = packViews([view], [encodeFrame([["source", ["f", "g"]]])]);
    const host = hostOf({ views: packed.views });
    host.traits.set("_data", packed.data);
    report = mount(host);
    await settle();
    expect(find(report.root, ".tp-tools-note").textContent).toBe(count);
  });
});

describe("a remark on a row", () => {
  it("stands beside its name, as text", async () => {
    const row = await longestWith([], "phase");
    expect(find(row, ".tp-row-note").textContent).toBe("backward");
  });

  it("is not there without a column of remarks", async () => {
    expect((await longestWith([])).querySelector(".tp-row-note")).toBeNull();
  });
});

describe("the flame graph", () => {
  it("zooms to the selected box with Enter and comes back with Esc", async () => {
    const root = await show();
    await openTab(root, "flame");
    const canvas = find(root, ".tp-flame-canvas");
    for (const key of ["ArrowDown", "ArrowDown", "Enter"]) press(canvas, key);
    await settle();
    // aten::mm has 60 of 100, so the whole is 1.67 times as wide.
    expect([canvas.dataset.tpFocus, canvas.dataset.tpZoom]).toEqual(["aten::mm", "1.67"]);
    press(canvas, "Escape");
    await settle();
    expect([canvas.dataset.tpFocus, canvas.dataset.tpZoom]).toEqual(["all", "1.00"]);
  });

  it("shows how many boxes match and their total weight", async () => {
    const root = await show();
    await openTab(root, "flame");
    await type(root, "ADD");
    // 20 inside aten::mm and 40 beside it, of 100.
    const steps = find(root, ".tp-match-steps");
    expect(steps.textContent).toContain("60 % of CPU");
    expect(find(steps, "[data-tp-match]").dataset.tpMatchCount).toBe("2");
    expect(find(root, ".tp-flame-canvas").dataset.tpMatches).toBe("2");
  });
});

describe("columns", () => {
  const view = tableHeader("ops", {
    sort_by: "total_ns",
    columns: [
      columnHeader("name", "code"),
      columnHeader("calls", "count", { is_minor: true }),
      columnHeader("self_ns", "ns", { has_bar: true }),
      columnHeader("total_ns", "ns", { has_bar: true }),
    ],
  });
  const decoded = decodeFrame(
    encodeFrame([
      ["name", ["a"]],
      ["calls", Int32Array.of(1)],
      ["self_ns", Float64Array.of(1)],
      ["total_ns", Float64Array.of(1)],
    ]),
  );
  if (!decoded.ok) throw new Error(decoded.message);
  const columns = gridColumns(view, decoded.value);
  const shown = (widthPx: number, chosen?: ReadonlyMap<string, boolean>) =>
    fittingColumns(columns, widthPx, chosen).map((column) => column.header.name);

  it("are all shown when they fit", () => {
    expect(shown(1000)).toEqual(["name", "calls", "self_ns", "total_ns"]);
  });

  it("are hidden when they do not fit, minor ones first", () => {
    // 390 px are needed for all, and 313 px without the minor one.
    expect(shown(350)).toEqual(["name", "self_ns", "total_ns"]);
  });

  it("are hidden from the right, but for the name and what the table is sorted by", () => {
    expect(shown(10)).toEqual(["name", "total_ns"]);
  });

  it("stay when they were chosen by hand", () => {
    expect(shown(10, new Map([["calls", true]]))).toEqual(["name", "calls", "total_ns"]);
  });
});

describe("sorting", () => {
  it("begins with the largest number and with the first word", () => {
    const table = tableOf(Float64Array.of(1));
    table.getColumn("v")?.toggleSorting();
    expect(table.atoms.sorting.get()).toEqual([{ id: "v", desc: true }]);
    table.getColumn("name")?.toggleSorting();
    expect(table.atoms.sorting.get()).toEqual([{ id: "name", desc: false }]);
  });

  it("alternates between descending and ascending", () => {
    const table = tableOf(Float64Array.of(1));
    const column = table.getColumn("v");
    const directions = [1, 2, 3].map(() => {
      column?.toggleSorting();
      return column?.getIsSorted();
    });
    expect(directions).toEqual(["desc", "asc", "desc"]);
  });

  it("puts unknown values last when the largest come first", () => {
    expect(sorted(Float64Array.of(Number.NaN, 1, 2), true)).toEqual([2, 1, 0]);
  });

  it("puts the largest change first, whatever its sign", () => {
    const cells: Column = { kind: "number", values: Float64Array.of(1, -3, Number.NaN, 2) };
    expect(Array.from(orderedRows(cells, true, true))).toEqual([1, 3, 0, 2]);
    expect(Array.from(orderedRows(cells, true))).toEqual([3, 0, 1, 2]);
  });

  it("keeps the order of a table of changes that opens with what explains them", () => {
    const change = columnHeader("delta_ns", "ns", { is_change: true, has_bar: true });
    const view = tableHeader("compare", { columns: [change], sort_by: "delta_ns" });
    const values = Float64Array.of(3, 1, -4);
    const frame = {
      rows: 3,
      columns: new Map([["delta_ns", { kind: "number", values } as const]]),
    };
    const sorting = signal([{ id: "delta_ns", desc: true }]);
    const table = createGridTable(view, frame, { query: signal(""), sorting });
    expect(rowsOf(table)).toEqual([0, 1, 2]);
    table.setSorting([{ id: "delta_ns", desc: false }]);
    expect(rowsOf(table)).toEqual([1, 0, 2]);
  });

  it("puts what has no name of its own last in either direction, off the scale of the bars", () => {
    const values = Float64Array.of(9, 1, 3);
    const rest = { kind: "number", values: Float64Array.of(1, 0, 0) } as const;
    const columns = new Map<string, Column>([
      ["v", { kind: "number", values }],
      ["is_rest", rest],
    ]);
    const more = { rows: 3, columns };
    const bar = columnHeader("v", "ns", { has_bar: true });
    const view = tableHeader("ops", { columns: [bar], rest: "is_rest" });
    const state = { query: signal(""), sorting: signal([{ id: "v", desc: true }]) };
    const table = createGridTable(view, more, state);
    expect(rowsOf(table)).toEqual([2, 1, 0]);
    table.setSorting([{ id: "v", desc: false }]);
    expect(rowsOf(table)).toEqual([1, 2, 0]);
    const [column] = gridColumns(view, more);
    expect([0, 1, 2].map((row) => column && barRatio(column, row))).toEqual([0, 1 / 3, 1]);
  });

  it("keeps the order of equal values", () => {
    expect(sorted(Float64Array.of(5, 7, 5, 7), true)).toEqual([1, 3, 0, 2]);
  });

  it("keeps the order of the rows for an unknown column", () => {
    const table = tableOf(Float64Array.of(1, 2));
    table.setSorting([{ id: "gone", desc: true }]);
    expect(rowsOf(table)).toEqual([0, 1]);
  });

  it("puts 100,000 rows in order", () => {
    // Each value once, mixed: 7,919 and 100,000 have no common divisor.
    const values = Float64Array.from({ length: 100_000 }, (_, row) => (row * 7_919) % 100_000);
    const falling = sorted(values, true).map((row) => values[row]);
    expect(falling).toEqual(Array.from(values, (_, place) => 99_999 - place));
  });
});

describe("the filter of a table", () => {
  it("keeps the order of the matching rows", () => {
    const table = tableOf(Float64Array.of(1, 3, 2), ["Mul", "add", "mm"]);
    table.setSorting([{ id: "v", desc: true }]);
    table.setGlobalFilter(" M");
    expect(rowsOf(table)).toEqual([2, 0]);
  });

  it("searches text, not numbers", () => {
    const table = tableOf(Float64Array.of(12, 3), ["a3", "b"]);
    table.setGlobalFilter("3");
    expect(rowsOf(table)).toEqual([0]);
  });

  it("returns the position of a row, -1 for a hidden row", () => {
    const table = tableOf(Float64Array.of(1, 2), ["a", "b"]);
    table.setGlobalFilter("b");
    expect(table.getCoreRowModel().rows.map((row) => row.getDisplayIndex())).toEqual([-1, 0]);
  });
});

/** A table of words and numbers, each row's word in the order given. */
function tableOf(values: Float64Array, words: readonly string[] = ["a"]): GridTable {
  const view = tableHeader("ops", {
    columns: [columnHeader("name", "code"), columnHeader("v", "count")],
  });
  const keys = Int32Array.from(values, (_, row) => row % words.length);
  const columns = new Map<string, Column>([
    ["name", { kind: "text", keys, words }],
    ["v", { kind: "number", values }],
  ]);
  const state = { sorting: signal<SortingState>([]), query: signal("") };
  return createGridTable(view, { rows: values.length, columns }, state);
}

function rowsOf(table: GridTable): readonly number[] {
  return table.getRowModel().rows.map((row) => row.index);
}

function sorted(values: Float64Array, isDescending: boolean): readonly number[] {
  const table = tableOf(values);
  table.setSorting([{ id: "v", desc: isDescending }]);
  return rowsOf(table);
}

describe("a comparison", () => {
  it.each([
    ["slower", ["slower", "slower", "faster", "same"], ["▲ 4", "▲ 7", "▼ −"]],
    ["unclear", ["same", "same", "same", "same"], null],
  ] as const)(
    "marks what changed most and what one run lacks as slower or faster in a change that is %s",
    async (kind, colors, signs) => {
      const { views } = JSON.parse(String(hostOf().get("_header"))) as ReportHeader;
      const [first] = views;
      if (first?.shape !== "table") throw new Error("the first view is no table");
      const columns = [
        columnHeader("name", "code"),
        columnHeader("before_ns", "ns"),
        columnHeader("after_ns", "ns"),
        columnHeader("delta_ns", "ns", { is_change: true, has_bar: true }),
        columnHeader("status", "text"),
      ];
      const frame = encodeFrame([
        ["name", ["a", "b", "c", "d"]],
        ["before_ns", Float64Array.of(5, 0, 8, 5)],
        ["after_ns", Float64Array.of(9, 7, 0, 5.3)],
        ["delta_ns", Float64Array.of(4, 7, -8, 0.3)],
        ["status", ["both", "new", "gone", "both"]],
      ]);
      const packed = packViews([{ ...first, columns, sort_by: null, count: 4 }], [frame]);
      const host = hostOf({ views: packed.views, change: changeOf(kind) });
      host.traits.set("_data", packed.data);
      report = mount(host);
      await settle();
      const { root } = report;
      const said = [0, 1, 2].map((row) =>
        Array.from(
          find(root, `.tp-rows [data-tp-row="${row}"]`).querySelectorAll(".tp-value"),
          (each) => each.textContent,
        ).slice(0, 3),
      );
      expect(said).toEqual([
        ["5", "9", "4"],
        ["–", "7", "7"],
        ["8", "–", "−8"],
      ]);
      const bars = Array.from(
        root.querySelectorAll(".tp-rows .tp-bar"),
        ({ className }) => className,
      );
      expect(bars).toEqual(colors.map((color) => `tp-bar tp-${color}`));
      expect(root.querySelector(".tp-rows")?.textContent.match(/[▲▼] [\d−]/g) ?? null).toEqual(
        signs,
      );
    },
  );
});
