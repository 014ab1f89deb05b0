import { describe, expect, it } from "vitest";
import { hostOf } from "../../test/report";
import { parseHeader } from "./header";

/** The header of the small report with one change. */
function changed(change: (header: Record<string, unknown>) => void): string {
  const header = JSON.parse(String(hostOf().get("_header"))) as Record<string, unknown>;
  change(header);
  return JSON.stringify(header);
}

function messageFor(json: string): string {
  const parsed = parseHeader(json);
  return parsed.ok ? "" : parsed.message;
}

describe("parseHeader", () => {
  it("refuses a header of another version", () => {
    expect(messageFor(JSON.stringify({ version: 1, views: [] }))).toContain("format 1");
  });

  it("fails when the text is not JSON", () => {
    expect(parseHeader("{").ok).toBe(false);
  });

  it("names the path of a missing field", () => {
    const text = changed((header) => {
      const views = header.views as Record<string, unknown>[];
      delete views[1]?.weights;
    });
    expect(messageFor(text)).toContain("views.1.weights is missing or invalid");
  });

  it("refuses a shape that it does not know", () => {
    for (const shape of ["pie", "constructor", 7]) {
      const text = changed((header) => {
        header.views = [{ name: "a", title: "A", shape }];
      });
      expect(messageFor(text)).toContain("views.0.shape is missing or invalid");
    }
  });

  it("drops unknown fields", () => {
    const parsed = parseHeader(changed((header) => Object.assign(header, { more: 1 })));
    expect(parsed.ok && "more" in parsed.value).toBe(false);
  });
});
