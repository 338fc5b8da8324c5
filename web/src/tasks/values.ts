/** Make a tensor's values: random, zeros, or from what a visitor typed. Pure. */
import type { DType, TypedArray } from "../runtime/index.ts";
import { allocate } from "./npy.ts";

const RANGES: Readonly<Partial<Record<DType, readonly [bigint, bigint]>>> = {
  int8: [-128n, 127n],
  uint8: [0n, 255n],
  int16: [-32768n, 32767n],
  uint16: [0n, 65535n],
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
  bool: [0n, 1n],
};

/** A token that isn't a number of the tensor's type. */
export class TokenError extends Error {
  readonly token: string;

  constructor(token: string) {
    super(token);
    this.name = "TokenError";
    this.token = token;
  }
}

/** More or fewer numbers than the tensor holds. */
export class CountError extends Error {
  readonly count: number;

  constructor(count: number) {
    super(String(count));
    this.name = "CountError";
    this.count = count;
  }
}

/**
 * Numbers between commas, blanks, lines and brackets; one alone fills the tensor.
 *
 * @throws TokenError, CountError
 */
export function parseNumbers(text: string, dtype: DType, length: number): TypedArray {
  const tokens = text.split(/[\s,;[\]()]+/).filter((token) => token !== "");
  const values = tokens.map((token) => parseNumber(token, dtype));
  const data = allocate(dtype, length);
  const [first] = values;
  if (values.length === 1 && first !== undefined) {
    return data.fill(first as never);
  }
  if (values.length !== length) {
    throw new CountError(values.length);
  }
  data.set(values as never);
  return data;
}

/**
 * Words between commas and lines; one alone fills the tensor.
 *
 * @throws CountError
 */
export function parseWords(text: string, length: number): string[] {
  const words = text.split(/[,\n]/).map((word) => word.trim());
  const [first] = words;
  if (words.length === 1 && first !== undefined) {
    return new Array(length).fill(first);
  }
  if (words.length !== length) {
    throw new CountError(words.length);
  }
  return words;
}

/** Words drawn from a vocabulary. */
export function randomWords(vocabulary: readonly string[], length: number): string[] {
  const draw = () => vocabulary[Math.floor(Math.random() * vocabulary.length)] ?? "";
  return Array.from({ length }, draw);
}

const WORDS: Readonly<Record<string, number>> = {
  true: 1,
  false: 0,
  nan: Number.NaN,
  inf: Number.POSITIVE_INFINITY,
  "-inf": Number.NEGATIVE_INFINITY,
};

function parseNumber(token: string, dtype: DType): number | bigint {
  const range = RANGES[dtype];
  const word = WORDS[token.toLowerCase()];
  if (range === undefined) {
    const value = word ?? Number(token);
    if (Number.isNaN(value) && token.toLowerCase() !== "nan") {
      throw new TokenError(token);
    }
    return value;
  }
  if (word === undefined ? !/^[+-]?\d+$/.test(token) : dtype !== "bool" || word !== word % 2) {
    throw new TokenError(token);
  }
  const value = BigInt(word ?? token);
  if (value < range[0] || value > range[1]) {
    throw new TokenError(token);
  }
  return dtype.endsWith("int64") ? value : Number(value);
}

/**
 * Floats from the standard normal distribution; 8 and 16 bit integers from their whole range; wider
 * ones, which are often indices into something small, 0 or 1.
 */
export function randomValues(dtype: DType, length: number): TypedArray {
  const data = allocate(dtype, length);
  const draw = drawOf(dtype);
  for (let index = 0; index < length; index++) {
    data[index] = draw() as never;
  }
  return data;
}

function drawOf(dtype: DType): () => number | bigint {
  const range = RANGES[dtype];
  if (range === undefined) {
    return normal;
  }
  const coin = () => (Math.random() < 0.5 ? 0 : 1);
  if (dtype.endsWith("int64")) {
    return () => BigInt(coin());
  }
  const [low, high] = [Number(range[0]), Number(range[1])];
  return high > 65535 ? coin : () => low + Math.floor(Math.random() * (high - low + 1));
}

/** Box and Muller's method. */
function normal(): number {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}
