/** IEEE 754 half precision, for browsers without Float16Array. */

const scratch = new DataView(new ArrayBuffer(4));

/** The bits of the half nearest to `value`; ties go to even, overflow to infinity. */
export function toHalf(value: number): number {
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  const sign = (bits >>> 16) & 0x8000;
  const exponent = (bits >>> 23) & 0xff;
  const fraction = bits & 0x7fffff;
  if (exponent === 0xff) return sign | 0x7c00 | (fraction ? 0x200 : 0);
  const half = exponent - 127 + 15;
  if (half >= 0x1f) return sign | 0x7c00;
  if (half <= 0) {
    if (half < -10) return sign;
    return sign + roundShift(fraction | 0x800000, 14 - half);
  }
  // The carry of rounding may run into the exponent, and then gives the next power of two.
  return sign + (half << 10) + roundShift(fraction, 13);
}

function roundShift(value: number, count: number): number {
  const kept = value >>> count;
  const rest = value & ((1 << count) - 1);
  const middle = 1 << (count - 1);
  return rest > middle || (rest === middle && kept & 1) ? kept + 1 : kept;
}

/** The number that the bits of a half stand for. */
export function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
