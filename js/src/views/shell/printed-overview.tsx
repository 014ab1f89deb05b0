/** On paper: the overview before the open view, which then has its title over it. */

import { type ReportContext, shownView } from "../common/context";
import { FactsView } from "../overview/overview";

export function PrintedOverview({ report }: { readonly report: ReportContext }) {
  const view = report.source.header.views.find(({ shape }) => shape === "facts");
  return (
    <>
      {view?.shape === "facts" && <FactsView report={report} view={view} />}
      <h2 class="tp-print-title">{shownView(report)?.title}</h2>
    </>
  );
}
