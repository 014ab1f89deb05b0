/** Waits for the columns of a view, or shows why they cannot be loaded. */

import type { ComponentChild } from "preact";
import type { LateView } from "../../state/python-sync";
import type { Frame } from "../../wire/frame";
import type { FramedHeader, ViewHeader, WaitingHeader } from "../../wire/header";
import { Button } from "../common/button";
import { groupingsOf, type ReportContext } from "../common/context";
import { Groupings } from "../common/groupings";
import { Sentence, Tools } from "../common/parts";

interface WithFrameProps {
  readonly report: ReportContext;
  readonly view: FramedHeader;
  readonly children: (frame: Frame) => ComponentChild;
}

export function WithFrame({ report, view, children }: WithFrameProps) {
  const state = report.source.frame(view).value;
  // A saved file has no kernel to ask again.
  const retry = report.source.canAnswer ? () => report.source.retry(view) : null;
  switch (state.kind) {
    case "empty":
      return <Sentence>{state.sentence}</Sentence>;
    case "loading":
      return <Waiting report={report} view={view} />;
    case "failed":
      return <Waiting report={report} view={view} message={state.message} onRetry={retry} />;
    case "ready":
      return <>{children(state.frame)}</>;
  }
}

interface WithLateProps {
  readonly report: ReportContext;
  readonly view: WaitingHeader;
  readonly children: (late: LateView) => ComponentChild;
}

/** Waits for a view that is built on request. */
export function WithLate({ report, view, children }: WithLateProps) {
  const state = report.source.late(view).value;
  switch (state.kind) {
    case "loading":
      return <Waiting report={report} view={view} />;
    case "failed":
      return (
        <Waiting
          report={report}
          view={view}
          message={state.message}
          onRetry={() => report.source.retryLate(view)}
        />
      );
    case "ready":
      return state.late.view.empty === null ? (
        children(state.late)
      ) : (
        <Waiting report={report} view={view} message={state.late.view.empty} />
      );
  }
}

interface WaitingProps {
  readonly report: ReportContext;
  readonly view: ViewHeader;
  /** Why there is nothing to see yet; without it, it is loading. */
  readonly message?: string;
  readonly onRetry?: (() => void) | null;
}

/** In place of a view: that it is loading, or why it cannot be loaded, and the way back to another grouping. */
export function Waiting({ report, view, message, onRetry = null }: WaitingProps) {
  return (
    <div class="tp-view">
      {groupingsOf(report, view.tab).length > 1 && (
        <Tools>
          <Groupings report={report} view={view} />
        </Tools>
      )}
      <Sentence>
        {message === undefined ? (
          <p class="tp-loading" role="status">
            Loading…
          </p>
        ) : (
          <p role="alert">{message}</p>
        )}
        {onRetry !== null && (
          <Button class="tp-button" onClick={onRetry}>
            Retry
          </Button>
        )}
      </Sentence>
    </div>
  );
}
