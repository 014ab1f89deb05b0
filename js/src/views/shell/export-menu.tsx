/** The export menu: files to save, and the way to Perfetto. How it goes is said beside the button. */

import { useSignal } from "@preact/signals";
import { type Result, success } from "../../base/result";
import type { ReportSource } from "../../state/python-sync";
import { QUIET } from "../../state/status";
import type { ExportHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { downloadBytes } from "../common/download";
import { Menu, MenuItem } from "../common/menu";
import { StatusText } from "../common/status";

export function ExportMenu({ report }: { readonly report: ReportContext }) {
  const status = useSignal(QUIET);
  const run = async (entry: ExportHeader) => {
    status.value = { text: WORKING[entry.kind], isFailure: false };
    const done = await exported(report.source, entry);
    status.value = done.ok ? QUIET : { text: done.message, isFailure: true };
  };
  return (
    <span class="tp-with-status tp-export">
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
