/** Reads the header of a report: its metadata besides the bytes of its columns. */

import { failure, messageOf, type Result, success } from "../base/result";
import { number, record } from "./check";
import {
  type FactsHeader,
  type ReportHeader,
  reportHeader,
  type SeriesHeader,
  type SlicesHeader,
  type TableHeader,
  type TreeHeader,
  type ViewHeader,
  view,
} from "./header.generated";

export type {
  BarPart,
  Bars as BarsHeader,
  Card,
  ChangeHeader,
  Column as ColumnHeader,
  DeviceTime,
  ExportHeader,
  Fact,
  FactsHeader,
  HostThread,
  Lane,
  LineChange,
  Mark as MarkHeader,
  Points as PointsHeader,
  Problem,
  ProblemsHeader,
  RankBars as RankBarsHeader,
  ReportHeader,
  Section,
  SeriesHeader,
  Shape,
  SliceLane,
  SlicesHeader,
  SpanHeader as Span,
  TableHeader,
  TreeHeader,
  ViewHeader,
  WaitingHeader,
  Weight as WeightHeader,
} from "./header.generated";

/** A view with columns, embedded or to be pulled. */
export type FramedHeader = TableHeader | TreeHeader | SeriesHeader | SlicesHeader;
/** What can come later, or for a range of time: facts have no columns. */
export type LateHeader = FramedHeader | FactsHeader;

const VERSION: ReportHeader["version"] = 14;

/** The header of a report, or why it cannot be read. */
export function parseHeader(json: unknown): Result<ReportHeader> {
  if (typeof json !== "string" || json === "") return failure("The report has no header.");
  try {
    return checkHeader(JSON.parse(json));
  } catch (error) {
    return failure(`The report's header cannot be read: ${messageOf(error)}`);
  }
}

/** The header of a view that came with its columns; `known` are the fields that the page had already. */
export function parseLateHeader(known: ViewHeader, json: string): LateHeader {
  const late = JSON.parse(json) as object;
  const value = { ...known, ...late, count: known.count, offset: 0, length: 0 };
  const made = view(value, "");
  if (!("offset" in made || made.shape === "facts")) throw new TypeError("the view has no columns");
  return made;
}

function checkHeader(value: unknown): Result<ReportHeader> {
  const { version } = record({ version: number })(value, "");
  if (version !== VERSION) {
    return failure(
      `This report has format ${version}, but the page expects format ${VERSION}. Restart the kernel and reload the page.`,
    );
  }
  return success(reportHeader(value, ""));
}
