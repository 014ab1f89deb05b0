/** Calls of modules as boxes: neighbors that are too narrow for their names, such as equal layers, are one box. */

export interface ModuleCall {
  readonly start: number;
  readonly end: number;
  readonly name: string;
}

/** Returns boxes of calls in order of time; those narrower than `least` become one with neighbors of the same kind. */
export function moduleBoxes(calls: readonly ModuleCall[], least: number): readonly ModuleCall[] {
  const boxes: ModuleCall[] = [];
  let names = new Set<string>();
  for (const call of calls) {
    const last = boxes.at(-1);
    const kind = kindOf(call.name);
    const isNarrow = call.end - call.start < least;
    if (last !== undefined && isNarrow && kindOf(last.name) === kind && !names.has(call.name)) {
      boxes[boxes.length - 1] = { start: last.start, end: call.end, name: kind };
      names.add(call.name);
    } else {
      boxes.push(call);
      names = new Set([call.name]);
    }
  }
  return boxes;
}

/** "blocks.*" for "blocks.3", "Block_*" for "Block_3". */
function kindOf(name: string): string {
  return name.replaceAll(/(^|[._])(\d+|\*)(?=\.|$)/gu, "$1*");
}
