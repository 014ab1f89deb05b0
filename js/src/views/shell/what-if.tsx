/** What a step would take if the selection were twice as fast: a button that becomes the answer. */

import { useSignal } from "@preact/signals";
import type { Asked } from "../../wire/what-if";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";

interface WhatIfProps {
  readonly report: ReportContext;
  readonly name: Asked;
}

export function WhatIf({ report, name }: WhatIfProps) {
  const answer = useSignal("");
  if (!report.source.canAnswer) return null;
  const ask = async () => {
    answer.value = "…";
    const found = await report.source.whatIf(name);
    answer.value = found.ok ? found.value : found.message;
  };
  if (answer.value !== "")
    return (
      <span role="status" title={answer.value}>
        {answer.value}
      </span>
    );
  return (
    <Button
      class="tp-button"
      title="What a step would take if this were 2× faster"
      onClick={() => void ask()}
    >
      If 2× faster
    </Button>
  );
}
