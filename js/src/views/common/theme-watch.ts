/** Watches whether the page around a report is light or dark, and whether it is being printed. */

import { type ReadonlySignal, signal } from "@preact/signals";
import { alphaOf, luminance, parseColor } from "../../base/color";
import type { Theme } from "../../base/palette";
import { resolveColor } from "../../draw/colors";

/** A new object after every change, so that canvases repaint even from one dark theme to another. */
export interface Look {
  readonly theme: Theme;
  /** On paper: light on white, all of it, and nothing to click. */
  readonly isPrinted: boolean;
}

const HOST_BACKGROUNDS = ["--vscode-editor-background", "--jp-layout-color0"];
const HOST_TOKENS = ["--tp-canvas", "--tp-text", "--tp-ui-font", "--tp-code-font"];
const DARK_QUERY = "(prefers-color-scheme: dark)";
const FORCED_QUERY = "(forced-colors: active)";
const PRINT_QUERY = "print";
// Perceived lightness half way between black and white.
const DARK_BELOW = 0.18;
// A tint over another ground says little about what is seen.
const MOSTLY_OPAQUE = 0.5;
// JupyterLab loads the new style sheet after it has changed the attribute.
const SECOND_LOOK_MS = 300;
// Where VS Code, Colab (theme), marimo and documentation (data-theme) say their theme.
const THEME_ATTRIBUTES = ["data-vscode-theme-kind", "theme", "data-theme"];
const DARK_WORD = /(^|-)(dark|high-contrast)$/;

/** The theme of the page that holds `element`. */
function hostTheme(element: Element): Theme {
  const page = element.ownerDocument;
  if (page.defaultView?.matchMedia?.(FORCED_QUERY).matches) return fromForced(page);
  return fromVariables(page) ?? fromAttributes(page) ?? fromBackground(element) ?? fromSystem(page);
}

/** With forced colors, whatever the page says is replaced by the system's colors. */
function fromForced(page: Document): Theme {
  return themeOf(resolveColor(page, "Canvas") ?? [255, 255, 255]);
}

function fromVariables(page: Document): Theme | null {
  const style = getComputedStyle(page.body);
  for (const name of HOST_BACKGROUNDS) {
    const color = resolveColor(page, style.getPropertyValue(name));
    if (color !== null) return themeOf(color);
  }
  return null;
}

function fromAttributes(page: Document): Theme | null {
  const jupyter = page.body.dataset.jpThemeLight;
  if (jupyter !== undefined) return jupyter === "false" ? "dark" : "light";
  for (const holder of [page.body, page.documentElement]) {
    const said = THEME_ATTRIBUTES.map((name) => holder.getAttribute(name) ?? "");
    const words = [...said, ...holder.classList].filter(isThemeWord);
    if (words.length > 0) return words.some((word) => DARK_WORD.test(word)) ? "dark" : "light";
  }
  return null;
}

/** "dark", "vscode-dark", "vscode-high-contrast-light", but not "dark-sidebar". */
function isThemeWord(word: string): boolean {
  return /^(vscode-)?(light|dark|high-contrast|high-contrast-light)$/.test(word);
}

/** The first ground behind the report that covers what is behind it. */
function fromBackground(element: Element): Theme | null {
  for (let at = aroundOf(element); at !== null; at = aroundOf(at)) {
    const ground = getComputedStyle(at).backgroundColor;
    const color = parseColor(ground);
    if (color !== null && alphaOf(ground) > MOSTLY_OPAQUE) return themeOf(color);
  }
  return null;
}

/** The parent, or the element that holds a shadow tree. */
function aroundOf(element: Element): Element | null {
  const root = element.getRootNode();
  return element.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
}

function fromSystem(page: Document): Theme {
  return page.defaultView?.matchMedia?.(DARK_QUERY).matches ? "dark" : "light";
}

function themeOf(color: readonly [number, number, number]): Theme {
  return luminance(color) < DARK_BELOW ? "dark" : "light";
}

/**
 * The look of the page around `element`, updated until `abort`. It is written to `element` for the style sheet before
 * any canvas reads its colors.
 */
export function watchLook(element: HTMLElement, abort: AbortSignal): ReadonlySignal<Look> {
  const page = element.ownerDocument;
  const print = page.defaultView?.matchMedia?.(PRINT_QUERY);
  let isPrinted = print?.matches ?? false;
  const lookNow = (): Look => {
    const theme = isPrinted ? "light" : hostTheme(element);
    element.dataset.tpTheme = theme;
    element.toggleAttribute("data-tp-printed", isPrinted);
    return { theme, isPrinted };
  };
  const look = signal(lookNow());
  let seen = tokensOf(element, look.value);
  const refresh = () => {
    const next = lookNow();
    const tokens = tokensOf(element, next);
    // Pages change their classes for many reasons, and painting again for none is work.
    if (tokens === seen) return;
    seen = tokens;
    look.value = next;
  };
  const setPrinted = (next: boolean) => {
    if (next === isPrinted) return;
    isPrinted = next;
    refresh();
  };
  print?.addEventListener("change", ({ matches }) => setPrinted(matches), { signal: abort });
  // Before the page is laid out for paper, when scripts run for the last time.
  page.defaultView?.addEventListener("beforeprint", () => setPrinted(true), { signal: abort });
  page.defaultView?.addEventListener("afterprint", () => setPrinted(false), { signal: abort });
  for (const query of [DARK_QUERY, FORCED_QUERY]) {
    const system = page.defaultView?.matchMedia?.(query);
    system?.addEventListener("change", refresh, { signal: abort });
  }
  watchAttributes(page, refresh, abort);
  return look;
}

/** What the host decides of the colors and fonts of a report. */
function tokensOf(element: Element, { theme, isPrinted }: Look): string {
  const style = getComputedStyle(element);
  const tokens = HOST_TOKENS.map((name) => style.getPropertyValue(name));
  return [theme, isPrinted, ...tokens].join();
}

/** Calls `refresh` when the page changes its theme, and again when its style sheets have followed. */
function watchAttributes(page: Document, refresh: () => void, abort: AbortSignal): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const observer = new MutationObserver(() => {
    refresh();
    clearTimeout(timer);
    timer = setTimeout(refresh, SECOND_LOOK_MS);
  });
  const attributeFilter = ["class", "style", "data-jp-theme-light", ...THEME_ATTRIBUTES];
  for (const watched of [page.body, page.documentElement]) {
    observer.observe(watched, { attributes: true, attributeFilter });
  }
  abort.addEventListener("abort", () => {
    observer.disconnect();
    clearTimeout(timer);
  });
}
