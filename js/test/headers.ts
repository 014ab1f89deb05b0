/** Headers of views with everything but what a test is about left empty. */

import type {
  Card,
  ColumnHeader,
  FactsHeader,
  ProblemsHeader,
  SeriesHeader,
  TableHeader,
  TreeHeader,
} from "../src/wire/header";

function tab(name: string) {
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  return { name, title, count: null, empty: null, place: "tab" as const, tab: name, group: "" };
}

function framed(name: string) {
  return { ...tab(name), offset: 0, length: 0 };
}

/** A card of advice that a page can place at line 3. */
export function adviceCard(more: Partial<Card> = {}): Card {
  return {
    rule: "r",
    title: "Do less",
    fix: "`x=1`",
    place: "line 3",
    evidence: "It takes 2 ms.",
    saving_ns: 2e6,
    saving_bytes: null,
    certainty: "measured",
    level: 3,
    at: " in",
    per: "",
    can_try: false,
    view: "source",
    spot: "",
    changes: [],
    is_whole: false,
    ...more,
  };
}

export function columnHeader(
  name: string,
  unit: ColumnHeader["unit"],
  more: Partial<ColumnHeader> = {},
): ColumnHeader {
  return {
    name,
    title: name,
    unit,
    definition: "",
    is_minor: false,
    has_bar: false,
    is_verbatim: false,
    is_sum: false,
    share: 1,
    is_change: false,
    parts: [],
    ...more,
  };
}

export function tableHeader(name: string, more: Partial<TableHeader> = {}): TableHeader {
  return {
    ...framed(name),
    shape: "table",
    columns: [],
    sort_by: null,
    bars: null,
    points: null,
    outline: null,
    is_sparse: false,
    ranks: null,
    note: null,
    device: null,
    answer: "",
    rest: null,
    ...more,
  };
}

export function treeHeader(name: string, more: Partial<TreeHeader> = {}): TreeHeader {
  return { ...framed(name), shape: "tree", weights: [], threads: [], device: null, ...more };
}

export function seriesHeader(name: string, more: Partial<SeriesHeader> = {}): SeriesHeader {
  return {
    ...framed(name),
    shape: "series",
    bands: [],
    stacked: [],
    marks: [],
    phases: [],
    modules: [],
    ...more,
  };
}

export function factsHeader(name: string, more: Partial<FactsHeader> = {}): FactsHeader {
  return { ...tab(name), shape: "facts", sections: [], cards: [], ...more };
}

export function problemsHeader(name: string, more: Partial<ProblemsHeader> = {}): ProblemsHeader {
  return { ...tab(name), shape: "problems", problems: [], ...more };
}
