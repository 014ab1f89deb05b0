/** Asks the kernel what a step would take if something were faster. */

import { type Result, success } from "../base/result";
import { checked, record, text } from "./check";
import type { Host } from "./host";
import { type RequestOptions, request } from "./request";

const answer = record({ text });

export function askWhatIf(
  host: Host,
  name: string,
  options: RequestOptions,
): Promise<Result<string>> {
  const read = (message: Readonly<Record<string, unknown>>) => {
    if (message.kind !== "what_if") return null;
    const found = checked(answer, message);
    return found.ok ? success(found.value.text) : found;
  };
  return request(host, { kind: "what_if", name }, read, options);
}
