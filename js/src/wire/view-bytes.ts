/** The bytes of a view that are not in the container: a kernel sends them, or a saved file keeps them apart. */

import { failure, messageOf, type Result, success } from "../base/result";
import type { Host } from "./host";
import { pull } from "./pull";
import type { RequestOptions } from "./request";

export async function bytesOfView(
  host: Host,
  name: string,
  options: RequestOptions,
): Promise<Result<Uint8Array>> {
  if (host.readSaved === undefined) return pull(host, name, options);
  try {
    return success(new Uint8Array(await host.readSaved(name)));
  } catch (error) {
    return failure(`The data of this view cannot be read: ${messageOf(error)}`);
  }
}
