/** How a tab groups its rows. Also beside a grouping that cannot be loaded, so that there is a way back. */

import type { ViewHeader } from "../../wire/header";
import { Choice } from "./choice";
import { groupingsOf, type ReportContext } from "./context";

interface GroupingsProps {
  readonly report: ReportContext;
  readonly view: ViewHeader;
}

export function Groupings({ report, view }: GroupingsProps) {
  const { store, source } = report;
  const tab = source.header.views.find(({ name }) => name === view.tab) ?? view;
  const options = groupingsOf(report, view.tab).map(({ name, group }) => ({ name, title: group }));
  if (options.length < 2) return null;
  return (
    <Choice
      label="Group by"
      options={options}
      chosen={view.name}
      onChoose={(name) => {
        store.grouping(tab).value = name;
      }}
    />
  );
}
