import { expect, it, vi } from "vitest";
import { FakeHost } from "../../test/report";
import { unpackedHost } from "./unpacked-host";

async function packed(text: string): Promise<DataView<ArrayBuffer>> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new DataView(await new Response(stream).arrayBuffer());
}

async function hostOf(header: string, data: string) {
  const host = new FakeHost();
  host.traits.set("_header", header).set("_data", await packed(data));
  return host;
}

function textOf(data: unknown): string {
  return new TextDecoder().decode(data as DataView);
}

it("has the data of a model unpacked", async () => {
  const host = await unpackedHost(await hostOf("header", "columns"), new AbortController().signal);
  expect([host.get("_header"), textOf(host.get("_data"))]).toEqual(["header", "columns"]);
});

it("changes header and data together, when the data is unpacked", async () => {
  const model = await hostOf("first", "one");
  const host = await unpackedHost(model, new AbortController().signal);
  const seen: unknown[] = [];
  host.on("change:_data", () => seen.push([host.get("_header"), textOf(host.get("_data"))]));
  model.traits.set("_data", await packed("two"));
  model.emit("change:_data");
  model.traits.set("_header", "second");
  model.emit("change:_header");
  expect(host.get("_header")).toBe("first");
  await vi.waitFor(() => expect(seen).toEqual([["second", "two"]]));
});

it("is silent about what it no longer hears, and after its end", async () => {
  const model = await hostOf("first", "one");
  const abort = new AbortController();
  const host = await unpackedHost(model, abort.signal);
  const gone = vi.fn();
  const late = vi.fn();
  host.on("change:_header", gone);
  host.off("change:_header", gone);
  host.on("change:_header", late);
  model.emit("change:_header");
  await vi.waitFor(() => expect(late).toHaveBeenCalledTimes(1));
  abort.abort();
  model.emit("change:_header");
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect([gone.mock.calls.length, late.mock.calls.length]).toEqual([0, 1]);
});

it("passes other events and questions on to the model", async () => {
  const model = await hostOf("header", "columns");
  const host = await unpackedHost(model, new AbortController().signal);
  const hear = vi.fn();
  host.on("msg:custom", hear);
  model.emit("msg:custom", 7);
  expect(hear).toHaveBeenCalledWith(7);
  host.off("msg:custom", hear);
  model.emit("msg:custom", 8);
  expect(hear).toHaveBeenCalledTimes(1);
});

it("has no data where that is damaged", async () => {
  const model = new FakeHost();
  model.traits.set("_header", "header").set("_data", new DataView(new ArrayBuffer(3)));
  const host = await unpackedHost(model, new AbortController().signal);
  expect((host.get("_data") as DataView).byteLength).toBe(0);
});
