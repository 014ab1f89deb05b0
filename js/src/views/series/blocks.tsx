/** What the memory consists of at a moment, or what stays: as a list, and as areas. */

import { cssColor, parseColor, textOn } from "../../base/color";
import {
  columnFormat,
  formatBytes,
  formatNs,
  formatValue,
  plural,
  unbroken,
} from "../../base/format";
import { CODE_CHAR_PX, shortenAll, shortenName } from "../../base/names";
import { categoryColor, type Theme } from "../../base/palette";
import { BEFORE, type BlockGroup, categoryTitle } from "../../layout/alive";
import { type Tile, tilesOf } from "../../layout/treemap";
import { select } from "../../state/store";
import type { MarkHeader, SeriesHeader } from "../../wire/header";
import { Button } from "../common/button";
import { groupingsOf, type ReportContext } from "../common/context";
import { Segmented } from "../common/parts";
import { useWidth } from "../common/use-width";
import type { Blocks, Leak, Listed, Rise } from "./use-blocks";

const MOST_ROWS = 40;
const MOST_TILES = 24;
const MAP_PX = 132;
const GAP_PX = 2;
const DOT_PX = 16;
// A character of a tile, and the margins of its text.
const TILE_CHAR_PX = 6.9;
const TILE_PAD_PX = 10;
// Smaller tiles have no room for a text.
const LEAST_TEXT_PX = 48;
const LINE_PX = 18;

const LISTED: readonly { readonly name: Listed; readonly title: string }[] = [
  { name: "peak", title: "At the peak" },
  { name: "picked", title: "At the cursor" },
  { name: "grown", title: "Grown" },
];
const HEADS: Record<Listed, string> = {
  peak: "In use at the peak",
  picked: "In use at the cursor",
  grown: "Allocated since the start, and kept",
};

interface BlocksProps {
  readonly report: ReportContext;
  readonly view: SeriesHeader;
  readonly blocks: Blocks;
}

// Who holds most, above the curve.
const MOST_HOLDERS = 2;
const HOLDER_CHARS = 40;
// What is gone is told where it is more than this share of what is new.
const LEAST_GONE = 0.01;
/** Who holds most of what is in use at the listed moment, and how it grows. */
export function Holders({
  report,
  lane,
  marks,
  blocks,
}: {
  readonly report: ReportContext;
  readonly lane: string;
  readonly marks: readonly MarkHeader[];
  readonly blocks: Blocks;
}) {
  const { state, listed, groups, rise } = blocks;
  const isKnown = state === "ready" && groups.length > 0;
  if (!isKnown && state !== "none") return null;
  const peak = marks.find(({ kind }) => kind === "peak")?.label ?? "peak";
  return (
    <div class="tp-answer tp-answers">
      {listed !== "grown" && (
        <>
          <span>{listed === "peak" ? "Holds the peak" : "Holds most"}</span>
          <span>
            {isKnown ? (
              <Most {...{ report, lane, blocks }} />
            ) : (
              `Not known: allocations of ${lane} (${unbroken(peak)}) have no addresses. Record with --memory.`
            )}
          </span>
        </>
      )}
      {rise !== null && (
        <>
          <span>Grows</span>
          <span>
            <Rising rise={rise} blocks={blocks} steps={report.source.header.steps} />
          </span>
        </>
      )}
    </div>
  );
}

/** "1.95 GiB on cuda:0: 48 % x, 21 % y". */
function Most({
  report,
  lane,
  blocks: { total, groups },
}: Pick<BlocksProps, "report" | "blocks"> & { readonly lane: string }) {
  // As in the list.
  const { format } = columnFormat("bytes", groups[0]?.bytes ?? 0);
  const least = format((groups[MOST_HOLDERS - 1] ?? groups[0])?.bytes ?? 0);
  const equals = groups.slice(MOST_HOLDERS).filter(({ bytes }) => format(bytes) === least).length;
  const holders = groups.slice(0, MOST_HOLDERS + Number(equals === 1));
  return (
    <>
      {unbroken(formatBytes(total))} on {lane}:{" "}
      {holders.map(({ category, title, bytes, place, op }, at) => (
        <span key={at} title={place}>
          {at > 0 && ", "}
          <Dot category={category} report={report} />
          <strong>
            <Holder title={title} op={op} />
          </strong>
          {` ${unbroken(formatValue(bytes / total, "ratio"))}`}
        </span>
      ))}
      {equals > 1 && ` and ${equals} others with as much`}
    </>
  );
}

/** How much the memory grows, from what to what, how much of that is new, and who holds most of it. */
function Rising({
  rise: { start, most, end },
  blocks: { grown, leaks },
  steps,
}: Pick<BlocksProps, "blocks"> & { readonly rise: Rise; readonly steps: number }) {
  const span = steps > 1 && ` in ${plural(steps, "step")}`;
  const sizeOf = (bytes: number) => unbroken(formatBytes(bytes));
  if (end <= start) {
    const left = sumOf(leaks);
    if (left > 0)
      return (
        <>
          By <strong>{sizeOf(left)}</strong> with each step{!leaks[0]?.isCertain && ", perhaps"}
        </>
      );
    return (
      <>
        <strong>Nothing</strong>
        {span}
        {most > start && `: all beyond ${sizeOf(start)} is freed by the end`}
      </>
    );
  }
  const made = sumOf(grown);
  const gone = made - end + start;
  const isMoved = gone > LEAST_GONE * made;
  const few = grown.slice(0, (grown[0]?.bytes ?? 0) > made / 2 ? 1 : MOST_HOLDERS);
  return (
    <>
      By <strong>{sizeOf(end - start)}</strong>
      {span}, from {sizeOf(start)} to {sizeOf(end)}
      {isMoved && `: ${sizeOf(made)} is new`}
      {sumOf(few) > made / 2 &&
        few.map((group, at) => (
          <span key={at}>
            {at > 0 ? " and " : ", mostly in "}
            <Holder {...group} />
          </span>
        ))}
      {isMoved && `, and ${sizeOf(gone)} was freed`}
    </>
  );
}

function sumOf(all: readonly Pick<BlockGroup, "bytes">[]): number {
  return all.reduce((sum, { bytes }) => sum + bytes, 0);
}

function Dot({ category, report }: { readonly category: string; readonly report: ReportContext }) {
  const backgroundColor = categoryColor(category, report.look.value.theme);
  return <span class="tp-dot" aria-hidden="true" style={{ backgroundColor }} />;
}

/** The last part of the path of a module says what it is. */
function Holder({ title, op }: Pick<BlockGroup, "title" | "op">) {
  if (op === "") return <>{title}</>;
  return (
    <bdi class="tp-code">
      {shortenName(title.replace(/^(?:[\w*]+\.)+(?=\w)/, ""), HOLDER_CHARS)}
    </bdi>
  );
}

/** The list beside the curve. */
export function BlockList({ report, view, blocks }: BlocksProps) {
  const { listed, picked } = report.store.memory(view);
  if (blocks.state === "none") return null;
  const options = LISTED.filter(({ name }) => name !== "picked" || picked.value !== null);
  return (
    <aside class="tp-blocks" aria-label="Blocks in use" data-tp-listed={blocks.listed}>
      <Segmented
        label="Moment"
        options={options}
        chosen={blocks.listed}
        onChoose={(name) => {
          listed.value = LISTED.find((each) => each.name === name)?.name ?? "peak";
        }}
      />
      <h2>
        {HEADS[blocks.listed]}
        <span>{formatBytes(blocks.total)}</span>
      </h2>
      {blocks.state === "ready" && blocks.groups.length === 0 && (
        <p class="tp-side-hint">Nothing.</p>
      )}
      {blocks.state === "ready" ? (
        blocks.groups.length > 0 && <Rows report={report} blocks={blocks} />
      ) : (
        <p class="tp-side-hint">{blocks.state === "failed" ? blocks.message : "Loading…"}</p>
      )}
      {options.length < LISTED.length && (
        <p class="tp-side-hint">Click the curve to see what is in use then.</p>
      )}
    </aside>
  );
}

function Rows({ report, blocks: { groups, time } }: Pick<BlocksProps, "report" | "blocks">) {
  const { format, suffix } = columnFormat("bytes", groups[0]?.bytes ?? 0);
  const shown = groups.slice(0, MOST_ROWS);
  const rest = groups.slice(MOST_ROWS);
  const { ref, width } = useWidth<HTMLTableCellElement>();
  const room = Math.floor((width - DOT_PX) / CODE_CHAR_PX);
  const titles = shortenAll(
    shown.map(({ title }) => title),
    room,
  );
  const places = shortenAll(
    shown.map(({ place, count }) =>
      count > 1 && place !== "" ? `${plural(count, "block")} · ${place}` : place,
    ),
    room,
  );
  return (
    <>
      <table class="tp-block-table">
        <thead>
          <tr>
            <th scope="col" ref={ref}>
              Tensor, and who made it
            </th>
            <th scope="col">
              {suffix}
              {time !== null && ", age"}
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((group, index) => (
            <Row
              key={index}
              report={report}
              group={group}
              text={[titles[index] ?? "", places[index] ?? ""]}
              format={format}
              time={time}
            />
          ))}
        </tbody>
      </table>
      {rest.length > 0 && (
        <p class="tp-side-hint">
          and {plural(rest.length, "smaller group")}, {formatBytes(sumOf(rest))}
        </p>
      )}
    </>
  );
}

interface RowProps {
  readonly report: ReportContext;
  readonly group: BlockGroup;
  /** Its title and its place, cut to the room of the list. */
  readonly text: readonly [string, string];
  readonly format: (value: number) => string;
  readonly time: number | null;
}

function Row({ report, group, text, format, time }: RowProps) {
  const { title, place, op, category, bytes } = group;
  const [shownTitle, shownPlace] = text;
  const isSelected = op !== "" && report.store.selection.value?.name === op;
  const name = <bdi class="tp-code">{shownTitle}</bdi>;
  return (
    <tr data-tp-category={category} data-tp-bytes={bytes} aria-selected={isSelected}>
      <td title={[categoryTitle(category), title, place].filter((each) => each !== "").join("\n")}>
        <Dot category={category} report={report} />
        {op === "" ? (
          name
        ) : (
          <Button class="tp-link" onClick={() => select(report.store, op, "op")}>
            {name}
          </Button>
        )}
        <span class="tp-block-place">
          <bdi>{shownPlace || (category === "unknown" ? "" : categoryTitle(category))}</bdi>
        </span>
      </td>
      <td>
        {format(bytes)}
        {time !== null && (
          <span class="tp-block-place" title={agesOf(group, time)}>
            {title === BEFORE ? "" : ageOf(group, time)}
          </span>
        )}
      </td>
    </tr>
  );
}

/** The age of the oldest. */
function ageOf({ first }: BlockGroup, time: number): string {
  if (Number.isNaN(first)) return "before";
  return time <= first ? "new" : formatNs(time - first);
}

/** The ages of all, "0.21–3.04 s". */
function agesOf(group: BlockGroup, time: number): string {
  const { first, last } = group;
  if (last === first || !(time > first)) return ageOf(group, time);
  const { format, suffix } = columnFormat("ns", time - first);
  return `${format(time - last)}–${format(time - first)} ${suffix}`;
}

/** What grows, and what the memory consists of as areas, below the curve. */
export function BlockMap({ report, view, blocks }: BlocksProps) {
  if (blocks.state !== "ready") return null;
  return (
    <>
      {blocks.leaks.length > 0 && <Growth report={report} view={view} leaks={blocks.leaks} />}
      <Tiles report={report} groups={tiled(blocks.groups)} />
    </>
  );
}

interface TilesProps {
  readonly report: ReportContext;
  readonly groups: readonly BlockGroup[];
}

/** The list says the same in words. */
function Tiles({ report, groups }: TilesProps) {
  const { ref, width } = useWidth<HTMLDivElement>();
  const { theme } = report.look.value;
  const sizes = groups.map(({ bytes }) => bytes);
  const titles = groups.map(({ title }) => title);
  const { format, suffix } = columnFormat("bytes", Math.max(0, ...sizes));
  return (
    <div class="tp-block-map" ref={ref} style={{ height: `${MAP_PX}px` }} aria-hidden="true">
      {tilesOf(sizes, width, MAP_PX, GAP_PX).map((tile) => {
        const group = groups[tile.index];
        const room = Math.floor((tile.width - TILE_PAD_PX) / TILE_CHAR_PX);
        const text = shortenAll(titles, room)[tile.index] ?? "";
        const size = `${format(group?.bytes ?? 0)} ${suffix}`;
        return group && <TileBox key={tile.index} {...{ tile, group, text, size, theme }} />;
      })}
    </div>
  );
}

interface TileProps {
  readonly tile: Tile;
  readonly group: BlockGroup;
  readonly text: string;
  readonly size: string;
  readonly theme: Theme;
}

function TileBox({ tile: { left, top, width, height }, group, text, size, theme }: TileProps) {
  const { category, title, place } = group;
  const color = categoryColor(category, theme);
  const ink = textOn(parseColor(color) ?? [0, 0, 0]);
  const box = { left, top, width, height };
  const style = Object.fromEntries(Object.entries(box).map(([side, px]) => [side, `${px}px`]));
  return (
    <div
      class="tp-block-tile"
      data-tp-category={category}
      title={[`${categoryTitle(category)}: ${title}`, place, size].join("\n")}
      style={{ ...style, backgroundColor: color, color: cssColor(ink) }}
    >
      {width >= LEAST_TEXT_PX && height >= LINE_PX && <bdi>{text}</bdi>}
      {width >= size.length * TILE_CHAR_PX + TILE_PAD_PX && height >= 2 * LINE_PX && (
        <strong>{size}</strong>
      )}
    </div>
  );
}

/** The largest groups, and the rest as one. */
function tiled(groups: readonly BlockGroup[]): readonly BlockGroup[] {
  const rest = groups.slice(MOST_TILES);
  const bytes = sumOf(rest);
  const largest = groups.slice(0, MOST_TILES);
  const [first] = rest;
  if (first === undefined) return largest;
  const title = plural(rest.length, "smaller group");
  return [...largest, { ...first, category: "unknown", title, place: "", op: "", bytes }];
}

interface GrowthProps {
  readonly report: ReportContext;
  readonly view: SeriesHeader;
  readonly leaks: readonly Leak[];
}

function At({ place }: { readonly place: string }) {
  return (
    place !== "" && (
      <>
        {" at "}
        <bdi class="tp-code">{place}</bdi>
      </>
    )
  );
}

function Growth({ report, view, leaks }: GrowthProps) {
  const [worst] = leaks;
  const holders = groupingsOf(report, view.tab).find(({ name }) => name === "holders");
  if (worst === undefined) return null;
  const verb = worst.isCertain ? "leaves" : "may leave";
  const all = sumOf(leaks);
  const others = leaks.length - 1;
  return (
    <p class="tp-growth">
      <span aria-hidden="true">▲</span>
      <span>
        <strong>
          Each step {verb} {formatBytes(all)} behind.
        </strong>{" "}
        {worst.op === "" ? "A line" : <bdi class="tp-code">{worst.op}</bdi>}
        <At place={worst.where} />
        {` allocates ${others > 0 ? `${formatBytes(worst.bytes)} of it` : "it"}`}
        {worst.keeper !== "" && (
          <>
            {", and "}
            <bdi class="tp-code">{worst.keeper}</bdi>
            {" keeps it"}
            <At place={worst.keptAt} />
          </>
        )}
        {others > 0 ? `; ${plural(others, "other place")} the rest.` : "."}
        {worst.where === "" && " Its line was not recorded: add --lines."}
        {holders !== undefined && (
          <>
            {" "}
            <Button
              class="tp-link"
              onClick={() => {
                report.store.grouping(view).value = holders.name;
              }}
            >
              Who holds it?
            </Button>
          </>
        )}
      </span>
    </p>
  );
}
