/** Watches whether the page around a report is light or dark. */

import { type ReadonlySignal, signal } from "@preact/signals";
import { luminance, parseColor } from "../../base/color";
import type { Theme } from "../../base/palette";
import { resolveColor } from "../../draw/colors";

/** A new object after every change, so that canvases repaint even from one dark theme to another. */
export interface Look {
  readonly theme: Theme;
}

const HOST_BACKGROUNDS = ["--vscode-editor-background", "--jp-layout-color0"];
const DARK_QUERY = "(prefers-color-scheme: dark)";
// Perceived lightness half way between black and white.
const DARK_BELOW = 0.18;
// JupyterLab loads the new style sheet after it has changed the attribute.
const SECOND_LOOK_MS = 300;

/** The theme of the page that holds `element`. */
export function hostTheme(element: Element): Theme {
  const page = element.ownerDocument;
  return fromVariables(page) ?? fromAttributes(page) ?? fromBackground(page) ?? fromSystem(page);
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
  const colab = page.documentElement.getAttribute("theme");
  if (colab === "dark" || colab === "light") return colab;
  const isDark =
    page.body.classList.contains("dark") || page.body.classList.contains("vscode-dark");
  return isDark ? "dark" : null;
}

function fromBackground(page: Document): Theme | null {
  const color = parseColor(getComputedStyle(page.body).backgroundColor);
  return color === null ? null : themeOf(color);
}

function fromSystem(page: Document): Theme {
  return page.defaultView?.matchMedia?.(DARK_QUERY).matches ? "dark" : "light";
}

function themeOf(color: readonly [number, number, number]): Theme {
  return luminance(color) < DARK_BELOW ? "dark" : "light";
}

/** The look of the page around `element`, updated until `abort`. */
export function watchLook(element: Element, abort: AbortSignal): ReadonlySignal<Look> {
  const look = signal<Look>({ theme: hostTheme(element) });
  const refresh = () => {
    look.value = { theme: hostTheme(element) };
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const refreshTwice = () => {
    refresh();
    clearTimeout(timer);
    timer = setTimeout(refresh, SECOND_LOOK_MS);
  };
  const page = element.ownerDocument;
  const observer = new MutationObserver(refreshTwice);
  const attributeFilter = [
    "class",
    "style",
    "theme",
    "data-jp-theme-light",
    "data-vscode-theme-kind",
  ];
  for (const watched of [page.body, page.documentElement]) {
    observer.observe(watched, { attributes: true, attributeFilter });
  }
  const system = page.defaultView?.matchMedia?.(DARK_QUERY);
  system?.addEventListener("change", refresh, { signal: abort });
  abort.addEventListener("abort", () => {
    observer.disconnect();
    clearTimeout(timer);
  });
  return look;
}
