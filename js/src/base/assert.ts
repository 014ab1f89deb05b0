/** Assertions that detect bugs in this code. */

/** Throws when `condition` is false, which is always a bug, never invalid user data. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`torchprof: ${message}`);
}

/** Makes a `switch` over a union fail to compile when a case is missing. */
export function assertNever(value: never): never {
  throw new Error(`torchprof: unexpected ${String(value)}`);
}

/** Returns the value; throws when it is missing. */
export function defined<T>(value: T | null | undefined, what: string): T {
  assert(value !== null && value !== undefined, `${what} is missing`);
  return value;
}
