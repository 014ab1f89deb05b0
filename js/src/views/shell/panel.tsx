/** The panel of the active tab: the view, or the reason why there is nothing to show. */

import { Component, type ComponentChildren } from "preact";
import { messageOf } from "../../base/result";
import { type ReportContext, shownView } from "../common/context";
import { Sentence } from "../common/parts";
import { ChangeHead } from "../compare/change-head";
import { View } from "./registry";
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
      aria-labelledby={tabId(report, view.tab)}
    >
      {view.tab === "compare" && <ChangeHead report={report} />}
      <Boundary key={view.name}>
        {view.empty === null ? (
          <View report={report} view={view} />
        ) : (
          <Sentence>{view.empty}</Sentence>
        )}
      </Boundary>
    </div>
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
