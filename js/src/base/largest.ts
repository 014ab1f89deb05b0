/** The largest of many, without sorting them all. */

/** At most `most` of `items`, the largest first; equal ones in the order given. */
export function largestOf(
  items: Iterable<number>,
  most: number,
  sizeOf: (item: number) => number,
): number[] {
  const kept: { readonly item: number; readonly size: number }[] = [];
  for (const item of items) {
    const size = sizeOf(item);
    if (kept.length === most && size <= (kept[most - 1]?.size ?? 0)) continue;
    let at = kept.length;
    while (at > 0 && (kept[at - 1]?.size ?? 0) < size) at -= 1;
    kept.splice(at, 0, { item, size });
    if (kept.length > most) kept.pop();
  }
  return kept.map(({ item }) => item);
}
