/** What each rank waits in the collectives with the most waiting, as a table of shades; the last to come is marked. */

import { cssColor, mix, parseColor, type Rgb, textOn } from "../../base/color";
import { columnFormat, formatNs } from "../../base/format";
import { phaseColor, type Theme } from "../../base/palette";
import { type Frame, numberAt, rowsOf, stringAt } from "../../wire/frame";
import type { ReportContext } from "../common/context";

interface WaitsProps {
  readonly report: ReportContext;
  /** The view that has the rows. */
  readonly name: string;
  /** The ranks that are shown, in their order. */
  readonly ranks: readonly number[];
}

// The palest shade of a wait, so that it differs from a cell without one.
const LEAST_SHADE = 0.12;

export function Waits({ report, name, ranks }: WaitsProps) {
  const view = report.source.header.views.find((each) => each.name === name);
  if (view?.shape !== "table") return null;
  const state = report.source.frame(view).value;
  if (state.kind !== "ready") return null;
  const { frame } = state;
  const cells = read(frame);
  const { numbers, names } = cells;
  const most = Math.max(...rowsOf(frame).map((row) => numberAt(frame, "wait_ns", row)));
  const look = { most, theme: report.look.value.theme, ...columnFormat("ns", most) };
  return (
    <section class="tp-waits" aria-label="Waiting in each collective">
      <h3 class="tp-waits-title">
        Waiting in each collective, {look.suffix}
        <span>how much longer than on the fastest rank</span>
      </h3>
      <div class="tp-waits-scroll">
        <table>
          <thead>
            <tr>
              <td />
              {numbers.map((number) => (
                <th key={number} scope="col" title={`${names.get(number)} ${number}`}>
                  <code>{names.get(number)}</code> {number}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {ranks.map((rank) => (
              <tr key={rank}>
                <th scope="row">rank {rank}</th>
                {numbers.map((number) => (
                  <Wait key={number} frame={frame} cells={cells} of={[rank, number]} look={look} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface WaitProps {
  readonly frame: Frame;
  readonly cells: Cells;
  /** The rank, and the number of the collective. */
  readonly of: readonly [number, number];
  readonly look: {
    /** The longest wait, which has the full color. */
    readonly most: number;
    readonly theme: Theme;
    format(ns: number): string;
  };
}

/** What one rank waits in one collective. */
function Wait({ frame, cells, of: [rank, number], look }: WaitProps) {
  const row = cells.at.get(`${rank} ${number}`);
  if (row === undefined) return <td />;
  if (numberAt(frame, "is_last", row) === 1) {
    return (
      <td>
        <span class="tp-wait tp-wait-last">last</span>
      </td>
    );
  }
  const wait = numberAt(frame, "wait_ns", row);
  const fill = shadeOf(wait / look.most, look.theme);
  return (
    <td title={`rank ${rank} waits ${formatNs(wait)} in ${cells.names.get(number)} ${number}`}>
      <span class="tp-wait" style={{ background: cssColor(fill), color: cssColor(textOn(fill)) }}>
        {look.format(wait)}
      </span>
    </td>
  );
}

function shadeOf(ratio: number, theme: Theme): Rgb {
  const ground = parseColor(theme === "dark" ? "#15171b" : "#ffffff") ?? [255, 255, 255];
  const full = parseColor(phaseColor("communication", theme)) ?? ground;
  return mix(ground, full, LEAST_SHADE + (1 - LEAST_SHADE) * Math.sqrt(ratio));
}

interface Cells {
  readonly numbers: readonly number[];
  readonly names: ReadonlyMap<number, string>;
  /** The row of a rank and a collective. */
  readonly at: ReadonlyMap<string, number>;
}

function read(frame: Frame): Cells {
  const names = new Map<number, string>();
  const at = new Map<string, number>();
  for (const row of rowsOf(frame)) {
    const number = numberAt(frame, "number", row);
    names.set(number, stringAt(frame, "name", row));
    at.set(`${numberAt(frame, "rank", row)} ${number}`, row);
  }
  return { numbers: [...names.keys()], names, at };
}
