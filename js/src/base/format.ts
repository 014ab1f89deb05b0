/** Numbers as text for people. */

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

/** One unit of a scale: `suffix` is `size` base units. */
interface Rung {
  readonly suffix: string;
  readonly size: number;
}

const NS_LADDER: readonly Rung[] = [
  { suffix: "s", size: 1e9 },
  { suffix: "ms", size: 1e6 },
  { suffix: "µs", size: 1e3 },
  { suffix: "ns", size: 1 },
];

const BYTES_LADDER: readonly Rung[] = [
  { suffix: "TB", size: 1e12 },
  { suffix: "GB", size: 1e9 },
  { suffix: "MB", size: 1e6 },
  { suffix: "kB", size: 1e3 },
  { suffix: "B", size: 1 },
];

const FLOP_LADDER: readonly Rung[] = [
  { suffix: "PFLOP", size: 1e15 },
  { suffix: "TFLOP", size: 1e12 },
  { suffix: "GFLOP", size: 1e9 },
  { suffix: "MFLOP", size: 1e6 },
  { suffix: "kFLOP", size: 1e3 },
  { suffix: "FLOP", size: 1 },
];

// The largest number of a column shows this many digits, or more where it has more before the point.
const DIGITS = 4;
const MISSING = "–";
const MINUS = "−";

/** How all numbers of one column are written. */
export interface ColumnFormat {
  /** Goes into the header: "ms", "MB", "%" or "". */
  readonly suffix: string;
  readonly format: (value: number) => string;
}

function rungFor(ladder: readonly Rung[], size: number): Rung {
  const rung = ladder.find((each) => size >= each.size) ?? ladder.at(-1);
  return rung ?? { suffix: "", size: 1 };
}

function withMinus(value: number, text: string): string {
  return value < 0 ? MINUS + text : text;
}

// A formatter takes far longer to make than a number to write.
const formatters = new Map<number, Intl.NumberFormat>();

/** "1,234.50": a number with a fixed number of decimals. */
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

/** The number with three significant digits, rounded before its unit is chosen: 999.6 becomes 1000. */
function threeDigits(size: number): number {
  return size === 0 ? 0 : Number(size.toPrecision(3));
}

function decimalsFor(size: number): number {
  if (size >= 100 || size === 0) return 0;
  return size >= 10 ? 1 : 2;
}

function inProse(value: number, ladder: readonly Rung[]): string {
  if (!Number.isFinite(value)) return MISSING;
  if (value === 0) return "0";
  const size = threeDigits(Math.abs(value));
  const rung = rungFor(ladder, size);
  const isWhole = rung.size === 1 && Number.isInteger(size);
  const shown = size / rung.size;
  return withMinus(value, `${grouped(shown, isWhole ? 0 : decimalsFor(shown))} ${rung.suffix}`);
}

/** "222 ms", "1.50 s": three significant digits. */
export function formatNs(value: number): string {
  return inProse(value, NS_LADDER);
}

/** "2.09 GB", "312 MB": decimal units, three significant digits. */
export function formatBytes(value: number): string {
  return inProse(value, BYTES_LADDER);
}

/** "40,573"; a mean keeps two decimals. */
export function formatCount(value: number): string {
  if (!Number.isFinite(value)) return MISSING;
  return withMinus(value, grouped(Math.abs(value), Number.isInteger(value) ? 0 : 2));
}

/** 0.213 as "21.3 %". */
export function formatRatio(value: number): string {
  if (!Number.isFinite(value)) return MISSING;
  return `${withMinus(value, grouped(Math.abs(value) * 100, 1))} %`;
}

const SI_LADDER: readonly Rung[] = [
  { suffix: "T", size: 1e12 },
  { suffix: "G", size: 1e9 },
  { suffix: "M", size: 1e6 },
];
const LEAST_SI = 1e6;
const LARGEST_SI = 1e15;
const SIZE = /^(?:B|bytes)(\/s)?$/;
const plain = new Intl.NumberFormat("en-US", { maximumSignificantDigits: DIGITS });

/** "312.5 W", "1,410 MHz", "2.10 GB/s", "7.05 M": a value in the unit that a file gives it, at most four digits. */
export function formatMeasure(value: number, unit: string): string {
  const size = SIZE.exec(unit);
  if (size !== null) return formatBytes(value) + (size[1] ?? "");
  const large = Math.abs(value);
  let text = large < LEAST_SI ? plain.format(value) : inProse(value, SI_LADDER);
  if (large >= LARGEST_SI) text = value.toExponential(2);
  return `${text.replace(/^-/, MINUS)} ${unit === "C" ? "°C" : unit}`.trim();
}

const BEFORE_UNIT = /(\d) (?=(?:%|ns|µs|us|ms|s|B|kB|MB|GB|TB)(?![\w]))/g;

/** A sentence in which numbers stay with their units when a line breaks. */
export function unbroken(sentence: string): string {
  return sentence.replace(BEFORE_UNIT, "$1\u00a0");
}

/** One number in a sentence. */
export function formatValue(value: number, unit: Unit): string {
  switch (unit) {
    case "ns":
      return formatNs(value);
    case "bytes":
      return formatBytes(value);
    case "flop":
      return inProse(value, FLOP_LADDER);
    case "ratio":
      return formatRatio(value);
    case "bool":
      return value === 0 ? "no" : "yes";
    case "step":
      return Number.isFinite(value) ? String(value) : MISSING;
    default:
      return formatCount(value);
  }
}

function scaled(value: number, rung: Rung, decimals: number): string {
  if (!Number.isFinite(value)) return MISSING;
  if (value === 0) return "0";
  const size = Math.abs(value) / rung.size;
  const least = 10 ** -decimals;
  // A number that is not zero must not look like zero.
  if (size < least / 2) return `<${withMinus(value, least.toFixed(decimals))}`;
  return withMinus(value, grouped(size, decimals));
}

// In the unit of another column, the largest number is at least this.
const LEAST_SHARED = 0.1;

function columnOf(ladder: readonly Rung[], largest: number, beside: number): ColumnFormat {
  const shared = rungFor(ladder, Math.max(largest, beside));
  const rung = largest >= LEAST_SHARED * shared.size ? shared : rungFor(ladder, largest);
  const shown = largest / rung.size;
  const before = shown >= 1 ? Math.floor(Math.log10(shown)) + 1 : 1;
  const decimals = rung.size === 1 ? 0 : Math.max(0, DIGITS - before);
  return { suffix: rung.suffix, format: (value) => scaled(value, rung, decimals) };
}

/**
 * One unit and one number of decimals for a whole column, by its largest magnitude: 93.99, 523.0, 2,739. `beside` is
 * the largest magnitude of the columns beside it; its unit is taken where numbers can be read in it.
 */
export function columnFormat(unit: Unit, largest: number, beside = largest): ColumnFormat {
  switch (unit) {
    case "ns":
      return columnOf(NS_LADDER, largest, beside);
    case "bytes":
      return columnOf(BYTES_LADDER, largest, beside);
    case "flop":
      return columnOf(FLOP_LADDER, largest, beside);
    case "ratio":
      return { suffix: "%", format: (value) => scaled(value, { suffix: "%", size: 0.01 }, 1) };
    case "bool":
      return { suffix: "", format: (value) => (value === 0 ? "" : "yes") };
    default:
      return { suffix: "", format: (value) => formatValue(value, unit) };
  }
}

/** The numbers of an axis without the zeros that all of them end with. */
export function axisNumbers(
  ticks: readonly number[],
  format: (value: number) => string,
): readonly string[] {
  const texts = ticks.map((tick) => (tick === 0 ? "0" : format(tick)));
  const decimals = Math.max(
    ...texts.map((text) => (text.split(".")[1] ?? "").replace(/0+$/, "").length),
  );
  return texts.map((text) => {
    const [whole = "", part = ""] = text.split(".");
    const kept = part.slice(0, decimals);
    return kept === "" || Number(text) === 0 ? whole : `${whole}.${kept}`;
  });
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
