/** The page that Python made of one small report; see `tests/golden`. */

import data from "../../tests/golden/data.bin?inline";
import header from "../../tests/golden/header.json?raw";
import { FakeHost } from "./report";

/** A host that holds the golden page. */
export function goldenHost(changes: object = {}): FakeHost {
  const base64 = data.slice(data.indexOf(",") + 1);
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const host = new FakeHost();
  host.traits.set("_header", JSON.stringify({ ...JSON.parse(header), ...changes }));
  host.traits.set("_data", new DataView(bytes.buffer));
  return host;
}
