/** Chooses the component that shows a view, by its shape. */

import { assertNever } from "../../base/assert";
import type { ViewHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { FlameView } from "../flame/flame";
import { ProblemsView } from "../notes/notes";
import { FactsView } from "../overview/overview";
import { SeriesView } from "../series/series";
import { TableView } from "../table/grid";
import { WithFrame } from "./with-frame";

interface ViewProps {
  readonly report: ReportContext;
  readonly view: ViewHeader;
}

/** A view that has something to show. */
export function View({ report, view }: ViewProps) {
  switch (view.shape) {
    case "facts":
      return <FactsView report={report} view={view} />;
    case "problems":
      return <ProblemsView view={view} />;
    case "table":
      return (
        <WithFrame report={report} view={view}>
          {(frame) => <TableView report={report} view={view} frame={frame} />}
        </WithFrame>
      );
    case "tree":
      return (
        <WithFrame report={report} view={view}>
          {(frame) => <FlameView report={report} view={view} frame={frame} />}
        </WithFrame>
      );
    case "series":
      return (
        <WithFrame report={report} view={view}>
          {(frame) => <SeriesView report={report} view={view} frame={frame} />}
        </WithFrame>
      );
    default:
      return assertNever(view);
  }
}
