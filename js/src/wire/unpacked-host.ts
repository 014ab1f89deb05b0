/** A model of a report as the report sees it: with its data unpacked, which a notebook holds packed. */

import { type Host, type HostListener, listenToHost } from "./host";
import { unpacked } from "./unpack";

const CHANGES: readonly string[] = ["change:_header", "change:_data"];

/** Header and data of the same moment. */
interface Snapshot {
  readonly header: unknown;
  readonly packed: unknown;
  readonly data: DataView;
}

/**
 * Returns the model with its data unpacked, until `signal`. Header and data change together, and tell all who listen to
 * either: both are as they were until the new data is unpacked.
 */
export async function unpackedHost(host: Host, signal: AbortSignal): Promise<Host> {
  let listeners: readonly HostListener[] = [];
  let current = await snapshotOf(host);
  let changes = 0;
  const follow = async () => {
    changes += 1;
    const change = changes;
    await Promise.resolve(); // until the other trait has changed too
    if (change !== changes) return;
    const next = await snapshotOf(host);
    if (change !== changes || signal.aborted) return;
    current = next;
    for (const listener of listeners) listener();
  };
  for (const event of CHANGES) listenToHost(host, event, () => void follow(), signal);
  if (host.get("_header") !== current.header || host.get("_data") !== current.packed)
    await follow();
  return {
    ...(host.send && { send: (content: unknown) => host.send?.(content) }),
    get: (trait) => {
      if (trait === "_header") return current.header;
      return trait === "_data" ? current.data : host.get(trait);
    },
    on: (event, listener) => {
      if (CHANGES.includes(event)) listeners = [...listeners, listener];
      else host.on(event, listener);
    },
    off: (event, listener) => {
      if (CHANGES.includes(event)) listeners = listeners.filter((one) => one !== listener);
      else host.off(event, listener);
    },
  };
}

/** Data that is damaged is as good as none, which the report says. */
async function snapshotOf(host: Host): Promise<Snapshot> {
  const packed = host.get("_data");
  const header = host.get("_header");
  const data = await unpacked(packed as BlobPart)
    .then((answer) => answer.arrayBuffer())
    .catch(() => new ArrayBuffer(0));
  return { header, packed, data: new DataView(data) };
}
