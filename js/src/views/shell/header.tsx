/** The first row of a report: its cell, steps and machine, and the export menu. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { ExportHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { focusable } from "../common/focusable";
import { downloadBytes } from "./download";

export function Header({ report }: { readonly report: ReportContext }) {
  const { title, subtitle, code, machine, exports } = report.source.header;
  return (
    <header class="tp-header">
      <span class="tp-title">{title}</span>
      <span class="tp-subtitle">
        {subtitle}
        {code !== "" && <code>{code}</code>}
      </span>
      <span class="tp-machine" title={machine}>
        {machine}
      </span>
      {exports.length > 0 && report.source.canAnswer && <ExportMenu report={report} />}
    </header>
  );
}

/** A button with the exports that Python offers; closes on Esc and on a click elsewhere. */
function ExportMenu({ report }: { readonly report: ReportContext }) {
  const isOpen = useSignal(false);
  const status = useSignal("");
  const root = useRef<HTMLDivElement>(null);
  useCloseOutside(root, isOpen.value, () => {
    isOpen.value = false;
  });
  const run = async (entry: ExportHeader) => {
    isOpen.value = false;
    status.value = "Exporting…";
    const bytes = await report.source.pullExport(entry.name);
    status.value = bytes.ok ? "" : bytes.message;
    if (bytes.ok) downloadBytes(bytes.value, entry);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") isOpen.value = false;
  };
  return (
    <div class="tp-export" ref={root}>
      <span class="tp-export-status" role="status">
        {status.value}
      </span>
      <button
        type="button"
        class="tp-button"
        aria-haspopup="true"
        aria-expanded={isOpen.value}
        onClick={() => {
          isOpen.value = !isOpen.value;
        }}
        {...focusable(onKey)}
      >
        Export
      </button>
      {isOpen.value && (
        <ul class="tp-menu">
          {report.source.header.exports.map((entry) => (
            <li key={entry.name}>
              <button type="button" onClick={() => void run(entry)} {...focusable(onKey)}>
                {entry.title}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function useCloseOutside(
  root: { readonly current: HTMLElement | null },
  isOpen: boolean,
  close: () => void,
): void {
  useEffect(() => {
    if (!isOpen) return;
    const abort = new AbortController();
    const onPointer = (event: PointerEvent) => {
      if (!event.composedPath().includes(root.current as EventTarget)) close();
    };
    document.addEventListener("pointerdown", onPointer, { signal: abort.signal, capture: true });
    return () => abort.abort();
  }, [isOpen]);
}
