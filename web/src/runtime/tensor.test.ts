import { describe, expect, it } from "vitest";
import { InputError } from "./errors.ts";
import type { DType, TensorSpec } from "./manifest.gen.ts";
import { decode, encode, fallback, read } from "./tensor.ts";
import type { TensorLike } from "./types.ts";

const spec = (dtype: DType, shape: (number | string)[] = ["n"]): TensorSpec => ({
  name: "x",
  dtype,
  shape,
});

const put = (dtype: DType, data: TensorLike["data"]) =>
  encode(spec(dtype), { data, dims: [data.length] }, new Map()).data;

describe("a vocabulary", () => {
  const port: TensorSpec = { name: "port", dtype: "int64", shape: ["n"], vocabulary: ["C", "S"] };

  it("turns words into their places, unknown ones into -1, and leaves places alone", () => {
    const given = { data: ["S", "Q", "C"], dims: [3] };
    expect(encode(port, given, new Map()).data).toEqual(new BigInt64Array([1n, -1n, 0n]));
    const places = encode(port, { data: [1, 0], dims: [2] }, new Map());
    expect(places.data).toEqual(new BigInt64Array([1n, 0n]));
  });

  it("turns places back into words", () => {
    const raw = { dtype: "int64" as const, dims: [3], data: new BigInt64Array([1n, -1n, 0n]) };
    expect(decode(raw, port).words).toEqual(["S", "", "C"]);
    expect(decode(raw).words).toBeUndefined();
  });

  it("is needed for words", () => {
    const words = { data: ["S"], dims: [1] };
    expect(() => encode(spec("int64"), words, new Map())).toThrow(InputError);
  });
});

describe("encode", () => {
  it.each([
    ["float32", [1, 2.5], new Float32Array([1, 2.5])],
    ["float64", new Float32Array([0.5]), new Float64Array([0.5])],
    ["float16", [1, -2], new Uint16Array([0x3c00, 0xc000])],
    ["int64", [1, -1], new BigInt64Array([1n, -1n])],
    ["int64", new Int32Array([7]), new BigInt64Array([7n])],
    ["uint64", [2n ** 64n - 1n], new BigUint64Array([2n ** 64n - 1n])],
    ["int32", new BigInt64Array([-5n]), new Int32Array([-5])],
    ["uint8", new Uint8ClampedArray([0, 255]), new Uint8Array([0, 255])],
    ["bool", [true, false, 1, 0], new Uint8Array([1, 0, 1, 0])],
  ] as [DType, TensorLike["data"], unknown][])("makes %s of %o", (dtype, data, wanted) => {
    expect(put(dtype, data)).toEqual(wanted);
  });

  it.each([
    ["uint8", [256], "0 to 255"],
    ["uint8", [-1], "0 to 255"],
    ["int8", [128], "-128 to 127"],
    ["int32", [1.5], "-2147483648"],
    ["uint64", [-1n], "0 to 18446744073709551615"],
    ["int64", [Number.NaN], "-9223372036854775808"],
    ["bool", new Uint8Array([2]), "0 to 1"],
  ] as [DType, TensorLike["data"], string][])("refuses for %s %o", (dtype, data, range) => {
    let thrown: unknown;
    try {
      put(dtype, data);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(InputError);
    expect((thrown as InputError).advice).toContain(range);
    expect((thrown as InputError).message).toContain("'x'");
  });

  it.each([
    [[2, 3], [6], "2 dimensions are needed"],
    [[2, 3], [2, 4], "dimension 1 must be 3"],
    [["n", 3], [2.5, 3], "dimension 0 isn't a whole number"],
    [["n", 3], [3, 3], "that is 9 elements, the data hold 6"],
  ])("refuses for shape %o dims %o", (shape, dims, said) => {
    const given = { data: new Float32Array(6), dims };
    expect(() => encode(spec("float32", shape), given, new Map())).toThrow(said);
  });

  it("wants one extent for one symbol, over all inputs", () => {
    const extents = new Map<string, number>();
    encode(spec("float32", ["n"]), { data: [1, 2], dims: [2] }, extents);
    expect(() => encode(spec("float32", ["n"]), { data: [1], dims: [1] }, extents)).toThrow(
      "'n' is 2 in another input",
    );
  });

  it("copies, so that the caller's array stays the caller's", () => {
    const data = new Float32Array([1]);
    expect(put("float32", data)).not.toBe(data);
  });
});

it("fills in a default, a scalar too", () => {
  expect(fallback({ ...spec("float32", []), default: [0.5] })).toEqual({
    dtype: "float32",
    dims: [],
    data: new Float32Array([0.5]),
  });
  expect(fallback(spec("float32"))).toBeUndefined();
});

it("widens halves", () => {
  const raw = { dtype: "float16", dims: [2], data: new Uint16Array([0x3c00, 0xfc00]) } as const;
  expect(decode({ ...raw, dims: [2] }).data).toEqual(
    new Float32Array([1, Number.NEGATIVE_INFINITY]),
  );
});

it("reads a stored tensor from any offset", () => {
  const file = new Uint8Array([9, 9, 9, 1, 0, 0, 0, 255, 255, 255, 255]).subarray(1);
  const stored = { name: "x", dtype: "int32", shape: [2], offset: 2, size: 8 } as const;
  expect(read({ ...stored, shape: [2] }, file).data).toEqual(new Int32Array([1, -1]));
});
