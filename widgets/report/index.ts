/** The page: one report in one cell output, or in a file. */

import { mountReport } from "../../js/src/views/shell/report";
import { isSaved } from "../../js/src/wire/host";
import { unpackedHost } from "../../js/src/wire/unpacked-host";
import type { RenderProps } from "./model";
import "../../js/src/views/report.css";

/** May be called many times for one model; each call gets its own view and its own cleanup. */
async function render({ model, el }: RenderProps): Promise<() => void> {
  if (isSaved(model)) return mountReport(model, el);
  const abort = new AbortController();
  const remove = mountReport(await unpackedHost(model, abort.signal), el);
  return () => {
    remove();
    abort.abort();
  };
}

// A saved HTML file has this module as its own script, which cannot import it; so it leaves a function to be called.
const showSaved: unknown = Reflect.get(globalThis, Symbol.for("torchprof-magic.show-saved"));
if (typeof showSaved === "function") showSaved(render);

export default { render };
