/** The row of tabs with their counts; those that do not fit are in a menu. */

import { formatCount } from "../../base/format";
import { showView } from "../../state/store";
import type { ViewHeader } from "../../wire/header";
import { Button } from "../common/button";
import { type ReportContext, tabsOf } from "../common/context";
import { isPlain } from "../common/focusable";
import { Menu, MenuItem } from "../common/menu";
import { useWidth } from "../common/use-width";

interface TabsProps {
  readonly report: ReportContext;
}

const NARROW_PX = 560;
const CHAR_PX = 7.6;
const COUNT_CHAR_PX = 6.5;
const TAB_PAD_PX = 22;
const MENU_PX = 130;

export function panelId(report: ReportContext): string {
  return `${report.id}-panel`;
}

export function tabId(report: ReportContext, view: string): string {
  // Names of views are free text, ids are not.
  return `${report.id}-tab-${view.replace(/\W/g, "_")}`;
}

export function Tabs({ report }: TabsProps) {
  const { ref, width } = useWidth<HTMLDivElement>();
  const tabs = tabsOf(report);
  const chosen = report.store.view.value;
  const shown = fittingTabs(tabs, chosen, width);
  const hidden = tabs.filter((tab) => !shown.includes(tab));
  return (
    <div class="tp-tabs" ref={ref}>
      <div class="tp-tab-list" role="tablist" aria-label="Views">
        {shown.map((view) => (
          <Tab key={view.name} report={report} view={view} shown={shown} />
        ))}
      </div>
      {hidden.length > 0 && (
        <Menu label="More">
          {(close) =>
            hidden.map((view) => (
              <MenuItem
                key={view.name}
                title={view.title}
                tab={view.name}
                aside={`${tabs.indexOf(view) + 1}`}
                onChoose={() => {
                  close();
                  showView(report.store, view.name);
                }}
              />
            ))
          }
        </Menu>
      )}
      <Missing report={report} />
    </div>
  );
}

/** What was not recorded, with the flag that brings it. */
function Missing({ report }: TabsProps) {
  const { missing } = report.source.header;
  if (missing.length === 0) return null;
  return (
    <Menu label="Not recorded" class="tp-missing">
      {() => (
        <>
          <li class="tp-menu-title">Not in this run</li>
          {missing.map(({ title, flag }) => (
            <li key={title} class="tp-menu-row">
              <span>{title}</span>
              <code>{flag}</code>
            </li>
          ))}
        </>
      )}
    </Menu>
  );
}

/** The tabs for which there is room, from the left; the chosen one always. */
function fittingTabs(
  tabs: readonly ViewHeader[],
  chosen: string,
  widthPx: number,
): readonly ViewHeader[] {
  if (widthPx < NARROW_PX) return tabs.filter(({ name }) => name === chosen);
  const widthOf = ({ title, count }: ViewHeader) =>
    title.length * CHAR_PX +
    TAB_PAD_PX +
    (count === null ? 0 : formatCount(count).length * COUNT_CHAR_PX + 6);
  const whole = tabs.reduce((sum, tab) => sum + widthOf(tab), 0);
  const room = widthPx - MENU_PX;
  if (whole <= room) return tabs;
  let left =
    room -
    70 -
    widthOf(
      tabs.find(({ name }) => name === chosen) ??
        ({ ...tabs[0], title: "", count: null } as ViewHeader),
    );
  return tabs.filter((tab) => {
    if (tab.name === chosen) return true;
    left -= widthOf(tab);
    return left >= 0;
  });
}

interface TabProps extends TabsProps {
  readonly view: ViewHeader;
  readonly shown: readonly ViewHeader[];
}

function Tab({ report, view, shown }: TabProps) {
  const isActive = report.store.view.value === view.name;
  return (
    <Button
      role="tab"
      class="tp-tab"
      id={tabId(report, view.name)}
      aria-selected={isActive}
      aria-controls={panelId(report)}
      tabIndex={isActive ? 0 : -1}
      data-tp-tab={view.name}
      onClick={() => showView(report.store, view.name)}
      onKey={(event) => moveTab(event, report, shown)}
    >
      <span class="tp-tab-title" data-tp-title={view.title}>
        {view.title}
      </span>
      {view.count !== null && <span class="tp-count">{formatCount(view.count)}</span>}
    </Button>
  );
}

const MOVES = new Map<string, (at: number, last: number) => number>([
  ["ArrowRight", (at, last) => (at === last ? 0 : at + 1)],
  ["ArrowLeft", (at, last) => (at === 0 ? last : at - 1)],
  ["Home", () => 0],
  ["End", (_at, last) => last],
]);

function moveTab(event: KeyboardEvent, report: ReportContext, shown: readonly ViewHeader[]): void {
  const move = MOVES.get(event.key);
  if (move === undefined || !isPlain(event)) return;
  event.preventDefault();
  const at = shown.findIndex((view) => view.name === report.store.view.value);
  const next = move(at, shown.length - 1);
  showView(report.store, shown[next]?.name ?? "");
  const list = (event.currentTarget as HTMLElement).parentElement;
  list?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
}
