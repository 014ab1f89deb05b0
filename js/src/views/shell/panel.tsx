/** The panel under the active tab: the view, or a sentence that says why there is none. */

import { Component, type ComponentChildren } from "preact";
import { messageOf } from "../../base/result";
import type { FrameState } from "../../state/python-sync";
import type { ViewHeader } from "../../wire/header";
import { type ReportContext, shownView } from "../common/context";
import { focusable } from "../common/focusable";
import { Sentence } from "../common/parts";
import { componentFor } from "./registry";
import { panelId, tabId } from "./tabs";

interface PanelProps {
  readonly report: ReportContext;
}

export function Panel({ report }: PanelProps) {
  const view = shownView(report);
  if (view === undefined) return <Sentence>This report has no views.</Sentence>;
  return (
    <div
      class="tp-panel"
      role="tabpanel"
      id={panelId(report)}
      aria-labelledby={tabId(report, view.name)}
    >
      <Boundary key={view.name}>
        <ViewBody report={report} view={view} />
      </Boundary>
    </div>
  );
}

interface ViewBodyProps {
  readonly report: ReportContext;
  readonly view: ViewHeader;
}

function ViewBody({ report, view }: ViewBodyProps) {
  const state: FrameState = report.source.frame(view).value;
  // In a saved file there is nobody to ask again.
  const retry = report.source.canAnswer ? () => report.source.retry(view) : null;
  switch (state.kind) {
    case "empty":
      return <Sentence>{state.sentence}</Sentence>;
    case "loading":
      return <Sentence>Loading…</Sentence>;
    case "failed":
      return <Failure message={state.message} onRetry={retry} />;
    case "ready": {
      const View = componentFor(view);
      return <View report={report} view={view} frame={state.frame} />;
    }
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

interface BoundaryState {
  readonly message: string | null;
}

/** A view that throws shows its message in its own tab only. */
class Boundary extends Component<{ readonly children: ComponentChildren }, BoundaryState> {
  override state: BoundaryState = { message: null };

  static override getDerivedStateFromError(error: unknown): BoundaryState {
    return { message: messageOf(error) };
  }

  override render() {
    const { message } = this.state;
    if (message === null) return this.props.children;
    return <Sentence>This view cannot be shown: {message}</Sentence>;
  }
}
