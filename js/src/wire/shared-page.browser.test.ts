import { afterEach, expect, it, vi } from "vitest";
import type { HostListener } from "./host";
import { type LinkedHost, sharedPageOf } from "./shared-page";

const MODULE = `
globalThis.loads = (globalThis.loads ?? 0) + 1;
export default { render: async ({ el }) => { el.textContent = "shown"; return () => el.replaceChildren(); } };
`;
const STYLE = ".tp-dressed { color: rgb(1, 2, 3); }";

async function packed(text: string): Promise<DataView<ArrayBuffer>> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new DataView(await new Response(stream).arrayBuffer());
}

let versions = 0;

/** The model of a report whose front end is in a model that the manager has, if there is one. */
function hostOf(models?: Record<string, Record<string, unknown>>, digest?: string) {
  versions += 1;
  const traits: Record<string, unknown> = {
    _digest: digest ?? `version ${versions}`,
    _front_end: "IPY_MODEL_shared",
  };
  const listeners: HostListener[] = [];
  const asked: unknown[] = [];
  const host: LinkedHost = {
    get: (trait) => traits[trait],
    on: (_event, listener) => listeners.push(listener),
    off: (_event, listener) => listeners.splice(listeners.indexOf(listener), 1),
    send: (content) => asked.push(content),
    ...(models && {
      widget_manager: {
        get_model: async (id: string) => {
          const model = models[id];
          if (model === undefined) throw new Error("no such model");
          return { get: (trait: string) => model[trait] };
        },
      },
    }),
  };
  const say = (...values: unknown[]) => {
    for (const one of [...listeners]) one(...values);
  };
  return { host, asked, say };
}

async function sharedModel() {
  return { shared: { _module: await packed(MODULE), _style: await packed(STYLE) } };
}

function place(): HTMLElement {
  const element = document.createElement("div");
  document.body.append(element);
  return element;
}

afterEach(() => {
  document.body.replaceChildren();
  Reflect.set(globalThis, "loads", 0);
});

it("loads the page of a version once, however many reports show it", async () => {
  const models = await sharedModel();
  const [first, second] = await Promise.all([
    sharedPageOf(hostOf(models, "same").host),
    sharedPageOf(hostOf(models, "same").host),
  ]);
  expect(second).toBe(first);
  expect(Reflect.get(globalThis, "loads")).toBe(1);
  const el = place();
  const remove = await first.render({ model: hostOf(models).host, el });
  expect(el.textContent).toBe("shown");
  remove();
  expect(el.textContent).toBe("");
});

it("asks the kernel for the page where the front end does not know the model", async () => {
  const { host, asked, say } = hostOf({});
  const page = sharedPageOf(host);
  await vi.waitFor(() => expect(asked).toEqual([{ kind: "front_end", id: "front_end" }]));
  say({ kind: "chunk", id: 7 }, [await packed("of another question")]);
  say({ kind: "front_end", id: "front_end" }, [await packed(MODULE), await packed(STYLE)]);
  const el = place();
  await (await page).render({ model: host, el });
  expect(el.textContent).toBe("shown");
});

it("fails where neither a model nor a kernel has the page, and tries again for the next report", async () => {
  const { send: _, ...deaf } = hostOf({}, "missing").host;
  await expect(sharedPageOf(deaf)).rejects.toThrow("not in this notebook");
  const models = await sharedModel();
  await expect(sharedPageOf(hostOf(models, "missing").host)).resolves.toBeDefined();
});

it("dresses a page and a shadow tree once each", async () => {
  const page = await sharedPageOf(hostOf(await sharedModel()).host);
  const inPage = place();
  const inShadow = document.createElement("div");
  place().attachShadow({ mode: "open" }).append(inShadow);
  for (const el of [inPage, inShadow]) {
    el.className = "tp-dressed";
    page.dress(el);
    page.dress(el);
    expect(getComputedStyle(el).color).toBe("rgb(1, 2, 3)");
  }
  const style = document.head.querySelectorAll("style[data-tp-page]");
  expect(Array.from(style).filter(({ textContent }) => textContent === STYLE)).toHaveLength(1);
  expect((inShadow.getRootNode() as ShadowRoot).querySelectorAll("style")).toHaveLength(1);
});
