/** A table of what a canvas shows, for screen readers. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

// A table is made when nothing has moved for this long: nobody hears one that is gone at once.
const REST_MS = 400;
/** More rows are no help to a listener; zooming in shows the others. */
export const MOST_SPOKEN = 100;

/** The id of the table that belongs to the canvas of a view. */
export function tableId(report: string, view: string): string {
  // Names of views are free text, ids are not.
  return `${report}-table-${view.replace(/\W/g, "_")}`;
}

export interface SpokenRows {
  readonly rows: readonly (readonly string[])[];
  /** How many there are in all. */
  readonly count: number;
}

interface SpokenTableProps {
  readonly id: string;
  readonly caption: string;
  readonly head: readonly string[];
  readonly make: () => SpokenRows;
  /** The table is made again after one of these changed. */
  readonly when: readonly unknown[];
}

/** A table with the id that the canvas names in `aria-details`. */
export function SpokenTable({ id, caption, head, make, when }: SpokenTableProps) {
  const made = useSignal<SpokenRows>({ rows: [], count: 0 });
  useEffect(() => {
    const timer = setTimeout(() => {
      made.value = make();
    }, REST_MS);
    return () => clearTimeout(timer);
  }, when);
  const { rows, count } = made.value;
  return (
    <div class="tp-spoken" id={id}>
      <table>
        <caption>
          {caption}
          {count > rows.length ? `, the ${rows.length} largest of ${count}` : ""}
        </caption>
        <thead>
          <tr>
            {head.map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, row) => (
            <tr key={`${row}`}>
              {cells.map((cell, column) => (
                <td key={head[column]}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
