/** A button whose keys do not trigger notebook shortcuts. */

import type { ComponentProps } from "preact";
import { focusable } from "./focusable";

interface ButtonProps extends Omit<ComponentProps<"button">, "type" | "onKeyDown"> {
  readonly onKey?: (event: KeyboardEvent) => void;
}

export function Button({ onKey, ...rest }: ButtonProps) {
  return <button type="button" {...rest} {...focusable(onKey)} />;
}
