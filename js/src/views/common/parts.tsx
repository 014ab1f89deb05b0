/** Small parts that several views share. */

import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { formatCount, tailOf, unbroken } from "../../base/format";
import { isWaiting, phaseColor, phases, phaseTitle, type Theme } from "../../base/palette";
import { Button } from "./button";
import type { ReportContext } from "./context";
import { focusView } from "./focus-view";
import { focusable } from "./focusable";

export interface SegmentedProps {
  readonly label: string;
  readonly options: readonly { readonly name: string; readonly title: string }[];
  readonly chosen: string;
  readonly onChoose: (name: string) => void;
}

/** A row of buttons to choose one option; hidden with less than two options. */
export function Segmented({ label, options, chosen, onChoose }: SegmentedProps) {
  if (options.length < 2) return null;
  return (
    <fieldset class="tp-segmented" aria-label={label}>
      {options.map(({ name, title }) => (
        <Button key={name} aria-pressed={name === chosen} onClick={() => onChoose(name)}>
          {title}
        </Button>
      ))}
    </fieldset>
  );
}

interface SearchProps {
  readonly text: Signal<string>;
  readonly label: string;
  /** Goes to the next match, or with Shift to the one before. */
  readonly onEnter?: (isBack: boolean) => void;
}

/** The search box of a view; `/` focuses it, Esc clears it, and a second Esc leaves it. */
export function SearchBox({ text, label, onEnter }: SearchProps) {
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter") onEnter?.(event.shiftKey);
    if (event.key !== "Escape") return;
    event.preventDefault();
    if (text.value === "") focusView(event.currentTarget as HTMLElement);
    text.value = "";
  };
  return (
    <input
      class="tp-search"
      type="text"
      spellcheck={false}
      autocomplete="off"
      placeholder={label}
      aria-label={label}
      value={text.value}
      onInput={(event) => {
        text.value = event.currentTarget.value;
      }}
      {...focusable(onKey)}
    />
  );
}

interface MatchStepsProps {
  /** Position of the current match, -1 before the first. */
  readonly at: number;
  /** null without a search. */
  readonly count: number | null;
  readonly note: string;
  readonly onStep: (step: number) => void;
}

/** "3 of 24" with buttons for the match before and the next. */
export function MatchSteps({ at, count, note, onStep }: MatchStepsProps) {
  if (count === null) return <span class="tp-match-steps" role="status" />;
  const text =
    count === 0 ? "no match" : `${at < 0 ? "" : `${formatCount(at + 1)} of `}${formatCount(count)}`;
  const button = (label: string, mark: string, step: number) => (
    <Button class="tp-button" aria-label={label} onClick={() => onStep(step)}>
      {mark}
    </Button>
  );
  return (
    <span class="tp-match-steps">
      <span role="status" data-tp-match={at + 1} data-tp-match-count={count}>
        {text}
      </span>
      {count > 0 && button("Previous match", "‹", -1)}
      {count > 0 && button("Next match", "›", 1)}
      {count > 0 && note !== "" && <span class="tp-match-note">{note}</span>}
    </span>
  );
}

interface DotProps {
  readonly report: ReportContext;
  readonly phase: string;
}

/** The class of what is filled with the color of a phase: waiting is hatched, of the host and for the device. */
export function filledClass(name: string, phase: string): string {
  return isWaiting(phase) ? `${name} tp-hatched` : name;
}

/** A square in the color of a phase, with its name on hover; nothing without a phase. */
export function PhaseDot({ report, phase }: DotProps) {
  if (phase === "") return null;
  const color = phaseColor(phase, report.look.value.theme);
  return (
    <span
      class={filledClass("tp-dot", phase)}
      title={phaseTitle(phase)}
      aria-hidden="true"
      style={{ backgroundColor: color }}
    />
  );
}

interface DigitsProps {
  readonly text: string;
  /** The most decimals of a number in the column. */
  readonly decimals: number;
}

/** A number of a column, with its point below those of the others. */
export function Digits({ text, decimals }: DigitsProps) {
  const tail = tailOf(text, decimals);
  return <span data-tp-tail={tail === "" ? undefined : tail}>{text}</span>;
}

/** A path of which the folders are cut first, where there is no room. */
export function Path({ path }: { readonly path: string }) {
  const at = Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1;
  return (
    <>
      <bdi class="tp-path-folders">{path.slice(0, at)}</bdi>
      <bdi class="tp-path-file">{path.slice(at)}</bdi>
    </>
  );
}

/** A ratio as a length in CSS, kept within 0–100 %. */
export function percent(ratio: number): string {
  return `${(Math.min(1, Math.max(0, ratio)) * 100).toFixed(3)}%`;
}

export interface LegendEntry {
  readonly title: string;
  readonly color: string;
  /** The phase whose color it is, if it is one. */
  readonly phase?: string;
  /** Shown as a line instead of a square. */
  readonly isLine?: boolean;
}

export function Legend({ entries }: { readonly entries: readonly LegendEntry[] }) {
  return (
    <ul class="tp-legend" aria-label="Legend">
      {entries.map(({ title, color, phase = "", isLine }) => (
        <li key={title}>
          <span
            class={filledClass(isLine ? "tp-dot tp-line-key" : "tp-dot", phase)}
            style={{ backgroundColor: color }}
          />
          {title}
        </li>
      ))}
    </ul>
  );
}

/** What the colors of some phases are, in the order of all pictures. */
export function phaseEntries(seen: ReadonlySet<string>, theme: Theme): readonly LegendEntry[] {
  const shown = phases.filter(({ name }) => seen.has(name));
  return shown
    .filter(({ title }, at) => shown.findIndex((other) => other.title === title) === at)
    .map(({ name, title }) => ({ title, phase: name, color: phaseColor(name, theme) }));
}

interface ToolsProps {
  readonly children: ComponentChildren;
}

/** The row above a view's data. */
export function Tools({ children }: ToolsProps) {
  return <div class="tp-tools">{children}</div>;
}

/** Text with what stands between backticks as code. */
export function Marked({ text }: { readonly text: string }) {
  return (
    <>
      {unbroken(text)
        .split("`")
        .map((part, index) => (index % 2 === 1 ? <bdi class="tp-card-code">{part}</bdi> : part))}
    </>
  );
}

/** A centered sentence for an empty, loading or failed view. */
export function Sentence({ children }: { readonly children: ComponentChildren }) {
  return <div class="tp-sentence">{children}</div>;
}
