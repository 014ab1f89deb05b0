/** What a report says about itself before any data is decoded. */

import type { Unit } from "../base/format";
import { failure, messageOf, type Result, success } from "../base/result";

export type Shape = "table" | "tree" | "series";

export interface Span {
  readonly text: string;
  readonly style: "" | "strong" | "code";
}

export interface ColumnHeader {
  readonly name: string;
  readonly title: string;
  readonly unit: Unit;
  readonly definition: string;
  /** Leaves first when there is little room. */
  readonly minor: boolean;
  /** Has a soft bar behind its numbers. */
  readonly bar: boolean;
}

/** One meaning of a box's width: its columns are `self_<name>` and `total_<name>`. */
export interface WeightHeader {
  readonly name: string;
  readonly title: string;
  readonly unit: Unit;
}

export interface BandHeader {
  readonly name: string;
  readonly title: string;
}

export interface MarkHeader {
  readonly lane: string;
  readonly time_ns: number;
  readonly label: string;
  readonly kind: "peak" | "step";
}

export interface ViewHeader {
  readonly name: string;
  readonly title: string;
  readonly shape: Shape;
  readonly count: number | null;
  /** The sentence to show instead of data. */
  readonly empty: string | null;
  /** First byte in the container; -1 when the view must be pulled. */
  readonly offset: number;
  readonly length: number;
  readonly rows: number;
  readonly columns: readonly ColumnHeader[];
  readonly sort: string | null;
  readonly weights: readonly WeightHeader[];
  readonly bands: readonly BandHeader[];
  readonly marks: readonly MarkHeader[];
}

export interface ExportHeader {
  readonly name: string;
  readonly title: string;
  readonly filename: string;
  readonly mime: string;
}

export interface ReportHeader {
  readonly version: 1;
  readonly runId: string;
  readonly title: string;
  readonly subtitle: string;
  readonly code: string;
  readonly machine: string;
  readonly notice: string;
  readonly verdict: { readonly title: string; readonly text: readonly Span[] };
  readonly views: readonly ViewHeader[];
  readonly exports: readonly ExportHeader[];
}

const VERSION = 1;

/** The header of a report, or a sentence why it cannot be read. */
export function parseHeader(text: unknown): Result<ReportHeader> {
  if (typeof text !== "string" || text === "") return failure("The report has no header.");
  try {
    return checkHeader(JSON.parse(text));
  } catch (error) {
    return failure(`The report's header cannot be read: ${messageOf(error)}`);
  }
}

function checkHeader(value: unknown): Result<ReportHeader> {
  if (typeof value !== "object" || value === null) return failure("The report's header is empty.");
  const header = value as Partial<ReportHeader>;
  if (header.version !== VERSION) {
    return failure(
      `This report has format ${String(header.version)}, the page reads format ${VERSION}. Restart the kernel and reload the page.`,
    );
  }
  if (!Array.isArray(header.views)) return failure("The report's header lists no views.");
  return success(withDefaults(header));
}

/** Lists that a sender left out are empty, so that no reader has to ask. */
function withDefaults(header: Partial<ReportHeader>): ReportHeader {
  return {
    version: VERSION,
    runId: header.runId ?? "",
    title: header.title ?? "",
    subtitle: header.subtitle ?? "",
    code: header.code ?? "",
    machine: header.machine ?? "",
    notice: header.notice ?? "",
    verdict: { title: header.verdict?.title ?? "", text: header.verdict?.text ?? [] },
    views: (header.views ?? []).map(viewWithDefaults),
    exports: header.exports ?? [],
  };
}

function viewWithDefaults(view: Partial<ViewHeader>): ViewHeader {
  return {
    name: view.name ?? "",
    title: view.title ?? view.name ?? "",
    shape: view.shape ?? "table",
    count: view.count ?? null,
    empty: view.empty ?? null,
    offset: view.offset ?? -1,
    length: view.length ?? 0,
    rows: view.rows ?? 0,
    columns: view.columns ?? [],
    sort: view.sort ?? null,
    weights: view.weights ?? [],
    bands: view.bands ?? [],
    marks: view.marks ?? [],
  };
}
