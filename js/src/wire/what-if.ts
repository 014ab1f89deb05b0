/** Asks the kernel what a step would take if something were faster. */

import { type Result, success } from "../base/result";
import { checked, record, text } from "./check";
import type { Host } from "./host";
import { type RequestOptions, request } from "./request";

const answer = record({ text });

/** A name, or the start and the end of a range, in ns. */
export type Asked = string | readonly [number, number];

export function askWhatIf(
  host: Host,
  name: Asked,
  options: RequestOptions,
): Promise<Result<string>> {
  const read = (message: Readonly<Record<string, unknown>>) => {
    if (message.kind !== "what_if") return null;
    const found = checked(answer, message);
    return found.ok ? success(found.value.text) : found;
  };
  const asked = typeof name === "string" ? { name } : { start_ns: name[0], end_ns: name[1] };
  return request(host, { kind: "what_if", ...asked }, read, options);
}
