import { expect, it } from "vitest";
import { SNR_CAP, snr } from "./compare.ts";
import type { DType } from "./manifest.gen.ts";
import type { RawTensor } from "./tensor.ts";
import type { TypedArray } from "./types.ts";

const tensor = (data: TypedArray, dtype: DType = "float32", dims = [data.length]): RawTensor => ({
  dtype,
  dims,
  data,
});
const floats = (...values: number[]) => tensor(new Float32Array(values));

it.each([
  // 10 log10(signal / noise), by hand
  [floats(3, 4), floats(3, 4.5), 20], // 25 / 0.25
  [floats(10, 0), floats(10, 1), 20], // 100 / 1
  [floats(0, 0), floats(0.1, 0.1), 20], // no signal counts as amplitude 1: 2 / 0.02
  [floats(1, 2), floats(1, 2), SNR_CAP],
])("%o against %o", (reference, actual, expected) => {
  expect(snr(reference, actual)).toBeCloseTo(expected, 4);
});

const { NaN: nan, POSITIVE_INFINITY: inf } = Number;

it.each([
  ["not a number", floats(1, 2), floats(1, nan)],
  ["infinite", floats(1, 2), floats(1, inf)],
  ["finite where infinity is right", floats(1, inf), floats(1, 5)],
  ["another length", floats(1, 2), floats(1)],
  ["another shape", floats(1, 2), tensor(new Float32Array([1, 2]), "float32", [2, 1])],
  ["another integer", tensor(new Int32Array([4]), "int32"), tensor(new Int32Array([5]), "int32")],
])("is the worst for what is %s", (_name, reference, actual) => {
  expect(snr(reference, actual)).toBe(-SNR_CAP);
});

it("holds an infinity and a NaN of the reference for right", () => {
  expect(snr(floats(1, inf, nan), floats(1, inf, nan))).toBe(SNR_CAP);
});

it("compares integers exactly", () => {
  const big = (value: bigint) => tensor(new BigInt64Array([value]), "int64");
  expect(snr(big(2n ** 60n), big(2n ** 60n))).toBe(SNR_CAP);
  expect(snr(big(2n ** 60n), big(2n ** 60n + 1n))).toBe(-SNR_CAP);
});

it("widens halves", () => {
  const half = (bits: number) => tensor(new Uint16Array([bits]), "float16");
  expect(snr(half(0x3c00), half(0x4000))).toBeCloseTo(0, 6); // 1 against 2
});
