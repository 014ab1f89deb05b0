/** The module that anywidget loads for each report. It finds the page that all reports share, and shows one with it. */

import { type LinkedHost, type SharedPage, sharedPageOf } from "../../js/src/wire/shared-page";

interface RenderProps {
  readonly model: LinkedHost;
  readonly el: HTMLElement;
}

/** May be called many times for one model; each call gets its own view and its own cleanup. */
async function render({ model, el }: RenderProps): Promise<() => void> {
  let page: SharedPage;
  try {
    page = await sharedPageOf(model);
  } catch (error) {
    const message = document.createElement("pre");
    message.textContent = `The live view could not be loaded (${error}). Run the cell again.`;
    el.append(message);
    return () => message.remove();
  }
  page.dress(el);
  return page.render({ model, el });
}

export default { render };
