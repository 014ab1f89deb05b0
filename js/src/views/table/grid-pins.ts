/** Columns that stay in sight beside the names while the table is scrolled sideways. */

interface Placed {
  readonly name: string;
  readonly isLead: boolean;
  /** Its width where the table is scrolled. */
  readonly px: number;
}

/** Returns columns with the pinned ones directly after the names, in the order in which they were pinned. */
export function withPinsFirst<C>(
  columns: readonly C[],
  pins: readonly string[],
  describe: (column: C) => Pick<Placed, "name" | "isLead">,
): readonly C[] {
  if (pins.length === 0) return columns;
  const named = (name: string) => columns.filter((column) => describe(column).name === name);
  const pinned = pins.flatMap(named);
  const rest = columns.filter((column) => !pinned.includes(column));
  const names = rest.findIndex((column) => describe(column).isLead) + 1;
  return [...rest.slice(0, names), ...pinned, ...rest.slice(names)];
}

/** Returns how far from the left edge each pinned column stays. */
export function pinnedLefts(
  columns: readonly Placed[],
  pins: readonly string[],
): ReadonlyMap<string, number> {
  const lefts = new Map<string, number>();
  let left = columns.find(({ isLead }) => isLead)?.px ?? 0;
  for (const { name, px } of columns) {
    if (!pins.includes(name)) continue;
    lefts.set(name, left);
    left += px;
  }
  return lefts;
}
