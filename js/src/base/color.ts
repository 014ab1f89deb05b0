/** The luminance of colors, and which text color is readable on them. */

export type Rgb = readonly [red: number, green: number, blue: number];

const WHITE: Rgb = [255, 255, 255];
const BLACK: Rgb = [12, 14, 17];

/** The channels of "#4477aa" or "rgb(68, 119, 170)"; null for a transparent or unknown color. */
export function parseColor(text: string): Rgb | null {
  const color = text.trim();
  return color.startsWith("#") ? parseHex(color.slice(1)) : parseRgb(color);
}

function parseHex(digits: string): Rgb | null {
  const long = digits.length < 6 ? Array.from(digits, (digit) => digit + digit).join("") : digits;
  const value = Number.parseInt(long.slice(0, 6), 16);
  if (Number.isNaN(value) || long.length < 6) return null;
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function parseRgb(color: string): Rgb | null {
  if (!color.startsWith("rgb")) return null;
  const [red, green, blue, alpha = 1] = (color.match(/[\d.]+/g) ?? []).map(Number);
  if (red === undefined || green === undefined || blue === undefined || alpha === 0) return null;
  return [red, green, blue];
}

/** How opaque a computed color is, 0–1. */
export function alphaOf(text: string): number {
  const alpha = /^rgba\(.*[, ]([\d.]+)\)$/.exec(text.trim());
  return alpha === null ? 1 : Number(alpha[1]);
}

/** Relative luminance as WCAG 2 defines it: 0 black, 1 white. */
export function luminance(rgb: Rgb): number {
  const [red, green, blue] = rgb.map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0);
}

/** The contrast of two colors, 1 to 21. */
export function contrast(one: Rgb, other: Rgb): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** Black or white, whichever has more contrast on `fill`. */
export function textOn(fill: Rgb): Rgb {
  return contrast(fill, BLACK) >= contrast(fill, WHITE) ? BLACK : WHITE;
}

/** `one` with `share` of `other` mixed in. */
export function mix(one: Rgb, other: Rgb, share: number): Rgb {
  const at = (index: 0 | 1 | 2) => Math.round(one[index] * (1 - share) + other[index] * share);
  return [at(0), at(1), at(2)];
}

export function cssColor([red, green, blue]: Rgb): string {
  return `rgb(${red},${green},${blue})`;
}
