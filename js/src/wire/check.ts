/** Validates parsed JSON. A check returns the typed value, or throws an error with the path of the value. */

import { failure, messageOf, type Result, success } from "../base/result";

/** `at` is the path of the value, such as `.views.0.title`. */
export type Check<T> = (value: unknown, at: string) => T;
export type Checked<C> = C extends Check<infer T> ? T : never;

function wrong(at: string): never {
  throw new TypeError(`${at.slice(1) || "it"} is missing or invalid`);
}

function ofType<T>(type: string): Check<T> {
  return (value, at) => (typeof value === type ? (value as T) : wrong(at));
}

export const text = ofType<string>("string");
export const number = ofType<number>("number");
export const flag = ofType<boolean>("boolean");

export function oneOf<const T extends string | number>(...known: readonly T[]): Check<T> {
  return (value, at) => (known.includes(value as T) ? (value as T) : wrong(at));
}

/** null, or a value that passes another check. */
export function orNull<T>(check: Check<T>): Check<T | null> {
  return (value, at) => (value === null ? null : check(value, at));
}

export function listOf<T>(check: Check<T>): Check<readonly T[]> {
  return (value, at) =>
    Array.isArray(value) ? value.map((each, index) => check(each, `${at}.${index}`)) : wrong(at);
}

/** A text or a number. */
export const scalar: Check<string | number> = (value, at) =>
  typeof value === "string" ? value : number(value, at);

/** A list of just so many values, each of a kind of its own. */
export function tupleOf<const C extends readonly Check<unknown>[]>(
  ...checks: C
): Check<{ readonly [K in keyof C]: Checked<C[K]> }> {
  return (value, at) => {
    if (!Array.isArray(value) || value.length !== checks.length) return wrong(at);
    const items: unknown = checks.map((check, index) => check(value[index], `${at}.${index}`));
    return items as { readonly [K in keyof C]: Checked<C[K]> };
  };
}

/** An object with values of one kind by name. */
export function mapOf<T>(check: Check<T>): Check<Readonly<Record<string, T>>> {
  return (value, at) => {
    if (typeof value !== "object" || value === null) return wrong(at);
    const entries = Object.entries(value);
    return Object.fromEntries(entries.map(([name, each]) => [name, check(each, `${at}.${name}`)]));
  };
}

/** An object with these fields; other fields are dropped. */
export function record<F extends Readonly<Record<string, Check<unknown>>>>(
  fields: F,
): Check<{ readonly [K in keyof F]: Checked<F[K]> }> {
  return (value, at) => {
    if (typeof value !== "object" || value === null) return wrong(at);
    const given = value as Readonly<Record<string, unknown>>;
    const checked = Object.entries(fields).map(([name, check]) => [
      name,
      check(given[name], `${at}.${name}`),
    ]);
    return Object.fromEntries(checked);
  };
}

/** The value if it passes a check, or why it does not. */
export function checked<T>(check: Check<T>, value: unknown): Result<T> {
  try {
    return success(check(value, ""));
  } catch (error) {
    return failure(messageOf(error));
  }
}
