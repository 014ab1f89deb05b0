/** How something that takes a while goes: what is being done, or why it failed. */
export interface Status {
  readonly text: string;
  readonly isFailure: boolean;
}

export const QUIET: Status = { text: "", isFailure: false };
