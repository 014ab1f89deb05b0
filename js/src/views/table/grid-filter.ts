/** The filter of a table: words, and conditions on columns such as `self>1ms phase:backward`. */

import { formatValue, type Unit } from "../../base/format";
import { type TextColumn, wordsContaining } from "../../wire/frame";
import type { GridColumn } from "./grid-columns";

export type RowTest = (row: number) => boolean;

const SIZES: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  ms: 1e6,
  s: 1e9,
  b: 1,
  kb: 1e3,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  flop: 1,
  kflop: 1e3,
  mflop: 1e6,
  gflop: 1e9,
  tflop: 1e12,
  pflop: 1e15,
  k: 1e3,
  m: 1e6,
  "%": 0.01,
};
// What a number without a suffix is in.
const BARE: Readonly<Partial<Record<Unit, number>>> = {
  ns: 1e6,
  bytes: 2 ** 20,
  flop: 1e9,
  ratio: 0.01,
};
const CONDITION = /^(-?)([A-Za-z][\w ]*?)(>=|<=|>|<|=|:)(.+)$/;
const NUMBER = /^(-?[\d.,]+)\s*([a-zµ%]*)$/i;

/** Words in quotes stay together. */
export function tokensOf(query: string): readonly string[] {
  return Array.from(query.matchAll(/(-?[^\s":]*:)?"([^"]*)"|\S+/g), ([whole, key, quoted]) =>
    quoted === undefined ? whole : `${key ?? ""}${quoted}`,
  );
}

/** The rows that meet all parts of a query; null for an empty one. */
export function compileFilter(query: string, columns: readonly GridColumn[]): RowTest | null {
  const tests = tokensOf(query).map((token) => testOf(token, columns));
  const [only] = tests;
  if (only === undefined || tests.length === 1) return only ?? null;
  return (row) => tests.every((test) => test(row));
}

function testOf(token: string, columns: readonly GridColumn[]): RowTest {
  const [, minus = "", key = "", operator = "", wanted = ""] = CONDITION.exec(token) ?? [];
  const column = key === "" ? undefined : columnFor(key, operator, columns);
  const test = column === undefined ? null : conditionOf(column, operator, wanted);
  if (test !== null) return minus === "-" ? (row) => !test(row) : test;
  const isWithout = token.length > 1 && token.startsWith("-");
  const anywhere = containsIn(columns, isWithout ? token.slice(1) : token);
  return isWithout ? (row) => !anywhere(row) : anywhere;
}

// What people call a column besides its title.
const ALIASES: readonly (readonly [string, string])[] = [
  ["gpu", "device"],
  ["host", "cpu"],
  ["time", "sum"],
];

/** The column that a key means: by its name or title, by how they begin, or by what they contain. */
function columnFor(
  key: string,
  operator: string,
  columns: readonly GridColumn[],
): GridColumn | undefined {
  const wantsText = operator === ":";
  const fitting = columns.filter(({ cells }) => (cells.kind === "text") === wantsText);
  const candidates = wantsText && fitting.length === 0 ? columns : fitting;
  for (const wanted of spellings(plain(key))) {
    const exact = candidates.find(({ header }) =>
      [header.name, header.title].map(plain).includes(wanted),
    );
    const begins = candidates.find(({ header }) =>
      [header.title, header.name].some((name) => plain(name).startsWith(wanted)),
    );
    const lead =
      wantsText && wanted === "name" ? candidates.find(({ isLead }) => isLead) : undefined;
    const has = candidates.find(({ header }) =>
      [header.title, header.name].some((name) => plain(name).includes(wanted)),
    );
    const found = exact ?? lead ?? begins ?? has;
    if (found !== undefined) return found;
  }
  return undefined;
}

function spellings(key: string): readonly string[] {
  return [
    key,
    ...ALIASES.flatMap(([alias, name]) => (key.includes(alias) ? [key.replace(alias, name)] : [])),
  ];
}

function plain(text: string): string {
  return text.toLowerCase().replace(/[^a-z0-9]/g, "");
}

function conditionOf(
  { header, cells, divisor }: GridColumn,
  operator: string,
  wanted: string,
): RowTest | null {
  if (cells.kind === "text")
    return operator === ":" || operator === "=" ? containsWord(cells, wanted) : null;
  const limit = parseNumber(wanted, header.unit);
  if (limit === null) return null;
  const { values } = cells;
  // What the row shows: a step's part of a sum.
  const at = (row: number) => (values[row] ?? Number.NaN) / divisor;
  switch (operator) {
    case ">":
      return (row) => at(row) > limit;
    case ">=":
      return (row) => at(row) >= limit;
    case "<":
      return (row) => at(row) < limit;
    case "<=":
      return (row) => at(row) <= limit;
    default:
      return (row) => formatValue(at(row), header.unit) === formatValue(limit, header.unit);
  }
}

/** "1.5ms" in the unit of a column; a time without a unit is in ms, a size in MiB, a count of FLOPs in GFLOP. */
export function parseNumber(text: string, unit: Unit): number | null {
  const [, digits, suffix = ""] = NUMBER.exec(text.trim()) ?? [];
  if (digits === undefined) return null;
  const value = Number(digits.replaceAll(",", ""));
  const size = suffix === "" ? (BARE[unit] ?? 1) : SIZES[suffix.toLowerCase()];
  return size === undefined || Number.isNaN(value) ? null : value * size;
}

function containsIn(columns: readonly GridColumn[], text: string): RowTest {
  const texts = columns.flatMap(({ cells }) =>
    cells.kind === "text" ? [containsWord(cells, text)] : [],
  );
  const [only] = texts;
  return only !== undefined && texts.length === 1 ? only : (row) => texts.some((test) => test(row));
}

/** Looks at each word once, not at each row. */
function containsWord(column: TextColumn, text: string): RowTest {
  const { keys } = column;
  const isHit = wordsContaining(column, text.toLowerCase());
  return (row) => isHit[keys[row] ?? -1] === 1;
}
