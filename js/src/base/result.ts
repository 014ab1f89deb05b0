/** The result of a function that can fail without throwing. */

export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string };

export function success<T>(value: T): Result<T> {
  return { ok: true, value };
}

export function failure(message: string): { readonly ok: false; readonly message: string } {
  return { ok: false, message };
}

/** The message of a thrown value. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
