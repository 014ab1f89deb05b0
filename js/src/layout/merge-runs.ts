/** Puts rows of several lanes into one order. */

/** All rows of some runs, each of which is in order of `time`, in that order; of equal ones those of the first run. */
export function mergeRuns(runs: readonly Int32Array[], time: ArrayLike<number>): Int32Array {
  let left: readonly Int32Array[] = runs;
  while (left.length > 1) {
    const pairs: Int32Array[] = [];
    for (let at = 0; at < left.length; at += 2) {
      const [first, second] = [left[at], left[at + 1]];
      if (first !== undefined) pairs.push(second ? merged(first, second, time) : first);
    }
    left = pairs;
  }
  return left[0] ?? new Int32Array(0);
}

function merged(first: Int32Array, second: Int32Array, time: ArrayLike<number>): Int32Array {
  const rows = new Int32Array(first.length + second.length);
  let one = 0;
  let two = 0;
  for (let at = 0; at < rows.length; at += 1) {
    const isFirst =
      two >= second.length ||
      (one < first.length && (time[first[one] ?? 0] ?? 0) <= (time[second[two] ?? 0] ?? 0));
    rows[at] = (isFirst ? first[one] : second[two]) ?? 0;
    if (isFirst) one += 1;
    else two += 1;
  }
  return rows;
}
