/** Reports on the page of a test, which are removed after it. */

import { onTestFinished } from "vitest";
import { type Mounted, mount, settle } from "./report";

/** Shows a report and waits until it is there. */
export async function show(...hosts: Parameters<typeof mount>): Promise<Mounted> {
  // Files of tests share their modules: a hook of this one would be run in the first of them alone.
  onTestFinished(() => document.body.replaceChildren());
  const report = mount(...hosts);
  onTestFinished(report.unmount);
  await settle();
  return report;
}
