/** Results that are kept: as long as the object that they were made from, or once for each key. */

/**
 * A function that makes something of an object and keeps the latest result for it: the same arguments give the same
 * result again. So a view that is shown again finds what it has built before.
 */
export function keptPer<K extends object, A extends readonly unknown[], V>(
  make: (key: K, ...rest: A) => V,
): (key: K, ...rest: A) => V {
  const kept = new WeakMap<K, { readonly rest: A; readonly value: V }>();
  return (key, ...rest) => {
    const known = kept.get(key);
    if (known?.rest.every((each, at) => Object.is(each, rest[at]))) return known.value;
    const value = make(key, ...rest);
    kept.set(key, { rest, value });
    return value;
  };
}

/** A function that makes something once for each key. */
export function keptBy<T, K, V>(keyOf: (of: T) => K, make: (of: T) => V): (of: T) => V {
  const kept = new Map<K, V>();
  return (of) => {
    const key = keyOf(of);
    const known = kept.get(key);
    if (known !== undefined) return known;
    const value = make(of);
    kept.set(key, value);
    return value;
  };
}
