import { afterEach, expect, it } from "vitest";
import { encodeFrame, packViews } from "../../../test/encode";
import { goldenHost } from "../../../test/golden";
import { columnHeader, tableHeader } from "../../../test/headers";
import { find, HOSTILE, hostOf, type Mounted, mount, settle } from "../../../test/report";

let mounted: Mounted | null = null;

afterEach(() => {
  mounted?.unmount();
  document.body.replaceChildren();
});

const button = () =>
  [...document.body.querySelectorAll<HTMLButtonElement>(".tp-links button")].find(
    ({ textContent }) => textContent === "If 2× faster",
  );

async function choose(row: number): Promise<void> {
  find(document.body, `[data-tp-row="${row}"]`).click();
  await settle();
}

async function asked(row: number): Promise<Readonly<Record<string, unknown>>> {
  mounted = mount(hostOf());
  await settle();
  await choose(row);
  button()?.click();
  await settle();
  return mounted.host.sent.at(-1) as Readonly<Record<string, unknown>>;
}

it("asks what a step would take if the selection were twice as fast, and says the answer in its place", async () => {
  const question = await asked(0);
  const name = find(document.body, '.tp-rows [aria-selected="true"] .tp-name').textContent;
  expect(question).toMatchObject({ kind: "what_if", name });
  const text = `2× faster: 222 ms → 187 ms per step ${HOSTILE[0]}`;
  mounted?.host.emit("msg:custom", { kind: "what_if", id: question.id, text }, []);
  await settle();
  expect(find(document.body, ".tp-links [role=status]").textContent).toBe(text);
  expect(button()).toBeUndefined();
});

it("asks about a line of the source by its file and number", async () => {
  const columns = [
    columnHeader("line", "count"),
    columnHeader("source", "code", { is_verbatim: true }),
    columnHeader("cpu_ns", "ns"),
  ];
  const lines = encodeFrame([
    ["file", ["In [4]", ""]],
    ["line", Float64Array.of(3, Number.NaN)],
    ["source", ["    out = net(x)", "outside of these lines"]],
    ["cpu_ns", Float64Array.of(16e6, 8e6)],
  ]);
  const packed = packViews([tableHeader("source", { columns })], [lines]);
  const host = hostOf({ views: packed.views });
  host.traits.set("_data", packed.data);
  mounted = mount(host);
  await settle();
  await settle();
  await choose(1);
  expect(button()).toBeUndefined();
  await choose(0);
  button()?.click();
  await settle();
  expect(mounted.host.sent.at(-1)).toMatchObject({ kind: "what_if", name: "In [4]:3" });
});

it("asks about a module by its whole path, and about nothing where a row is none", async () => {
  const columns = [columnHeader("path", "code"), columnHeader("cpu_ns", "ns")];
  const modules = encodeFrame([
    ["path", ["conv", "outside of modules"]],
    ["full_path", ["stem.conv", ""]],
    ["cpu_ns", Float64Array.of(16e6, 8e6)],
  ]);
  const packed = packViews([tableHeader("modules", { columns })], [modules]);
  const host = hostOf({ views: packed.views });
  host.traits.set("_data", packed.data);
  mounted = mount(host);
  await settle();
  await settle();
  await choose(0);
  button()?.click();
  await settle();
  expect(mounted.host.sent.at(-1)).toMatchObject({ kind: "what_if", name: "stem.conv" });
  await choose(1);
  expect(button()).toBeUndefined();
});

it("asks about the range that is chosen", async () => {
  mounted = mount(goldenHost());
  await settle();
  await settle();
  find(document.body, '.tp-step[data-tp-step="3"] button').click();
  await settle();
  const ask = [...document.body.querySelectorAll<HTMLButtonElement>(".tp-range-bar button")].find(
    ({ textContent }) => textContent === "If 2× faster",
  );
  ask?.click();
  await settle();
  const asked = mounted.host.sent.at(-1) as Readonly<Record<string, number>>;
  expect(asked).toMatchObject({ kind: "what_if" });
  expect((asked.end_ns ?? 0) - (asked.start_ns ?? 0)).toBe(120_000);
});

it("says why there is no answer, and asks again for another selection", async () => {
  const question = await asked(0);
  mounted?.host.emit("msg:custom", { kind: "error", id: question.id, message: "No." }, []);
  await settle();
  expect(find(document.body, ".tp-links [role=status]").textContent).toBe("No.");
  await choose(1);
  expect(button()).toBeDefined();
});
