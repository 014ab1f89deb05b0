/** The row of tabs with their counts. */

import { formatCount } from "../../base/format";
import type { ViewHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { focusable, isPlain } from "../common/focusable";

interface TabsProps {
  readonly report: ReportContext;
}

export function panelId(report: ReportContext): string {
  return `${report.id}-panel`;
}

export function tabId(report: ReportContext, view: string): string {
  // Names of views are free text, ids are not.
  return `${report.id}-tab-${view.replace(/\W/g, "_")}`;
}

export function Tabs({ report }: TabsProps) {
  const { views } = report.source.header;
  return (
    <div class="tp-tabs" role="tablist" aria-label="Views">
      {views.map((view) => (
        <Tab key={view.name} report={report} view={view} />
      ))}
    </div>
  );
}

function Tab({ report, view }: TabsProps & { readonly view: ViewHeader }) {
  const isActive = report.store.view.value === view.name;
  return (
    <button
      type="button"
      role="tab"
      class="tp-tab"
      id={tabId(report, view.name)}
      aria-selected={isActive}
      aria-controls={panelId(report)}
      tabIndex={isActive ? 0 : -1}
      data-tp-tab={view.name}
      onClick={() => show(report, view.name)}
      {...focusable((event) => moveTab(event, report))}
    >
      {view.title}
      {view.count !== null && <span class="tp-count">{formatCount(view.count)}</span>}
    </button>
  );
}

function show(report: ReportContext, view: string): void {
  report.store.view.value = view;
  report.store.hover.value = null;
}

const MOVES = new Map<string, (at: number, last: number) => number>([
  ["ArrowRight", (at, last) => (at === last ? 0 : at + 1)],
  ["ArrowLeft", (at, last) => (at === 0 ? last : at - 1)],
  ["Home", () => 0],
  ["End", (_at, last) => last],
]);

function moveTab(event: KeyboardEvent, report: ReportContext): void {
  const move = MOVES.get(event.key);
  if (move === undefined || !isPlain(event)) return;
  event.preventDefault();
  const { views } = report.source.header;
  const at = views.findIndex((view) => view.name === report.store.view.value);
  const next = move(at, views.length - 1);
  show(report, views[next]?.name ?? "");
  const list = (event.currentTarget as HTMLElement).parentElement;
  list?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
}
