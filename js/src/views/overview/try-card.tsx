/** The button that has the advice of a card measured on this machine; the report then says what it saves here. */

import { useSignal } from "@preact/signals";
import { Button } from "../common/button";
import type { ReportContext } from "../common/context";
import type { NumberedCard } from "./cards";

interface TryCardProps extends NumberedCard {
  readonly report: ReportContext;
}

export function TryCard({ report, card, number }: TryCardProps) {
  const isTrying = useSignal(false);
  const failure = useSignal("");
  if (!card.can_try || !report.source.canTry) return null;
  const start = async () => {
    isTrying.value = true;
    failure.value = "";
    const tried = await report.source.tryCard(number);
    isTrying.value = false;
    failure.value = tried.ok ? "" : tried.message;
  };
  return (
    <div class="tp-try">
      <Button
        class="tp-link"
        disabled={isTrying.value}
        title="Measures both ways on random numbers, for about 5 s"
        onClick={() => void start()}
      >
        {isTrying.value ? "Trying…" : "Try it here"}
      </Button>
      {failure.value !== "" && (
        <p class="tp-try-failure" role="alert">
          {failure.value}
        </p>
      )}
    </div>
  );
}
