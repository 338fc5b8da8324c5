/** Between what callers hand over and what the web runtime takes, by the manifest's types. */
import { InputError } from "./errors.ts";
import { fromHalf, toHalf } from "./half.ts";
import type { DType, StoredTensor, TensorSpec } from "./manifest.gen.ts";
import type { Tensor, TensorLike, TypedArray } from "./types.ts";

interface Kind {
  readonly bytes: number;
  readonly make: (length: number) => TypedArray;
  readonly view: (buffer: ArrayBuffer, offset: number, length: number) => TypedArray;
  /** Smallest and largest value, for integers. */
  readonly range?: readonly [bigint, bigint];
}

type ArrayClass = {
  readonly BYTES_PER_ELEMENT: number;
  new (length: number): TypedArray;
  new (buffer: ArrayBuffer, offset: number, length: number): TypedArray;
};

function kind(Class: ArrayClass, range?: readonly [bigint, bigint]): Kind {
  return {
    bytes: Class.BYTES_PER_ELEMENT,
    make: (length) => new Class(length),
    view: (buffer, offset, length) => new Class(buffer, offset, length),
    ...(range ? { range } : {}),
  };
}

const signed = (bits: bigint) => [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n] as const;
const unsigned = (bits: bigint) => [0n, 2n ** bits - 1n] as const;

/** float16 travels as its bits in a Uint16Array; bool as bytes. */
const KINDS: Record<DType, Kind> = {
  float32: kind(Float32Array),
  float64: kind(Float64Array),
  float16: kind(Uint16Array),
  int8: kind(Int8Array, signed(8n)),
  uint8: kind(Uint8Array, unsigned(8n)),
  int16: kind(Int16Array, signed(16n)),
  uint16: kind(Uint16Array, unsigned(16n)),
  int32: kind(Int32Array, signed(32n)),
  uint32: kind(Uint32Array, unsigned(32n)),
  int64: kind(BigInt64Array, signed(64n)),
  uint64: kind(BigUint64Array, unsigned(64n)),
  bool: kind(Uint8Array, [0n, 1n]),
};

/** A tensor as it goes to and comes from the worker: plain data. */
export interface RawTensor {
  readonly dtype: DType;
  readonly dims: number[];
  readonly data: TypedArray;
}

export const count = (dims: readonly number[]): number => dims.reduce((a, b) => a * b, 1);

/**
 * Bring what a caller gave into the form of an input.
 *
 * @throws InputError naming the input, what it wants, and what was given.
 */
export function encode(
  spec: TensorSpec,
  given: TensorLike,
  extents: Map<string, number>,
): RawTensor {
  const { dims } = given;
  checkShape(spec, dims, given.data.length, extents);
  const data = isText(given.data) ? places(spec, given.data) : given.data;
  const { make, range } = KINDS[spec.dtype];
  const target = make(data.length);
  if (
    target.constructor === data.constructor &&
    spec.dtype !== "float16" &&
    spec.dtype !== "bool"
  ) {
    target.set(data as never);
    return { dtype: spec.dtype, dims: [...dims], data: target };
  }
  const convert = range ? integer(spec, range, target) : spec.dtype === "float16" ? half : Number;
  for (let index = 0; index < data.length; index++) {
    target[index] = convert(data[index] as number | bigint | boolean) as never;
  }
  return { dtype: spec.dtype, dims: [...dims], data: target };
}

const isText = (data: TensorLike["data"]): data is readonly string[] => typeof data[0] === "string";

/** The places of words in an input's vocabulary; -1 for those that aren't in it. */
function places(spec: TensorSpec, words: readonly string[]): number[] {
  const { vocabulary } = spec;
  if (!vocabulary) {
    throw new InputError(`Input '${spec.name}' takes ${spec.dtype}, no words.`, "Give numbers.");
  }
  const place = new Map(vocabulary.map((word, index) => [word, index]));
  return words.map((word) => place.get(word) ?? -1);
}

const half = (value: number | bigint | boolean): number => toHalf(Number(value));

function integer(spec: TensorSpec, [low, high]: readonly [bigint, bigint], target: TypedArray) {
  const big = target instanceof BigInt64Array || target instanceof BigUint64Array;
  return (value: number | bigint | boolean): number | bigint => {
    const exact =
      typeof value === "bigint" || typeof value === "boolean" || Number.isInteger(value);
    const number = exact ? BigInt(value) : 0n;
    if (!exact || number < low || number > high) {
      throw new InputError(
        `Input '${spec.name}' is ${spec.dtype}: ${value} isn't such a number.`,
        `Give integers from ${low} to ${high}.`,
      );
    }
    return big ? number : Number(number);
  };
}

function checkShape(
  spec: TensorSpec,
  dims: readonly number[],
  length: number,
  extents: Map<string, number>,
): void {
  const wanted = `${spec.dtype}[${spec.shape.join(", ")}]`;
  const refuse = (what: string): never => {
    throw new InputError(
      `Input '${spec.name}' wants ${wanted}; given was [${dims.join(", ")}]: ${what}.`,
      "Change the input's dims.",
    );
  };
  if (dims.length !== spec.shape.length) refuse(`${spec.shape.length} dimensions are needed`);
  for (const [axis, dim] of spec.shape.entries()) {
    const extent = dims[axis] ?? 0;
    if (!Number.isInteger(extent) || extent < 0) refuse(`dimension ${axis} isn't a whole number`);
    if (typeof dim === "number" && dim !== extent) refuse(`dimension ${axis} must be ${dim}`);
    if (typeof dim === "string") {
      const known = extents.get(dim) ?? extent;
      if (known !== extent) refuse(`'${dim}' is ${known} in another input`);
      extents.set(dim, extent);
    }
  }
  if (count(dims) !== length) refuse(`that is ${count(dims)} elements, the data hold ${length}`);
}

/** The value of an input that the caller left out. */
export function fallback(spec: TensorSpec): RawTensor | undefined {
  if (!spec.default) return spec.from === undefined ? undefined : nothing(spec);
  const dims = spec.shape.map((dim) =>
    typeof dim === "number" ? dim : (spec.default?.length ?? 0),
  );
  return encode(spec, { data: spec.default, dims }, new Map());
}

/** What goes from run to run, before any: a free first axis is the batch, 1, and others are 0. */
function nothing({ dtype, shape }: TensorSpec): RawTensor {
  const dims = shape.map((dim, axis) => (typeof dim === "number" ? dim : axis === 0 ? 1 : 0));
  return { dtype, dims, data: KINDS[dtype].make(count(dims)) };
}

/** What callers get: halves widened to floats, and words beside their places in a vocabulary. */
export function decode(raw: RawTensor, spec?: TensorSpec): Tensor {
  const { vocabulary } = spec ?? {};
  if (vocabulary) {
    const given = raw.data as Iterable<number | bigint>;
    return { ...raw, words: Array.from(given, (place) => vocabulary[Number(place)] ?? "") };
  }
  if (raw.dtype !== "float16") return raw;
  const bits = raw.data as Uint16Array;
  return { ...raw, data: Float32Array.from(bits, fromHalf) };
}

/** A tensor of a reference file. */
export function read(stored: StoredTensor, file: Uint8Array<ArrayBuffer>): RawTensor {
  const { view } = KINDS[stored.dtype];
  const length = count(stored.shape);
  // A copy: the runtime may keep what it is given, and the file's own offset may be odd.
  const start = file.byteOffset + stored.offset;
  const bytes = file.buffer.slice(start, start + stored.size);
  return { dtype: stored.dtype, dims: [...stored.shape], data: view(bytes, 0, length) };
}
