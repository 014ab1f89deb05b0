/** A small made-up report: views that show something, and one each that is empty, to be pulled, and broken. */

import { mountReport } from "../src/views/shell/report";
import type { Problem, ReportHeader } from "../src/wire/header";
import type { Host, HostListener } from "../src/wire/host";
import { encodeFrame, packViews, type Values } from "./encode";
import { columnHeader, problemsHeader, seriesHeader, tableHeader, treeHeader } from "./headers";

export class FakeHost implements Host {
  readonly traits = new Map<string, unknown>();
  readonly sent: unknown[] = [];
  readonly listeners: { readonly event: string; readonly listener: HostListener }[] = [];
  send?: (content: unknown) => void = (content) => void this.sent.push(content);

  get(trait: string): unknown {
    return this.traits.get(trait);
  }

  on(event: string, listener: HostListener): void {
    this.listeners.push({ event, listener });
  }

  off(event: string, listener: HostListener): void {
    const at = this.listeners.findIndex(
      (each) => each.event === event && each.listener === listener,
    );
    if (at >= 0) this.listeners.splice(at, 1);
  }

  emit(event: string, ...values: readonly unknown[]): void {
    const heard = this.listeners.filter((each) => each.event === event);
    for (const { listener } of heard) listener(...values);
  }
}

export const HOSTILE = [
  "<img src=x onerror=alert(1)>",
  "__proto__",
  "</script>",
  "a\u202Eb",
] as const;

/** Six ops; the names of four are hostile. */
export const OPS: readonly (readonly [string, Values])[] = [
  ["name", ["aten::mm", "aten::add", ...HOSTILE]],
  ["phase", ["forward", "backward", "other", "other", "other", "other"]],
  ["calls", Int32Array.of(3, 10, 1, 1, 1, 1)],
  ["self_ns", Float64Array.of(20e6, 50e6, 4e6, 3e6, 2e6, 1e6)],
];

const OP_COLUMNS = [
  columnHeader("name", "code", { title: "Op" }),
  columnHeader("phase", "phase"),
  columnHeader("calls", "count", { title: "Calls" }),
  columnHeader("self_ns", "ns", { title: "Self CPU", has_bar: true, definition: "Own time." }),
];

/** all 100 -> aten::mm 60 -> aten::add 20; a second aten::add 40 beside aten::mm. */
const FLAME: readonly (readonly [string, Values])[] = [
  ["parent", Int32Array.of(-1, 0, 1, 0)],
  ["name", ["all", "aten::mm", "aten::add", "aten::add"]],
  ["kind", ["root", "op", "op", "op"]],
  ["phase", ["other", "forward", "forward", "backward"]],
  ["self_cpu", Float64Array.of(0, 40, 20, 40)],
  ["total_cpu", Float64Array.of(100, 60, 20, 40)],
];

const PROBLEMS: readonly Problem[] = [
  { severity: "data_loss", code: "b", message: HOSTILE[0], count: 7, fix: "Use --stack." },
  { severity: "info", code: "a", message: "Only a remark.", count: 1, fix: "" },
];

const VIEWS = [
  tableHeader("ops", { columns: OP_COLUMNS, sort_by: "self_ns", count: 6 }),
  treeHeader("flame", { weights: [{ name: "cpu", title: "CPU", unit: "ns", share: 1 }] }),
  problemsHeader("notes", { count: 2, problems: PROBLEMS }),
  seriesHeader("memory", { empty: "No memory was recorded. Add --memory." }),
  tableHeader("pulled", { offset: -1, columns: OP_COLUMNS }),
  treeHeader("broken"),
];

/** A host that holds the small report. */
export function hostOf(more: Partial<ReportHeader> = {}): FakeHost {
  const ops = encodeFrame(OPS);
  const packed = packViews(VIEWS, [ops, encodeFrame(FLAME), null, null, null, ops]);
  const header: ReportHeader = {
    version: 14,
    run_id: "run-1",
    parent: "",
    title: "In [4]",
    subtitle: "",
    code: "",
    machine: "",
    notice: "",
    verdict: {
      title: "Host-bound",
      text: [{ text: HOSTILE[0], style: "code" }],
      more: [],
      code: null,
      doubts: [],
      without_advice: "No advice.",
    },
    views: packed.views,
    missing: [],
    can_compare: false,
    can_choose_steps: false,
    can_try: false,
    step_ns: null,
    change_line: "",
    change: null,
    ranged: [],
    first: "",
    steps: 1,
    titles: [],
    generated: [],
    exports: [],
    ...more,
  };
  const host = new FakeHost();
  host.traits.set("_header", JSON.stringify(header));
  host.traits.set("_data", packed.data);
  return host;
}

export interface Mounted {
  readonly host: FakeHost;
  readonly element: HTMLElement;
  readonly root: HTMLElement;
  readonly unmount: () => void;
}

/** Shows a report on the page of the test. */
export function mount(host: FakeHost = hostOf()): Mounted {
  const element = document.createElement("div");
  document.body.append(element);
  const unmount = mountReport(host, element);
  const root = element.querySelector<HTMLElement>(".tp-report");
  if (root === null) throw new Error("the report has no root");
  return { host, element, root, unmount };
}

/** Lets signals, effects and microtasks run. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setTimeout(resolve, 0));
  await new Promise((resolve) => requestAnimationFrame(resolve));
  await new Promise((resolve) => setTimeout(resolve, 0));
}

export function find<T extends HTMLElement = HTMLElement>(within: Element, selector: string): T {
  const found = within.querySelector<T>(selector);
  if (found === null) throw new Error(`nothing matches ${selector}`);
  return found;
}

export async function openTab(root: Element, view: string): Promise<void> {
  find(root, `[data-tp-tab="${view}"]`).click();
  await settle();
}

export function press(target: Element, key: string): KeyboardEvent {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  target.dispatchEvent(event);
  return event;
}
