/**
 * Numbers as text for people. The rules stand in `torchprof_magic/model/units.py`, and `tests/golden/numbers.json` has
 * cases that both must write alike.
 */

export type Unit =
  | "text"
  | "code"
  | "count"
  | "ns"
  | "bytes"
  | "flop"
  | "ratio"
  | "phase"
  | "step"
  | "bool";

/** One unit of a ladder: `suffix` stands for ten, or in a binary ladder two, to this `power`. */
interface Rung {
  readonly suffix: string;
  readonly power: number;
  readonly isBinary?: boolean;
}

/** A ladder from the names of its units, each a thousand times the next. */
function ladderOf(least: number, ...suffixes: readonly string[]): readonly Rung[] {
  return suffixes.map((suffix, at) => ({
    suffix,
    power: least + 3 * (suffixes.length - 1 - at),
  }));
}

const COUNT = ladderOf(0, "");
const RATES = ladderOf(0, "TB", "GB", "MB", "kB", "B");
const MEMORY = ["TiB", "GiB", "MiB", "KiB", "B"].map((suffix, at) => ({
  suffix,
  power: 10 * (4 - at),
  isBinary: true,
}));
const LADDERS: Partial<Record<Unit, readonly Rung[]>> = {
  ns: ladderOf(0, "s", "ms", "µs", "ns"),
  bytes: MEMORY,
  flop: ladderOf(0, "PFLOP", "TFLOP", "GFLOP", "MFLOP", "kFLOP", "FLOP"),
  ratio: ladderOf(-2, "%"),
};
const DIGITS = 3;
// The largest number of a column shows this many digits, or more where it has more before the point.
const COLUMN_DIGITS = 4;
// In the unit of another column, the largest number is at least this.
const LEAST_SHARED = 0.1;
const MISSING = "–";
const MINUS = "−";

/** How all numbers of one column are written. */
export interface ColumnFormat {
  /** Goes into the header: "ms", "MB", "%" or "". */
  readonly suffix: string;
  readonly format: (value: number) => string;
}

// A formatter takes far longer to make than a number to write.
const formatters = new Map<number, Intl.NumberFormat>();

/** "1,234.50": a number with a fixed number of decimals, of which a half is rounded by the shortest decimal digits. */
export function grouped(size: number, decimals: number): string {
  const known = formatters.get(decimals);
  if (known !== undefined) return known.format(size);
  const made = new Intl.NumberFormat("en-US", {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
  formatters.set(decimals, made);
  return made.format(size);
}

/** The number with its point moved in its decimal digits: 0.285 by 2 is 28.5, and 0.285 * 100 a little less. */
function moved(size: number, places: number): number {
  const [digits, power] = size.toExponential().split("e");
  return Number(`${digits}e${Number(power) + places}`);
}

/** The magnitude with this many significant digits, a half rounded up by its decimal digits. */
function rounded(value: number, digits: number): number {
  if (!Number.isFinite(value) || value === 0) return 0;
  const [text = "", power] = Math.abs(value).toExponential().split("e");
  return Number(`${grouped(Number(text), digits - 1)}e${power}`);
}

/** The magnitude of a number in a unit; of a binary one that changes no digit but the exponent. */
function inUnit(value: number, { power, isBinary }: Rung): number {
  return isBinary ? Math.abs(value) / 2 ** power : moved(Math.abs(value), -power);
}

const ONE: Rung = { suffix: "", power: 0 };

function rungFor(ladder: readonly Rung[], value: number, digits: number): Rung {
  return ladder.find((rung) => rounded(inUnit(value, rung), digits) >= 1) ?? ladder.at(-1) ?? ONE;
}

/** The decimals with which a number shows so many digits in a unit. */
function decimalsFor(value: number, rung: Rung, digits: number): number {
  return Math.max(0, digits - String(Math.trunc(rounded(inUnit(value, rung), digits))).length);
}

/** A number in a unit with a fixed number of decimals, without the unit. */
function written(value: number, rung: Rung, decimals: number): string {
  if (!Number.isFinite(value)) return MISSING;
  const text = grouped(inUnit(value, rung), decimals);
  // A number that is not zero must not look like zero.
  if (value !== 0 && Number(text) === 0) {
    return `${value > 0 ? "" : MINUS}<${(10 ** -decimals).toFixed(decimals)}`;
  }
  return value < 0 ? MINUS + text : text;
}

function alone(value: number, ladder: readonly Rung[]): string {
  if (!Number.isFinite(value)) return MISSING;
  const rung = rungFor(ladder, value, DIGITS);
  const text = written(value, rung, decimalsFor(value, rung, DIGITS));
  return `${text.replace(/\.0+$/, "")} ${rung.suffix}`.trimEnd();
}

/** "222 ms", "1.50 s". */
export function formatNs(value: number): string {
  return formatValue(value, "ns");
}

/** "39.6 ms into step 5"; "the start of step 5", behind a word. */
export function whenIn(into: number, step: number, word = ""): string {
  return into > 0 ? `${formatNs(into)} into step ${step}` : `${word}the start of step ${step}`;
}

/** "1.95 GiB", "298 MiB": sizes of memory. */
export function formatBytes(value: number): string {
  return formatValue(value, "bytes");
}

/** "40,573", or a mean count, "0.33". */
export function formatCount(value: number): string {
  return alone(value, COUNT);
}

/** 0.213 as "21.3 %". */
export function formatRatio(value: number): string {
  return formatValue(value, "ratio");
}

const SI_LADDER = ladderOf(6, "T", "G", "M");
const LEAST_SI = 1e6;
const LARGEST_SI = 1e15;
const SIZE = /^(?:B|bytes)(\/s)?$/;
const plain = new Intl.NumberFormat("en-US", { maximumSignificantDigits: COLUMN_DIGITS });

/** "312.5 W", "1,410 MHz", "1.96 GiB", "2.10 GB/s", "7.05 M": a value in the unit that a file gives it, at most four digits. */
export function formatMeasure(value: number, unit: string): string {
  const size = SIZE.exec(unit);
  // What a device holds is memory, and counted like it; what passes in a second is decimal.
  if (size !== null)
    return size[1] === undefined ? alone(value, MEMORY) : `${alone(value, RATES)}/s`;
  const large = Math.abs(value);
  let text = large < LEAST_SI ? plain.format(value) : alone(value, SI_LADDER);
  if (large >= LARGEST_SI) text = value.toExponential(2);
  return `${text.replace(/^-/, MINUS)} ${unit === "C" ? "°C" : unit}`.trim();
}

const BEFORE_UNIT = /(\d) (?=(?:%|[nµum]?s|[kMGT]?B|[KMGT]iB|[kMGTP]?FLOP)(?![\w]))/g;

/** A sentence in which numbers stay with their units when a line breaks. */
export function unbroken(sentence: string): string {
  return sentence.replace(BEFORE_UNIT, "$1\u00a0");
}

/** One number in a sentence. */
export function formatValue(value: number, unit: Unit): string {
  if (unit === "bool") return value === 0 ? "no" : "yes";
  if (unit === "step" && Number.isFinite(value)) return String(value);
  return alone(value, LADDERS[unit] ?? COUNT);
}

/**
 * One unit and one number of decimals for a whole column, by its largest magnitude: 93.99, 523.0, 2,739. `beside` is
 * the largest magnitude of the columns beside it; its unit is taken where numbers can be read in it.
 */
export function columnFormat(unit: Unit, largest: number, beside = largest): ColumnFormat {
  if (unit === "bool") return { suffix: "", format: (value) => (value === 0 ? "" : "yes") };
  const ladder = LADDERS[unit];
  if (ladder === undefined) return { suffix: "", format: (value) => formatValue(value, unit) };
  const most = Math.max(Math.abs(largest), Math.abs(beside));
  const shared = rungFor(ladder, most, COLUMN_DIGITS);
  // Zeros read alike in every unit.
  const isReadable =
    largest === 0 || rounded(inUnit(largest, shared), COLUMN_DIGITS) >= LEAST_SHARED;
  const rung = isReadable ? shared : rungFor(ladder, largest, COLUMN_DIGITS);
  const wanted = rung.power === 0 ? 0 : decimalsFor(largest, rung, COLUMN_DIGITS);
  const decimals = unit === "ratio" ? 1 : wanted;
  return {
    suffix: rung.suffix,
    format: (value) => (value === 0 ? "0" : written(value, rung, decimals)),
  };
}

// More decimals do not fit beside an axis.
const MOST_DECIMALS = 6;

/** The decimals with which all of some numbers are written exactly. */
export function exactDecimals(values: readonly number[]): number {
  let decimals = 0;
  const isExact = (value: number) => {
    const moved = Math.abs(value) * 10 ** decimals;
    return moved === 0 || Math.abs(moved - Math.round(moved)) < 1e-6 * Math.round(moved);
  };
  while (decimals < MOST_DECIMALS && !values.every(isExact)) decimals += 1;
  return decimals;
}

/** The numbers of an axis in the unit of the largest, with the decimals that the finest needs to be exact. */
export function axisNumbers(
  unit: Unit,
  ticks: readonly number[],
): { readonly suffix: string; readonly texts: readonly string[] } {
  const largest = Math.max(0, ...ticks);
  const ladder = LADDERS[unit];
  if (ladder === undefined)
    return { suffix: "", texts: ticks.map((tick) => formatValue(tick, unit)) };
  const rung = rungFor(ladder, largest, COLUMN_DIGITS);
  const decimals = exactDecimals(ticks.map((tick) => inUnit(tick, rung)));
  return {
    suffix: rung.suffix,
    texts: ticks.map((tick) => (tick === 0 ? "0" : written(tick, rung, decimals))),
  };
}

/** Distances of ticks that are round; in ns, from 1 ns to more than a day. */
export const ROUND = Array.from({ length: 15 }, (_, power) => power).flatMap((power) =>
  [1, 2, 5].map((size) => size * 10 ** power),
);

/** Distances of ticks of an axis up to `largest` that are round in the unit that `axisNumbers` writes. */
export function roundSteps(unit: Unit, largest: number): number[] {
  const one = 1 / inUnit(1, rungFor(LADDERS[unit] ?? [ONE], largest, COLUMN_DIGITS));
  // From a thousandth of the unit on.
  return ROUND.map((size) => (size / 1000) * one).filter((step) => step >= 1);
}

/** Whether values of a unit are numbers, so that cells are right-aligned. */
export function isNumeric(unit: Unit): boolean {
  return ["count", "ns", "bytes", "flop", "ratio"].includes(unit);
}

/** Whether values of a unit are text, so that the filter searches the column. */
export function isText(unit: Unit): boolean {
  return unit === "text" || unit === "code" || unit === "phase";
}

/** "1 op", "89 ops", "2 boxes". */
export function plural(count: number, noun: string): string {
  const ending = /(?:s|x|ch|sh)$/.test(noun) ? "es" : "s";
  return `${formatCount(count)} ${count === 1 ? noun : noun + ending}`;
}

/** What a number of a column lacks behind its last digit so that the points stand below each other: ".00" for "0". */
export function tailOf(text: string, decimals: number): string {
  const own = decimalsIn(text);
  if (text === "" || own >= decimals) return "";
  return (own === 0 ? "." : "") + "0".repeat(decimals - own);
}

export function decimalsIn(text: string): number {
  return text.split(".")[1]?.length ?? 0;
}
