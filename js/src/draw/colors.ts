/** The colors of a canvas: tokens of the style sheet, read at the canvas. */

import { parseColor, type Rgb } from "../base/color";
import type { Theme } from "../base/palette";

export interface Colors {
  readonly theme: Theme;
  readonly background: Rgb;
  readonly text: Rgb;
  readonly muted: Rgb;
  readonly line: Rgb;
  readonly accent: Rgb;
  /** For what is missing. */
  readonly warning: Rgb;
  /** For Python frames and the root, which have no phase. */
  readonly neutral: Rgb;
  /** For merged boxes. */
  readonly merged: Rgb;
  readonly uiFont: string;
  readonly codeFont: string;
}

const FALLBACK: Rgb = [128, 128, 128];

/** Reads the tokens; call again after a switch of theme. */
export function readColors(element: Element, theme: Theme): Colors {
  const style = getComputedStyle(element);
  const token = (name: string) =>
    resolveColor(element.ownerDocument, style.getPropertyValue(`--tp-${name}`)) ?? FALLBACK;
  return {
    theme,
    background: token("canvas"),
    text: token("text"),
    muted: token("muted"),
    line: token("line"),
    accent: token("accent"),
    warning: token("warning"),
    neutral: token("neutral"),
    merged: token("merged"),
    uiFont: style.getPropertyValue("--tp-ui-font").trim() || "sans-serif",
    codeFont: style.getPropertyValue("--tp-code-font").trim() || "monospace",
  };
}

/** Hosts write colors in any syntax ("white", hsl()), so the browser resolves them. */
export function resolveColor(page: Document, text: string): Rgb | null {
  if (text.trim() === "") return null;
  const simple = parseColor(text);
  if (simple !== null) return simple;
  const probe = page.createElement("span");
  probe.style.color = text;
  probe.style.setProperty("forced-color-adjust", "none");
  page.body.append(probe);
  const resolved = parseColor(getComputedStyle(probe).color);
  probe.remove();
  return resolved;
}
