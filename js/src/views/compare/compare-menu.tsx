/** Chooses the run that this one is compared with, from those that the kernel knows when the menu opens. */

import { useSignal } from "@preact/signals";
import { Fragment } from "preact";
import { QUIET } from "../../state/status";
import type { OtherRun } from "../../wire/other-runs";
import type { ReportContext } from "../common/context";
import { Menu, MenuItem } from "../common/menu";
import { StatusText } from "../common/status";

export function CompareMenu({ report }: { readonly report: ReportContext }) {
  const { comparing } = report.store;
  return (
    <span class="tp-with-status tp-compare">
      <StatusText
        status={comparing.value}
        onClose={() => {
          comparing.value = QUIET;
        }}
      />
      <Menu label="Compare">{(close) => <Runs report={report} close={close} />}</Menu>
    </span>
  );
}

/** Shows what changed since a run, or with `isSwapped` from this one to it. */
async function compareWith(
  { source, store }: ReportContext,
  run: string,
  isSwapped: boolean,
): Promise<void> {
  if (store.comparing.value.text !== "" && !store.comparing.value.isFailure) return;
  store.comparing.value = { text: "Comparing…", isFailure: false };
  const done = await source.compareWith(run, isSwapped);
  // The new page has a store of its own; this one is left only if it stays.
  store.comparing.value = done.ok ? QUIET : { text: done.message, isFailure: true };
}

/** Exchanges before and after; false where nothing is compared. */
export function swapRuns(report: ReportContext): boolean {
  const { change } = report.source.header;
  if (change === null || !report.source.canCompare) return false;
  void compareWith(report, "", change.runs[0]?.is_shown !== true);
  return true;
}

interface RunsProps {
  readonly report: ReportContext;
  readonly close: () => void;
}

type Asked = { readonly runs: readonly OtherRun[] } | { readonly message: string } | null;

function Runs({ report, close }: RunsProps) {
  const asked = useSignal<Asked>(null);
  const isAsked = useSignal(false);
  if (!isAsked.peek()) {
    isAsked.value = true;
    void report.source.otherRuns().then((found) => {
      asked.value = found.ok ? { runs: found.value } : { message: found.message };
    });
  }
  if (asked.value === null) return <Line text="Asking the kernel…" />;
  if ("message" in asked.value) return <Line text={asked.value.message} />;
  const { runs } = asked.value;
  if (runs.length === 0) {
    return (
      <Line text="No other run is known yet. Run the cell again, or keep runs with --save NAME." />
    );
  }
  return (
    <>
      {runs.map((run, index) => (
        <Fragment key={run.key}>
          {run.group !== runs[index - 1]?.group && <li class="tp-menu-title">{run.group}</li>}
          <MenuItem
            title={run.title}
            aside={run.aside}
            onChoose={() => {
              close();
              void compareWith(report, run.key, false);
            }}
          />
        </Fragment>
      ))}
    </>
  );
}

function Line({ text }: { readonly text: string }) {
  return <li class="tp-menu-title tp-menu-sentence">{text}</li>;
}
