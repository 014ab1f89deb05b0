/** The module that anywidget loads: one report in one cell output. */

import { mountReport } from "../../js/src/views/shell/report";
import type { RenderProps } from "./model";
import "../../js/src/views/report.css";

/** May be called many times for one model; each call gets its own view and its own cleanup. */
function render({ model, el }: RenderProps): () => void {
  return mountReport(model, el);
}

// A saved HTML file has this module as its own script, which cannot import it; so it leaves a function to be called.
const showSaved: unknown = Reflect.get(globalThis, Symbol.for("torchprof-magic.show-saved"));
if (typeof showSaved === "function") showSaved(render);

export default { render };
