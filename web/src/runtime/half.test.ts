import { expect, it } from "vitest";
import { fromHalf, toHalf } from "./half.ts";

// IEEE 754-2008, binary16: bits by value.
const KNOWN: [number, number][] = [
  [0, 0x0000],
  [-0, 0x8000],
  [1, 0x3c00],
  [-2, 0xc000],
  [65504, 0x7bff],
  [2 ** -14, 0x0400],
  [2 ** -24, 0x0001],
  [1 / 3, 0x3555],
  [Number.POSITIVE_INFINITY, 0x7c00],
  [Number.NEGATIVE_INFINITY, 0xfc00],
];

it.each(KNOWN)("%f has the bits of the standard", (value, bits) => {
  expect(toHalf(value)).toBe(bits);
});

it.each([
  [65519.99, 0x7bff, "below the middle to the largest"],
  [65520, 0x7c00, "from the middle on to infinity"],
  [1 + 2 ** -11, 0x3c00, "a tie to even, down"],
  [1 + 3 * 2 ** -11, 0x3c02, "a tie to even, up"],
  [2 ** -25, 0x0000, "half of the smallest to zero"],
  [2 ** -25 * 1.01, 0x0001, "more than that to the smallest"],
  [2 - 2 ** -12, 0x4000, "with a carry into the exponent"],
])("%f is rounded to %i: %s", (value, bits) => {
  expect(toHalf(value)).toBe(bits);
});

it("gives back every half", () => {
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = fromHalf(bits);
    if (Number.isNaN(value)) expect(toHalf(value) & 0x7fff).toBeGreaterThan(0x7c00);
    else expect(toHalf(value)).toBe(bits);
  }
});
