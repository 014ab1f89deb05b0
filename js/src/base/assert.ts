/** Assertions that find our own bugs at once. */

/** Throws when `condition` is false: a bug of ours, never the user's data. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`torchprof: ${message}`);
}

/** Makes a `switch` over a union fail to compile when a case is missing. */
export function assertNever(value: never): never {
  throw new Error(`torchprof: unexpected ${String(value)}`);
}

/** The value, or a throw when it is missing. */
export function defined<T>(value: T | null | undefined, what: string): T {
  assert(value !== null && value !== undefined, `${what} is missing`);
  return value;
}
