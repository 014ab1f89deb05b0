/** The colors of phases and bands, from the file that the static figures use as well. */

import palette from "../../../torchprof_magic/render/palette.json";

export type Theme = "light" | "dark";

interface Entry {
  readonly light: string;
  readonly dark: string;
}

export interface Phase {
  readonly name: string;
  readonly title: string;
}

const PHASES = new Map<string, Entry & { readonly title: string }>(Object.entries(palette.phases));
const CHANGES = new Map<string, Entry>(Object.entries(palette.changes));
const BANDS = new Map<string, Entry>(Object.entries(palette.bands));
const CATEGORIES = new Map<string, Entry>(Object.entries(palette.categories));
const OTHER = palette.phases.unknown;

/** Phases in the order of the palette, which is the order of the bars. */
export const phases: readonly Phase[] = Array.from(PHASES, ([name, { title }]) => ({
  name,
  title,
}));

export function phaseColor(name: string, theme: Theme): string {
  return (PHASES.get(name) ?? CHANGES.get(name) ?? OTHER)[theme];
}

/** Whether nothing is done in a phase: in a blocking call, or as the thread sleeps or waits. */
export function isWaiting(name: string): boolean {
  return name === "waiting" || name === "idle";
}

export function phaseTitle(name: string): string {
  return PHASES.get(name)?.title ?? name;
}

/** The color of what memory is used for. */
export function categoryColor(category: string, theme: Theme): string {
  return (CATEGORIES.get(category) ?? palette.categories.unknown)[theme];
}

/** A band that is not in the palette gets the color of a phase, in turn. */
export function bandColor(name: string, index: number, theme: Theme): string {
  const category = CATEGORIES.get(name.replace(/_bytes$/, ""));
  const entry =
    BANDS.get(name) ?? category ?? PHASES.get(phases[index % phases.length]?.name ?? "") ?? OTHER;
  return entry[theme];
}
