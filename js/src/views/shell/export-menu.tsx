/** The export menu: files to save, and the way to Perfetto. How it goes is said beside the button. */

import { useSignal } from "@preact/signals";
import { type Result, success } from "../../base/result";
import type { ReportSource } from "../../state/python-sync";
import type { ExportHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { downloadBytes } from "../common/download";
import { focusable } from "../common/focusable";
import { Menu, MenuItem } from "../common/menu";

interface Status {
  readonly text: string;
  readonly isFailure: boolean;
}

const QUIET: Status = { text: "", isFailure: false };

export function ExportMenu({ report }: { readonly report: ReportContext }) {
  const status = useSignal(QUIET);
  const run = async (entry: ExportHeader) => {
    status.value = { text: WORKING[entry.kind], isFailure: false };
    const done = await exported(report.source, entry);
    status.value = done.ok ? QUIET : { text: done.message, isFailure: true };
  };
  return (
    <span class="tp-export">
      <StatusText
        status={status.value}
        onClose={() => {
          status.value = QUIET;
        }}
      />
      <Menu label="Export">
        {(close) =>
          report.source.exports.map((entry) => (
            <MenuItem
              key={entry.name}
              title={entry.title}
              {...(entry.aside !== "" && { aside: entry.aside })}
              onChoose={() => {
                close();
                void run(entry);
              }}
            />
          ))
        }
      </Menu>
    </span>
  );
}

const WORKING: Readonly<Record<ExportHeader["kind"], string>> = {
  save: "Exporting…",
  perfetto: "Opening Perfetto…",
};

async function exported(source: ReportSource, entry: ExportHeader): Promise<Result<null>> {
  if (entry.kind === "perfetto") return source.openInPerfetto(window, entry.name);
  const bytes = await source.pullExport(entry.name);
  if (!bytes.ok) return bytes;
  downloadBytes(bytes.value, entry);
  return success(null);
}

interface StatusProps {
  readonly status: Status;
  readonly onClose: () => void;
}

/** What is being exported, beside the button; why it failed, in full below it, until it is closed. */
function StatusText({ status, onClose }: StatusProps) {
  const { text, isFailure } = status;
  return (
    <span class={isFailure ? "tp-export-failure" : "tp-export-status"}>
      <span role="status">{text}</span>
      {isFailure && (
        <button
          type="button"
          class="tp-button"
          aria-label="Close"
          onClick={onClose}
          {...focusable()}
        >
          ×
        </button>
      )}
    </span>
  );
}
