/** Asks the kernel for the runs that a report can be compared with. */

import { type Result, success } from "../base/result";
import { type Checked, checked, listOf, record, text } from "./check";
import type { Host } from "./host";
import { type RequestOptions, request } from "./request";

const runs = record({
  runs: listOf(record({ key: text, title: text, aside: text, group: text })),
});

export type OtherRun = Checked<typeof runs>["runs"][number];

export function askOtherRuns(
  host: Host,
  options: RequestOptions,
): Promise<Result<readonly OtherRun[]>> {
  const read = (message: Readonly<Record<string, unknown>>) => {
    if (message.kind !== "runs") return null;
    const found = checked(runs, message);
    return found.ok ? success(found.value.runs) : found;
  };
  return request(host, { kind: "runs" }, read, options);
}
