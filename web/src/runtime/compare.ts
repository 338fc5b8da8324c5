/** Hold outputs against references. */
import type { RawTensor } from "./tensor.ts";
import { decode } from "./tensor.ts";

/** dB; what equal tensors get. Wrong shapes, types and non-finite values get the negative. */
export const SNR_CAP = 200;

/**
 * Signal-to-noise ratio in dB, 10 log10(sum r^2 / sum (v - r)^2), as the builder measures it:
 * integers must be equal, and an all-zero reference counts as a signal of amplitude 1.
 */
export function snr(reference: RawTensor, actual: RawTensor): number {
  const wanted = decode(reference).data;
  const given = decode(actual).data;
  if (wanted.length !== given.length || reference.dims.join() !== actual.dims.join()) {
    return -SNR_CAP;
  }
  if (!reference.dtype.startsWith("float")) {
    return wanted.every((value, index) => value === given[index]) ? SNR_CAP : -SNR_CAP;
  }
  let signal = 0;
  let noise = 0;
  for (let index = 0; index < wanted.length; index++) {
    const want = Number(wanted[index]);
    const have = Number(given[index]);
    if (!Number.isFinite(want)) {
      if (!Object.is(want, have)) return -SNR_CAP;
      continue;
    }
    signal += want * want;
    noise += (have - want) ** 2;
  }
  if (Number.isNaN(noise) || noise === Number.POSITIVE_INFINITY) return -SNR_CAP;
  if (noise === 0) return SNR_CAP;
  const ratio = 10 * Math.log10((signal || wanted.length) / noise);
  return Math.max(-SNR_CAP, Math.min(SNR_CAP, ratio));
}
