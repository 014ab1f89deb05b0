/** Reports on the page of a test, which are removed after it. */

import { afterEach } from "vitest";
import { type Mounted, mount, settle } from "./report";

const mounted: Mounted[] = [];

/** Shows a report and waits until it is there. */
export async function show(...hosts: Parameters<typeof mount>): Promise<Mounted> {
  const report = mount(...hosts);
  mounted.push(report);
  await settle();
  return report;
}

afterEach(() => {
  for (const report of mounted.splice(0)) report.unmount();
  document.body.replaceChildren();
});
