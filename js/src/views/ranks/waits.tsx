/** What each rank waits in the collectives with the most waiting, as a table of shades; the last to come is marked. */

import { cssColor, mix, parseColor, textOn } from "../../base/color";
import { columnFormat, formatNs } from "../../base/format";
import { phaseColor } from "../../base/palette";
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
  const { theme } = report.look.value;
  const { numbers, names, at } = read(frame);
  const most = Math.max(...rowsOf(frame).map((row) => numberAt(frame, "wait_ns", row)));
  const look = columnFormat("ns", most);
  const ground = parseColor(theme === "dark" ? "#15171b" : "#ffffff") ?? [255, 255, 255];
  const full = parseColor(phaseColor("communication", theme)) ?? ground;
  const cell = (rank: number, number: number) => {
    const row = at.get(`${rank} ${number}`);
    if (row === undefined) return <td key={number} />;
    if (numberAt(frame, "is_last", row) === 1) {
      return (
        <td key={number}>
          <span class="tp-wait tp-wait-last">last</span>
        </td>
      );
    }
    const wait = numberAt(frame, "wait_ns", row);
    const fill = mix(ground, full, LEAST_SHADE + (1 - LEAST_SHADE) * Math.sqrt(wait / most));
    return (
      <td
        key={number}
        title={`rank ${rank} waits ${formatNs(wait)} in ${names.get(number)} ${number}`}
      >
        <span class="tp-wait" style={{ background: cssColor(fill), color: cssColor(textOn(fill)) }}>
          {look.format(wait)}
        </span>
      </td>
    );
  };
  return (
    <section class="tp-waits" aria-label="Waiting in each collective">
      <h3 class="tp-waits-title">
        Waiting in each collective, {look.suffix}
        <span>its length here less the shortest among the ranks: needs no common clock</span>
      </h3>
      <div class="tp-waits-scroll">
        <table>
          <thead>
            <tr>
              <td />
              {numbers.map((number) => (
                <th key={number} scope="col">
                  <code>{names.get(number)}</code> {number}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {ranks.map((rank) => (
              <tr key={rank}>
                <th scope="row">rank {rank}</th>
                {numbers.map((number) => cell(rank, number))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
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
