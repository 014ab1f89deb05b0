/** How something that takes a while goes, beside the button that began it. */

import type { Status } from "../../state/status";
import { Button } from "./button";

interface StatusProps {
  readonly status: Status;
  readonly onClose: () => void;
}

/** What is being done, beside the button; why it failed, in full below it, until it is closed. */
export function StatusText({ status, onClose }: StatusProps) {
  const { text, isFailure } = status;
  return (
    <span class={isFailure ? "tp-status-failure" : "tp-status"}>
      <span role="status">{text}</span>
      {isFailure && (
        <Button class="tp-button" aria-label="Close" onClick={onClose}>
          ×
        </Button>
      )}
    </span>
  );
}
