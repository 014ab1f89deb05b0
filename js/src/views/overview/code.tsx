/** The code with its time, line by line, and what to write instead at the line that it is about. */

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { columnFormat, plural } from "../../base/format";

import { type CodeItem, codeItems, codeRows, isFunction } from "../../layout/code-lines";
import type { LateView } from "../../state/python-sync";
import { revealIn } from "../../state/store";
import { type Frame, numberAt, rowsOf, stringAt } from "../../wire/frame";
import type { FactsHeader } from "../../wire/header";
import { Button } from "../common/button";
import { cellLine, goToCellLine } from "../common/cell-line";
import type { ReportContext, TableProps } from "../common/context";
import { describeDevice } from "../common/describe";
import { Digits, Legend, Path, phaseEntries } from "../common/parts";
import { useRanged } from "../common/ranged";
import { barRatio, type GridColumn, gridColumns, hueColumn } from "../table/grid-columns";
import { BarCell, barParts } from "../table/grid-row";
import { stepsOf } from "../verdict/steps";
import { Change, type NumberedCard } from "./cards";

const SHARES = columnFormat("ratio", 1);

/** The lines to show, the column of their times, and the advice by the row that it is about. */
interface Code extends TableProps {
  readonly items: readonly CodeItem[];
  readonly column: GridColumn;
  readonly each: string;
  readonly changes: ReadonlyMap<number, readonly NumberedCard[]>;
  /** The row of the line that the verdict names, -1 if it is not among them. */
  readonly named: number;
}

/** The code that the overview shows, of the chosen range if the kernel can compute that; null without known lines. */
export function useCode(
  report: ReportContext,
  facts: FactsHeader,
  cards: readonly NumberedCard[],
): Code | null {
  const { range } = report.store;
  const { latest, found, shown } = useRanged(report, linesOf(report, facts), range.value);
  const { view, frame } = shown;
  if (view.shape !== "table") return null;
  const { steps, step_ns, verdict } = report.source.header;
  const isPart = latest !== null && range.value !== null && found !== null;
  const columns = gridColumns(view, frame, isPart ? 1 : steps);
  // The time that decides, by which the view of the source is sorted or with which it begins.
  const main = hueColumn(view, "");
  const column = columns.find(({ header }) => header.name === main);
  const changes = changesIn(shown, cards);
  const items = codeItems(frame, main, new Set(changes.keys()), view.sort_by !== null);
  if (column === undefined || items.length === 0) return null;
  const per = isPart ? "in this range" : step_ns === null ? "in all" : "per step";
  const parts = main.includes("device") ? describeDevice(view.device, isPart ? 1 : steps) : "";
  const each = parts.replace("device time", per) || per;
  const spot = verdict.code?.spot;
  const named = items.find(({ kind, row }) => kind === "line" && spotOf(shown, row) === spot);
  return { report, view, frame, items, column, each, changes, named: named?.row ?? -1 };
}

/** The view of the source, or where there is none that of the facts. */
function linesOf({ source }: ReportContext, facts: FactsHeader): LateView {
  const view = source.header.views.find(({ name }) => name === "source");
  const state = view?.shape === "table" ? source.frame(view).value : null;
  return view?.shape === "table" && state?.kind === "ready"
    ? { view, frame: state.frame }
    : { view: facts, frame: { rows: 0, columns: new Map() } };
}

/** A line as the view of the source finds it; what belongs to no line by its text. */
function spotOf({ frame }: Pick<LateView, "frame">, row: number): string {
  const line = numberAt(frame, "line", row);
  if (Number.isNaN(line)) return stringAt(frame, "source", row);
  return `${stringAt(frame, "file", row)}:${line}`;
}

function changesIn(shown: LateView, cards: readonly NumberedCard[]): Code["changes"] {
  const here = cards.filter(({ card }) => card.view === shown.view.name && card.spot !== "");
  const spots = new Set(here.map(({ card }) => card.spot));
  const rowOf = new Map<string, number>();
  for (const row of codeRows(shown.frame)) {
    const spot = spotOf(shown, row);
    if (spots.has(spot) && !rowOf.has(spot)) rowOf.set(spot, row);
  }
  const changes = new Map<number, readonly NumberedCard[]>();
  for (const each of here) {
    const row = rowOf.get(each.card.spot);
    if (row !== undefined) changes.set(row, [...(changes.get(row) ?? []), each]);
  }
  return changes;
}

interface CodeWithFirst extends Code {
  /** The changes whose titles stand beside the verdict. */
  readonly first: readonly NumberedCard[];
}

/** One row per line, as in the view of the source, which a click opens. */
export function CodeSection(code: CodeWithFirst) {
  const { items, column, each, view } = code;
  return (
    <section class="tp-facts tp-lines">
      <h3 class="tp-split">
        Code
        <CodeLegend {...code} />
        <span class="tp-aside">{`${column.title} ${each}`}</span>
      </h3>
      <ul class={view.sort_by === null ? "" : "tp-functions"}>
        {items.map((item, at) =>
          item.kind === "rest" ? (
            <RestRow key={`rest ${item.row}`} code={code} item={item} />
          ) : (
            <LineRow key={item.row} code={code} row={item.row} head={headAt(code, at)} />
          ),
        )}
      </ul>
    </section>
  );
}

// A part of less than this share of a track is hardly seen.
const LEAST_SEEN = 0.005;

/** What those colors of the bars are that the steps have not told. */
function CodeLegend(code: Code) {
  const { report, items, column, view } = code;
  const hue = hueColumn(view, "");
  const told = new Set(stepsOf(report).flatMap(({ parts }) => parts.map(({ phase }) => phase)));
  const seen = items.flatMap(({ row }) =>
    barParts({ ...code, row, hue })
      .filter(({ share }) => share * barRatio(column, row) >= LEAST_SEEN)
      .map(({ phase }) => phase)
      .filter((phase) => !told.has(phase)),
  );
  const entries = phaseEntries(new Set(seen), report.look.value.theme);
  return entries.length === 0 ? null : <Legend entries={entries} />;
}

/** What stands over a line: the file, where it is not that of the line before it, or that functions begin. */
function headAt({ items, frame, view }: Code, at: number): string {
  const row = items[at]?.row ?? -1;
  const before = items.slice(0, at).findLast(({ kind }) => kind === "line")?.row;
  if (before === undefined || view.sort_by !== null) return "";
  if (isFunction(frame, row)) {
    return isFunction(frame, before) ? "" : stringAt(frame, "source", firstFunction(frame) - 1);
  }
  const file = stringAt(frame, "file", row);
  return file === stringAt(frame, "file", before) ? "" : file;
}

/** The first function that lines call, which follows the row around them. */
function firstFunction(frame: Frame): number {
  return rowsOf(frame).findIndex((row) => isFunction(frame, row));
}

interface LineNumberProps {
  readonly line: number | null;
  readonly text: string;
}

/** The number of a line, which leads to the line in the notebook's cell where that stands on the same page. */
function LineNumber({ line, text }: LineNumberProps) {
  const place = useRef<HTMLSpanElement>(null);
  const isLink = useSignal(false);
  const find = () =>
    place.current === null || line === null ? null : cellLine(place.current, line, text);
  useLayoutEffect(() => {
    isLink.value = find() !== null;
  }, [line, text]);
  const go = () => {
    const found = find();
    if (found !== null && place.current !== null) {
      goToCellLine(found, getComputedStyle(place.current).getPropertyValue("--tp-selected"));
    }
  };
  return (
    <span class="tp-line-number" ref={place}>
      {isLink.value ? (
        <Button class="tp-link" title="Go to this line in the cell" onClick={go}>
          {line}
        </Button>
      ) : (
        line
      )}
    </span>
  );
}

interface LineProps {
  readonly code: CodeWithFirst;
  readonly row: number;
  readonly head: string;
}

function LineRow({ code, row, head }: LineProps) {
  const { report, view, frame, column, changes, named, first } = code;
  const line = numberAt(frame, "line", row);
  const spot = spotOf(code, row);
  const note = view.note === null ? "" : stringAt(frame, view.note, row);
  const number = numberAt(frame, column.header.name, row) ? column.text(row) : "";
  // A line without work and without a text is an empty one.
  const text = stringAt(frame, "source", row) || (number === "" ? "" : spot);
  const value = <Digits text={number} decimals={column.decimals} />;
  const isPlaced = (view.sort_by !== null || isFunction(frame, row)) && text !== spot;
  const hue = hueColumn(view, "");
  const bar = { report, view, frame, column, row, hue, value, isQuiet: number === "" };
  const isDim = number === "" || column.rest[row] === 1;
  const looks = `${isDim ? " tp-quiet" : ""}${row === named ? " tp-line-named" : ""}`;
  return (
    <>
      {head !== "" && <li class="tp-lines-file">{head}</li>}
      <li>
        <div class={`tp-line${looks}`}>
          <LineNumber line={Number.isNaN(line) || isPlaced ? null : line} text={text} />
          <Button
            class="tp-line-text"
            title={[text || spot, isPlaced ? spot : "", note].filter(Boolean).join(" ")}
            onClick={() => revealIn(report.store, view, spot)}
          >
            <bdi class="tp-code tp-verbatim">{text}</bdi>
            {isPlaced && !Number.isNaN(line) && (
              <span class="tp-line-place">
                <Path path={stringAt(frame, "file", row)} />:{line}
              </span>
            )}
            {note !== "" && <span class="tp-line-note">{note}</span>}
          </Button>
          <BarCell {...bar} />
        </div>
        {changes.has(row) && (
          <ol>
            {changes.get(row)?.map((change) => (
              <Change
                key={change.number}
                report={report}
                {...change}
                isFirst={first.includes(change)}
              />
            ))}
          </ol>
        )}
      </li>
    </>
  );
}

interface RestProps {
  readonly code: Code;
  readonly item: Extract<CodeItem, { readonly kind: "rest" }>;
}

/** How many lines are left out, and how much they take. */
function RestRow({ code, item: { row, count, ratio } }: RestProps) {
  const noun = isFunction(code.frame, row) ? "function" : "line";
  const share = ratio > 0 ? `, ${SHARES.format(ratio)} %` : "";
  return (
    <li class="tp-line tp-quiet">
      <span class="tp-line-number" />
      <Button
        class="tp-line-text"
        onClick={() => revealIn(code.report.store, code.view, spotOf(code, row))}
      >
        {`… ${plural(count, noun)}${share}`}
      </Button>
    </li>
  );
}
