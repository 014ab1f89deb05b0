/** Mounts a report into an element of the page, and unmounts it. */

import { signal } from "@preact/signals";
import { render } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { openReport, type ReportSource } from "../../state/python-sync";
import { sharedOf } from "../../state/shared";
import { createStore, type Store, type TableState } from "../../state/store";
import { connectionOf } from "../../wire/connection";
import type { TableHeader } from "../../wire/header";
import { type Host, isSaved, listenToHost } from "../../wire/host";
import { type ReportContext, shownView } from "../common/context";
import { Sentence } from "../common/parts";
import { targetsOf } from "../common/targets";
import { watchLook } from "../common/theme-watch";
import { Notice } from "../verdict/verdict";
import { VerdictLine } from "../verdict/verdict-line";
import { Footer } from "./footer";
import { Header } from "./header";
import { followMaximized, keepHeight } from "./height";
import { Help } from "./help";
import { keepFocus } from "./keep-focus";
import { listenToKeys } from "./keys";
import { Panel } from "./panel";
import { PrintedOverview } from "./printed-overview";
import { RangeBar } from "./range-bar";
import { ResizeHandle } from "./resize-handle";
import { hideStatic } from "./static-fallback";
import { Tabs } from "./tabs";

// Numbers the reports of a page to keep ids unique.
let reports = 0;

/** Shows the report of `host` in `element`; the returned function removes it. */
export function mountReport(host: Host, element: HTMLElement): () => void {
  const abort = new AbortController();
  const root = document.createElement("div");
  root.className = "tp-report";
  root.tabIndex = -1;
  root.dataset.lmSuppressShortcuts = "true";
  element.append(root);
  if (isSaved(host)) root.dataset.tpStandalone = "true";
  else keepHeight(root, abort.signal);
  reports += 1;
  const shown = new ShownReport(host, root, `tp-${reports}`, abort.signal);
  listenToKeys(root, () => shown.report, abort.signal, { isAlone: isSaved(host) });
  keepFocus(root, abort.signal);
  shown.show();
  for (const trait of ["change:_header", "change:_data"]) {
    listenToHost(host, trait, () => shown.showSoon(), abort.signal);
  }
  listenToHost(host, "change:_progress", () => shown.follow(), abort.signal);
  return () => {
    // Unmounts first: views still use what `abort` ends.
    render(null, root);
    abort.abort();
    root.remove();
  };
}

/** One report in its root, replaced when Python sends another. */
class ShownReport {
  readonly #host: Host;
  readonly #root: HTMLElement;
  readonly #prefix: string;
  readonly #abort: AbortSignal;
  #current = new AbortController();
  #isDue = false;
  #store: Store | null = null;
  #report: ReportContext | null = null;
  #change = "";
  readonly #progress = signal("");

  constructor(host: Host, root: HTMLElement, prefix: string, abort: AbortSignal) {
    this.#host = host;
    this.#root = root;
    this.#prefix = prefix;
    this.#abort = abort;
    abort.addEventListener("abort", () => this.#current.abort());
    this.follow();
  }

  /** Says what the kernel says is still to come. */
  follow(): void {
    this.#progress.value = String(this.#host.get("_progress") ?? "");
  }

  get report(): ReportContext | null {
    return this.#report;
  }

  /** Header and data change one after the other, so they are read after both events. */
  showSoon(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => {
      this.#isDue = false;
      if (!this.#abort.aborted) this.show();
    });
  }

  show(): void {
    const before = this.#current;
    const scrolled = scrolledIn(this.#root);
    this.#current = new AbortController();
    const { signal } = this.#current;
    const look = watchLook(this.#root, signal);
    const source = openReport(this.#host, connectionOf(this.#host, this.#root), signal);
    // More of a recording that goes on: selection and range are taken before the page before lets go of them.
    const isMore = this.#host.get("_is_more") === true;
    if (!isMore) before.abort();
    const shared = source.ok ? sharedOf(source.value.header.run_id, signal) : null;
    before.abort();
    const page = this.#root.getRootNode() as Document | ShadowRoot;
    const hadFocus = this.#root.contains(page.activeElement);
    render(null, this.#root);
    if (!source.ok || shared === null) {
      render(
        <div class="tp-frame">
          <Sentence>{source.ok ? "" : source.message}</Sentence>
        </div>,
        this.#root,
      );
      return;
    }
    const { run_id: runId } = source.value.header;
    this.#root.dataset.tpRun = runId;
    hideStatic(this.#root, runId, signal);
    const store = createStore(this.#firstView(source.value), shared, signal);
    const titles = new Map(source.value.header.titles);
    const report: ReportContext = {
      id: this.#prefix,
      source: source.value,
      store,
      look,
      progress: this.#progress,
      canMaximize: !isSaved(this.#host),
      titleOf: (name) => titles.get(name) ?? name,
      targets: (name) => targetsOf(source.value, store, name),
    };
    if (hadFocus) this.#root.focus({ preventScroll: true });
    followMaximized(this.#root, store, signal);
    const isSame = this.#store !== null && this.#report?.source.header.run_id === runId;
    if (this.#store !== null && isSame) {
      keepGroupings(source.value, this.#store, store);
      if (isMore) keepState(source.value, this.#store, store);
    }
    this.#report = report;
    this.#store = report.store;
    this.#change = changeOf(source.value);
    render(<Shell report={report} root={this.#root} />, this.#root);
    if (isSame) scrollBack(this.#root, scrolled);
  }

  /** A new report opens at the tab that was open before, and a new comparison at its own. */
  #firstView(source: ReportSource): string {
    const tabs = source.header.views.filter(
      ({ place, empty }) => place === "tab" && empty === null,
    );
    const { first } = source.header;
    const isNews = first !== "" && changeOf(source) !== this.#change;
    const wanted = isNews ? first : (this.#store?.view.peek() ?? first);
    const open = tabs.find((view) => view.name === wanted);
    return (open ?? tabs[0] ?? source.header.views[0])?.name ?? "";
  }
}

/** What a report says of the change from another run, to tell a new comparison from the same. */
function changeOf({ header }: ReportSource): string {
  return header.change === null ? "" : JSON.stringify(header.change);
}

/** Another page of the same run shows its tabs as they were grouped before. */
function keepGroupings(source: ReportSource, before: Store, after: Store): void {
  for (const view of source.header.views) {
    after.grouping(view).value = before.grouping(view).peek();
  }
}

/** More of the same recording is shown as what there was of it before. */
function keepState(source: ReportSource, before: Store, after: Store): void {
  for (const signal of ["isPerStep", "isAboutOpen", "isMaximized", "isHelpOpen"] as const) {
    after[signal].value = before[signal].peek();
  }
  for (const view of source.header.views) {
    after.search(view).value = before.search(view).peek();
    after.choice(view).value = before.choice(view).peek();
    if (view.shape === "table") keepTable(view, before.table(view), after.table(view));
    if (view.shape === "slices") {
      after.timeline(view).window.value = before.timeline(view).window.peek();
    }
  }
}

function keepTable(view: TableHeader, before: TableState, after: TableState): void {
  const sorting = before.sorting.peek();
  const isThere = sorting.every(({ id }) => view.columns.some(({ name }) => name === id));
  if (isThere) after.sorting.value = sorting;
  after.scrollTop.value = before.scrollTop.peek();
  after.chosen.value = before.chosen.peek();
  after.widths.value = before.widths.peek();
  after.pins.value = before.pins.peek();
}

/** The elements that are scrolled, by their class. */
function scrolledIn(root: Element): ReadonlyMap<string, number> {
  const scrolled = [...root.querySelectorAll("*")].filter(({ scrollTop }) => scrollTop > 0);
  return new Map(scrolled.map((element) => [element.className, element.scrollTop]));
}

function scrollBack(root: Element, scrolled: ReadonlyMap<string, number>): void {
  for (const element of scrolled.size === 0 ? [] : root.querySelectorAll("*")) {
    const top = scrolled.get(element.className);
    if (top !== undefined) element.scrollTop = top;
  }
}

interface ShellProps {
  readonly report: ReportContext;
  readonly root: HTMLElement;
}

function Shell({ report, root }: ShellProps) {
  const { isPrinted } = report.look.value;
  const view = report.store.view.value;
  const shown = shownView(report);
  // The overview and a comparison have words of their own.
  const hasOwnWords = shown?.shape === "facts" || shown?.tab === "compare";
  useLayoutEffect(() => {
    root.dataset.tpView = view;
    root.dataset.tpReady = "true";
  }, [view]);
  return (
    <div class="tp-frame">
      <Header report={report} />
      <Notice report={report} />
      {!hasOwnWords &&
        (isPrinted ? <PrintedOverview report={report} /> : <VerdictLine report={report} />)}
      {!isPrinted && <Tabs report={report} />}
      <RangeBar report={report} />
      <Panel report={report} />
      {!isPrinted && <Footer report={report} />}
      {!isPrinted && <Help report={report} />}
      {!isPrinted && report.canMaximize && <ResizeHandle root={root} />}
    </div>
  );
}
