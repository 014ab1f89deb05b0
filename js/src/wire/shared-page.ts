/**
 * The page that all reports of a kernel share. Its module and its style sheet are in a model of their own, packed, so
 * that a saved notebook holds them once.
 */

import { type Host, listenToHost } from "./host";
import { unpacked } from "./unpack";

/** What a widget's model also has in a notebook: the models around it, by their ids. */
export interface LinkedHost extends Host {
  readonly widget_manager?: { get_model(id: string): Promise<Pick<Host, "get">> };
}

export interface SharedPage {
  /** Shows the report of a model in an element; the returned function removes it. */
  render(props: { readonly model: Host; readonly el: HTMLElement }): Promise<() => void>;
  /** Gives the page or the shadow tree of an element the style sheet, once. */
  dress(element: HTMLElement): void;
}

interface Packed {
  readonly module: BlobPart;
  readonly style: BlobPart;
}

const REFERENCE = "IPY_MODEL_";
const PAGES = Symbol.for("torchprof-magic.pages");
const MODEL_WAIT_MS = 5_000;
const KERNEL_WAIT_MS = 30_000;
const QUESTION = "front_end";

/** Returns the page of a report, which is loaded once for all reports that were made by the same version. */
export function sharedPageOf(host: LinkedHost): Promise<SharedPage> {
  const pages = loadedPages();
  const digest = String(host.get("_digest"));
  const known = pages.get(digest);
  if (known !== undefined) return known;
  const loaded = load(host, digest);
  pages.set(digest, loaded);
  loaded.catch(() => pages.delete(digest));
  return loaded;
}

/** The pages of this window: each model has its own copy of this module, but they have one symbol. */
function loadedPages(): Map<string, Promise<SharedPage>> {
  const known: unknown = Reflect.get(globalThis, PAGES);
  if (known instanceof Map) return known;
  const pages = new Map<string, Promise<SharedPage>>();
  Reflect.set(globalThis, PAGES, pages);
  return pages;
}

async function load(host: LinkedHost, digest: string): Promise<SharedPage> {
  const packed = await packedOf(host);
  const [module, css] = await Promise.all([textOf(packed.module), textOf(packed.style)]);
  const url = URL.createObjectURL(new Blob([module], { type: "text/javascript" }));
  try {
    const { default: page } = await import(/* @vite-ignore */ url);
    return { render: page.render, dress: (element) => addStyle(element, css, digest) };
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Reads the shared model, or asks the kernel where the front end does not know it. */
async function packedOf(host: LinkedHost): Promise<Packed> {
  const id = String(host.get("_front_end")).replace(REFERENCE, "");
  const found = host.widget_manager?.get_model(id);
  if (found !== undefined) {
    const model = await within(found, MODEL_WAIT_MS).catch(() => null);
    const module = model?.get("_module");
    const style = model?.get("_style");
    if (isBytes(module) && isBytes(style)) return { module, style };
  }
  return await within(asked(host), KERNEL_WAIT_MS);
}

function asked(host: LinkedHost): Promise<Packed> {
  return new Promise((resolve, reject) => {
    if (host.send === undefined) {
      reject(new Error("it is not in this notebook"));
      return;
    }
    const abort = new AbortController();
    const hear = (content: unknown, buffers: unknown) => {
      if ((content as { id?: unknown } | null)?.id !== QUESTION) return;
      abort.abort();
      const [module, style] = Array.isArray(buffers) ? buffers : [];
      if (isBytes(module) && isBytes(style)) resolve({ module, style });
      else reject(new Error("the kernel has no page"));
    };
    listenToHost(host, "msg:custom", hear, abort.signal);
    host.send({ kind: QUESTION, id: QUESTION });
  });
}

function isBytes(value: unknown): value is DataView<ArrayBuffer> | ArrayBuffer {
  return value instanceof DataView || value instanceof ArrayBuffer;
}

async function textOf(packed: BlobPart): Promise<string> {
  return await (await unpacked(packed)).text();
}

function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no answer")), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function addStyle(element: HTMLElement, css: string, digest: string): void {
  const root = element.getRootNode();
  const place = root instanceof ShadowRoot ? root : element.ownerDocument.head;
  const all = place.querySelectorAll<HTMLElement>("style[data-tp-page]");
  if (Array.from(all).some((style) => style.dataset.tpPage === digest)) return;
  const style = element.ownerDocument.createElement("style");
  style.dataset.tpPage = digest;
  style.textContent = css;
  place.append(style);
}
