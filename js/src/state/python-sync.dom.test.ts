import { describe, expect, it, vi } from "vitest";
import { encodeFrame } from "../../test/encode";
import { hostOf } from "../../test/report";
import { connectionOf } from "../wire/connection";
import type { ExportHeader } from "../wire/header";
import { openReport, type ReportSource } from "./python-sync";

const TRACE = Uint8Array.of(31, 139, 8);
const PERFETTO: ExportHeader = {
  name: "perfetto",
  title: "Open in Perfetto",
  aside: "",
  kind: "perfetto",
  filename: "a.json.gz",
  mime: "application/gzip",
};
const CHROME: ExportHeader = { ...PERFETTO, name: "chrome", kind: "save" };

/** A saved file that contains a trace, whatever its header lists. */
function savedFile(exports: readonly ExportHeader[]): ReportSource {
  const host = hostOf({ exports });
  delete host.send;
  host.traits.set("_standalone", true);
  host.traits.set("_trace", TRACE);
  const element = document.createElement("div");
  const opened = openReport(host, connectionOf(host, element), new AbortController().signal);
  if (!opened.ok) throw new Error(opened.message);
  return opened.value;
}

function pageThatOpensNothing() {
  return { open: vi.fn(() => null), addEventListener: () => {} };
}

describe("the large views of a saved file", () => {
  /** A saved file that keeps the view "pulled" apart. */
  function fileThatReads(readSaved: (view: string) => Promise<ArrayBuffer>) {
    const host = Object.assign(hostOf(), { readSaved });
    delete host.send;
    const abort = new AbortController();
    const element = document.createElement("div");
    const opened = openReport(host, connectionOf(host, element), abort.signal);
    if (!opened.ok) throw new Error(opened.message);
    const view = opened.value.header.views.find(({ name }) => name === "pulled");
    if (view?.shape !== "table") throw new Error("no table is pulled");
    return { source: opened.value, view };
  }

  it("are read when they are first asked for, and once", async () => {
    const bytes = encodeFrame([["name", ["aten::mm"]]]);
    const read = vi.fn(async () => bytes.slice().buffer as ArrayBuffer);
    const { source, view } = fileThatReads(read);
    expect(source.isAtHand(view)).toBe(false);
    expect(source.frame(view).value.kind).toBe("loading");
    await vi.waitFor(() => expect(source.frame(view).value.kind).toBe("ready"));
    expect(read.mock.calls).toEqual([["pulled"]]);
    expect(source.isAtHand(view)).toBe(true);
  });

  it("say that they cannot be read", async () => {
    const { source, view } = fileThatReads(() => Promise.reject(new Error("cut off")));
    void source.frame(view).value;
    const message = "The data of this view cannot be read: cut off";
    await vi.waitFor(() => expect(source.frame(view).value).toEqual({ kind: "failed", message }));
  });
});

describe("the exports of a saved file", () => {
  it("are the trace that it contains", async () => {
    const source = savedFile([CHROME, PERFETTO]);
    expect(source.exports).toEqual([CHROME, PERFETTO]);
    expect(await source.pullExport("chrome")).toEqual({ ok: true, value: TRACE });
  });

  it("open Perfetto when the header lists it", async () => {
    const page = pageThatOpensNothing();
    await savedFile([PERFETTO]).openInPerfetto(page, "perfetto");
    expect(page.open).toHaveBeenCalledOnce();
  });

  it("are refused, without a window, when the header does not list them", async () => {
    const page = pageThatOpensNothing();
    const refused = { ok: false, message: "This report does not offer this export." };
    const source = savedFile([CHROME]);
    expect(await source.openInPerfetto(page, "perfetto")).toEqual(refused);
    expect(await source.openInPerfetto(page, "chrome")).toEqual(refused);
    expect(await source.pullExport("perfetto")).toEqual(refused);
    expect(page.open).not.toHaveBeenCalled();
  });
});
