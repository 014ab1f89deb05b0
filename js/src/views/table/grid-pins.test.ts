import { describe, expect, it } from "vitest";
import { pinnedLefts, withPinsFirst } from "./grid-pins";

const COLUMNS = [
  { name: "line", isLead: false, px: 40 },
  { name: "op", isLead: true, px: 150 },
  { name: "calls", isLead: false, px: 60 },
  { name: "self", isLead: false, px: 90 },
  { name: "total", isLead: false, px: 90 },
];

describe("pinned columns", () => {
  it("stand after the names in the order in which they were pinned", () => {
    const found = withPinsFirst(COLUMNS, ["total", "calls"], (column) => column);
    expect(found.map(({ name }) => name)).toEqual(["line", "op", "total", "calls", "self"]);
  });

  it("stay beside the names and beside each other", () => {
    const columns = withPinsFirst(COLUMNS, ["total", "calls"], (column) => column);
    expect([...pinnedLefts(columns, ["total", "calls"])]).toEqual([
      ["total", 150],
      ["calls", 240],
    ]);
  });

  it("that are not shown take no place", () => {
    const columns = COLUMNS.filter(({ name }) => name !== "total");
    const found = withPinsFirst(columns, ["total", "self"], (column) => column);
    expect(found.map(({ name }) => name)).toEqual(["line", "op", "self", "calls"]);
    expect([...pinnedLefts(found, ["total", "self"])]).toEqual([["self", 150]]);
  });
});
