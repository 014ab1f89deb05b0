/** Results that are kept as long as the object that they were made from. */

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
