/** Numbers with a unit as their type: a `Px` in place of an `Ns` does not compile. */

declare const brand: unique symbol;
type Brand<Name extends string> = number & { readonly [brand]: Name };

/** Nanoseconds from the start of the run, or a duration. */
export type Ns = Brand<"ns">;
/** CSS pixels. */
export type Px = Brand<"px">;
/** Pixels of the screen: CSS pixels times `devicePixelRatio`. */
export type DevicePx = Brand<"devicePx">;
/** The unit of the width of flame boxes: ns, bytes or calls, depending on the weight. */
export type Weight = Brand<"weight">;

export const ns = (value: number): Ns => value as Ns;
export const px = (value: number): Px => value as Px;
export const devicePx = (value: number): DevicePx => value as DevicePx;
export const weight = (value: number): Weight => value as Weight;
