/** The footer: the keys of the view, and the full text of the item under the pointer or selected. */

import type { FooterItem } from "../../state/store";
import { revealIn } from "../../state/store";
import type { Shape, ViewHeader } from "../../wire/header";
import { firstTree, type ReportContext, shownView } from "../common/context";
import { findName, nameColumn } from "../common/describe";
import { focusable } from "../common/focusable";
import { PhaseDot } from "../common/parts";

type Hint = readonly [keys: readonly string[], what: string];

const HINTS: Readonly<Record<Shape, readonly Hint[]>> = {
  table: [
    [["/"], "filter"],
    [["↑", "↓"], "move"],
    [["Enter"], "find in flame"],
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
    [["drag"], "zoom in"],
    [["double click"], "reset zoom"],
  ],
  // These views have no keys.
  facts: [],
  problems: [],
};

export function Footer({ report }: { readonly report: ReportContext }) {
  return (
    <footer class="tp-footer">
      <Hints report={report} />
      <Detail report={report} />
    </footer>
  );
}

function Hints({ report }: { readonly report: ReportContext }) {
  const view = shownView(report);
  const hints = view === undefined || view.empty !== null ? [] : hintsOf(view);
  return (
    <div class="tp-hints" aria-hidden="true">
      {hints.map(([keys, what]) => (
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

/** A table without names has no filter and no links to other views. */
function hintsOf(view: ViewHeader): readonly Hint[] {
  const hints = HINTS[view.shape];
  const isNameless = view.shape === "table" && nameColumn(view) === undefined;
  return isNameless ? hints.filter(([, what]) => what === "move") : hints;
}

function Detail({ report }: { readonly report: ReportContext }) {
  const hovered = report.store.hover.value;
  const selection = report.store.selection.value;
  const found = selection === null ? null : findName(report, selection.name);
  const item = hovered ?? found?.item ?? plainItem(selection?.name);
  return (
    <div class="tp-detail">
      {item !== null && <Item report={report} item={item} />}
      {selection !== null && <Links report={report} name={selection.name} table={found?.view} />}
    </div>
  );
}

function plainItem(name: string | undefined): FooterItem | null {
  return name === undefined ? null : { name, isCode: true, phase: "", facts: [] };
}

function Item({ report, item }: { readonly report: ReportContext; readonly item: FooterItem }) {
  const facts = item.facts.join(" · ");
  return (
    <span class="tp-item" title={`${item.name}${facts === "" ? "" : ` · ${facts}`}`}>
      <PhaseDot report={report} phase={item.phase} />
      <span class={item.isCode ? "tp-item-name tp-code" : "tp-item-name"}>
        <bdi>{item.name}</bdi>
      </span>
      <span class="tp-item-facts">{facts}</span>
    </span>
  );
}

interface LinksProps {
  readonly report: ReportContext;
  readonly name: string;
  readonly table: ViewHeader | undefined;
}

/** Links from the selection to other views that show it. */
function Links({ report, name, table }: LinksProps) {
  const shown = shownView(report);
  const tree = firstTree(report);
  const canFind = tree !== undefined && shown?.shape !== "tree";
  const canTabulate = table !== undefined && shown?.name !== table.name && shown?.shape === "tree";
  const button = (text: string, view: ViewHeader) => (
    <button
      type="button"
      class="tp-button"
      onClick={() => revealIn(report.store, view.name, name)}
      {...focusable()}
    >
      {text}
    </button>
  );
  return (
    <span class="tp-links">
      {canFind && button("Find in flame graph", tree)}
      {canTabulate && button("Show in table", table)}
    </span>
  );
}
