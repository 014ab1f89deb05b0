/** The model that anywidget hands to the page. It holds the traits `_header` and `_data`. */

import type { Host } from "../../js/src/wire/host";

/** What anywidget hands to `render`. In a saved HTML file the page makes a stand-in without `send`. */
export interface RenderProps {
  readonly model: Host;
  readonly el: HTMLElement;
}
