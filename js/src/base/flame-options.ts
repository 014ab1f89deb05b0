/** How a flame graph is turned, folded and cut. */

export type FlameShape = "merged" | "inverted" | "callers" | "callees";

export interface FlameChange {
  /** Drop a name with all that is in it; or leave only its own boxes out, or those of a file. */
  readonly kind: "drop" | "hide" | "file";
  readonly text: string;
}

export interface FlameOptions {
  readonly shape: FlameShape;
  /** For callers and callees. */
  readonly name: string;
  /** Leave out library frames that only pass on to one other box. */
  readonly foldsLibraries: boolean;
  readonly collapsesRecursion: boolean;
  readonly changes: readonly FlameChange[];
}

export const PLAIN: FlameOptions = {
  shape: "merged",
  name: "",
  foldsLibraries: false,
  collapsesRecursion: false,
  changes: [],
};
