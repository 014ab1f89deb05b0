/** The footer: the keys of the view, and the full text of the item under the pointer or selected. */

import { phaseTitle } from "../../base/palette";
import type { FooterItem } from "../../state/store";
import type { Shape, ViewHeader } from "../../wire/header";
import { Button } from "../common/button";
import { type ReportContext, shownView, tabsOf } from "../common/context";
import { findName, nameColumn } from "../common/describe";
import { PhaseDot } from "../common/parts";
import { WhatIf } from "./what-if";

export type Hint = readonly [keys: readonly string[], what: string];

const HINTS: Readonly<Record<Shape, readonly Hint[]>> = {
  table: [
    [["/"], "filter"],
    [["↑", "↓"], "row"],
    [["F"], "flame"],
  ],
  tree: [
    [["/"], "search"],
    [["W", "S"], "zoom"],
    [["A", "D"], "pan"],
    [["Esc"], "back"],
  ],
  slices: [
    [["W", "S"], "zoom"],
    [["A", "D"], "pan"],
    [["drag"], "range"],
    [["Esc"], "back"],
  ],
  series: [
    [["drag"], "range"],
    [["Esc"], "back"],
  ],
  facts: [],
  problems: [],
  waiting: [],
};

const RANK_HINTS: readonly Hint[] = [
  [["↑", "↓"], "rank"],
  [["Enter"], "its report"],
];

const SWAP: Hint = [["X"], "swap runs"];

export function Footer({ report }: { readonly report: ReportContext }) {
  return (
    <footer class="tp-footer">
      <Hints report={report} />
      <Detail report={report} />
      <KeysButton report={report} />
    </footer>
  );
}

/** Opens the list of all keys, for those who do not know its key. */
function KeysButton({ report }: { readonly report: ReportContext }) {
  const { isHelpOpen } = report.store;
  return (
    <Button
      class="tp-button tp-keys"
      aria-label="All keys"
      title="All keys (?)"
      aria-expanded={isHelpOpen.value}
      onClick={() => {
        isHelpOpen.value = !isHelpOpen.value;
      }}
    >
      ?
    </Button>
  );
}

function Hints({ report }: { readonly report: ReportContext }) {
  const view = shownView(report);
  const hints =
    view === undefined || view.empty !== null
      ? []
      : view.shape === "facts"
        ? viewKeys(report)
        : hintsOf(view);
  const swap = view?.tab === "compare" && report.source.canCompare ? [SWAP] : [];
  return (
    <div class="tp-hints" aria-hidden="true">
      {[...swap, ...hints].map(([keys, what]) => (
        <span key={what} class="tp-hint">
          {keys.map((key) => (
            <kbd key={key}>{key}</kbd>
          ))}
          {what}
        </span>
      ))}
    </div>
  );
}

/** "1 … 6" for six views. */
export function viewKeys(report: ReportContext): readonly Hint[] {
  const count = Math.min(tabsOf(report).length, 9);
  if (count < 2) return [];
  return [[count === 2 ? ["1", "2"] : ["1", "…", `${count}`], "views"]];
}

/** A table without names has no filter and no links to other views. */
function hintsOf(view: ViewHeader): readonly Hint[] {
  const hints = HINTS[view.shape];
  if (view.shape === "table" && view.ranks !== null) return RANK_HINTS;
  const isNameless = view.shape === "table" && nameColumn(view) === undefined;
  return isNameless ? hints.filter(([, what]) => what === "row") : hints;
}

function Detail({ report }: { readonly report: ReportContext }) {
  const { hover, selection, note } = report.store;
  const chosen = selection.value;
  const found = chosen === null ? null : findName(report, chosen.name);
  const item = hover.value ?? note.value ?? found?.item ?? plainItem(chosen?.name);
  return (
    <div class="tp-detail">
      {item !== null && <Item report={report} item={item} />}
      {chosen !== null && <Links report={report} name={chosen.name} />}
    </div>
  );
}

function plainItem(name: string | undefined): FooterItem | null {
  return name === undefined ? null : { name, isCode: true, phase: "", facts: [] };
}

function Item({ report, item }: { readonly report: ReportContext; readonly item: FooterItem }) {
  // In words too: a dot says nothing to those who see its hue as another.
  const phase = item.phase === "" ? [] : [phaseTitle(item.phase)];
  const facts = [...phase, ...item.facts].join(" · ");
  return (
    <span class="tp-item" title={`${item.name}${facts === "" ? "" : ` · ${facts}`}`}>
      <PhaseDot report={report} phase={item.phase} />
      <span class={item.isCode ? "tp-item-name tp-code" : "tp-item-name"}>
        <bdi>{report.titleOf(item.name)}</bdi>
      </span>
      {facts !== "" && <span class="tp-item-facts">{facts}</span>}
    </span>
  );
}

interface LinksProps {
  readonly report: ReportContext;
  readonly name: string;
}

const MOST_LINKS = 4;

/** Links from the selection to the other views that show it. */
function Links({ report, name }: LinksProps) {
  const shown = shownView(report);
  const targets = report.targets(name).filter(({ view }) => view.name !== shown?.name);
  return (
    <span class="tp-links">
      <WhatIf key={name} report={report} name={name} />
      {targets.slice(0, MOST_LINKS).map((target) => (
        <Button
          key={target.view.name}
          class="tp-button"
          data-tp-target={target.view.name}
          title={`Show in ${target.title}`}
          onClick={target.open}
        >
          {target.title}
        </Button>
      ))}
    </span>
  );
}
