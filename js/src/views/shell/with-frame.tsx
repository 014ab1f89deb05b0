/** Waits for the columns of a view, or shows why they cannot be loaded. */

import type { ComponentChild } from "preact";
import type { Frame } from "../../wire/frame";
import type { FramedHeader } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { focusable } from "../common/focusable";
import { Sentence } from "../common/parts";

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
      return <Sentence>Loading…</Sentence>;
    case "failed":
      return <Failure message={state.message} onRetry={retry} />;
    case "ready":
      return <>{children(state.frame)}</>;
  }
}

function Failure({
  message,
  onRetry,
}: {
  readonly message: string;
  readonly onRetry: (() => void) | null;
}) {
  return (
    <Sentence>
      <p role="alert">{message}</p>
      {onRetry !== null && (
        <button type="button" class="tp-button" onClick={onRetry} {...focusable()}>
          Retry
        </button>
      )}
    </Sentence>
  );
}
