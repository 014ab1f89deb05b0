/** Chooses the component that shows a view, by its shape. */

import { assertNever } from "../../base/assert";
import type { LateView } from "../../state/python-sync";
import type { Frame } from "../../wire/frame";
import type { LateHeader, ViewHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { FlameView } from "../flame/flame";
import { ProblemsView } from "../notes/notes";
import { FactsView } from "../overview/overview";
import { RanksView } from "../ranks/ranks";
import { RooflineView } from "../roofline/roofline";
import { SeriesView } from "../series/series";
import { TableView } from "../table/grid";
import { canCountRange, RangeTable } from "../table/range-table";
import { TimelineView } from "../timeline/timeline";
import { InRange } from "./in-range";
import { WithFrame, WithLate } from "./with-frame";

const NO_FRAME: Frame = { rows: 0, columns: new Map() };

interface ViewProps {
  readonly report: ReportContext;
  readonly view: ViewHeader;
}

/** A view that has something to show. */
export function View({ report, view }: ViewProps) {
  switch (view.shape) {
    case "facts":
      return inRange(report, { view, frame: NO_FRAME });
    case "problems":
      return <ProblemsView view={view} />;
    case "waiting":
      return (
        <WithLate report={report} view={view}>
          {(late) => inRange(report, late)}
        </WithLate>
      );
    default:
      return (
        <WithFrame report={report} view={view}>
          {(frame) => inRange(report, { view, frame })}
        </WithFrame>
      );
  }
}

function inRange(report: ReportContext, whole: LateView) {
  return (
    <InRange report={report} whole={whole}>
      {(shown) => framedView(shown.view, { report, frame: shown.frame })}
    </InRange>
  );
}

interface Rest {
  readonly report: ReportContext;
  readonly frame: Frame;
}

function framedView(view: LateHeader, rest: Rest) {
  switch (view.shape) {
    case "facts":
      return <FactsView report={rest.report} view={view} />;
    case "table": {
      if (view.ranks !== null) return <RanksView view={view} bars={view.ranks} {...rest} />;
      if (view.points !== null) return <RooflineView view={view} points={view.points} {...rest} />;
      const range = rest.report.store.range.value;
      return range !== null && canCountRange(rest.report, view) ? (
        <RangeTable view={view} range={range} {...rest} />
      ) : (
        <TableView view={view} {...rest} />
      );
    }
    case "tree":
      return <FlameView view={view} {...rest} />;
    case "slices":
      return <TimelineView view={view} {...rest} />;
    case "series":
      return <SeriesView view={view} {...rest} />;
    default:
      return assertNever(view);
  }
}
