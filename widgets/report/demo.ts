/** The report on a plain page: `?view=flame&width=700&theme=dark&steps=5&ops=100000&layers=4600`. */

import type { HostListener } from "../../js/src/wire/host";
import { demoReport } from "./demo-data";
import report from "./index";

const wanted = new URLSearchParams(location.search);
const numberOf = (name: string, otherwise: number) => Number(wanted.get(name) ?? otherwise);

document.body.classList.toggle("dark", wanted.get("theme") === "dark");
const { header, data } = demoReport(
  numberOf("ops", 89),
  numberOf("steps", 3),
  numberOf("layers", 46),
);
const traits = new Map<string, unknown>([
  ["_header", JSON.stringify(header)],
  ["_data", data],
]);
const listeners = new Map<HostListener, string>();

/** A model with a kernel that answers every question with an error, after a while. */
const model = {
  get: (trait: string) => traits.get(trait),
  on: (event: string, listener: HostListener) => listeners.set(listener, event),
  off: (_event: string, listener: HostListener) => listeners.delete(listener),
  send: (content: unknown) => {
    const { id } = content as { readonly id: string };
    const message = "The kernel no longer has the data of this run. Run the cell again.";
    const answer = () => {
      for (const [listener, event] of listeners) {
        if (event === "msg:custom") listener({ kind: "error", id, message }, []);
      }
    };
    setTimeout(answer, numberOf("delay", 300));
  },
};

const element = document.getElementById("report");
if (element !== null) {
  const width = wanted.get("width");
  if (width !== null) element.style.width = `${width}px`;
  report.render({ model, el: element });
  const tab = wanted.get("view");
  if (tab !== null)
    element.querySelector<HTMLElement>(`[data-tp-tab="${CSS.escape(tab)}"]`)?.click();
}
