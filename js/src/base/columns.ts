/** Columns of numbers that grow. */

type Column = Float64Array<ArrayBuffer> | Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer>;

/** A column twice as long, with the same numbers at its beginning. */
export function doubled<C extends Column>(column: C): C {
  const Same = column.constructor as new (length: number) => C;
  const next = new Same(column.length * 2);
  next.set(column);
  return next;
}
