/** .npy files against bytes that numpy.save wrote (NumPy 2). */
import { describe, expect, it } from "vitest";
import type { Tensor } from "../runtime/index.ts";
import { NpyError, readNpy, writeNpy } from "./npy.ts";

const bytes = (base64: string) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

/** 128 bytes of header as numpy writes it: magic, version, length, dictionary, blanks, line feed. */
const file = (dictionary: string, content: string) =>
  btoa(`\x93NUMPY\x01\x00v\x00${dictionary.padEnd(117)}\n${atob(content)}`);

const header = (descr: string, shape: string, fortran = "False") =>
  `{'descr': ${descr}, 'fortran_order': ${fortran}, 'shape': ${shape}, }`;

const CASES: readonly [Tensor, string][] = [
  [
    {
      dtype: "float32",
      dims: [2, 3],
      data: new Float32Array([1.5, -2.25, 0, 3e38, Number.POSITIVE_INFINITY, -0.5]),
    },
    // Whole as numpy wrote it, so that the header is checked as well.
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAMA/AAAQwAAAAADmsWF/AACAfwAAAL8=",
  ],
  [
    { dtype: "float16", dims: [4], data: new Float32Array([1.5, -0.25, 65504, 2 ** -24]) },
    file(header("'<f2'", "(4,)"), "AD4AtP97AQA="),
  ],
  [
    { dtype: "float64", dims: [], data: new Float64Array([0.1]) },
    file(header("'<f8'", "()"), "mpmZmZmZuT8="),
  ],
  [
    { dtype: "int64", dims: [2], data: new BigInt64Array([2n ** 53n + 1n, -5n]) },
    file(header("'<i8'", "(2,)"), "AQAAAAAAIAD7/////////w=="),
  ],
  [
    { dtype: "uint64", dims: [1, 1], data: new BigUint64Array([2n ** 64n - 1n]) },
    file(header("'<u8'", "(1, 1)"), "//////////8="),
  ],
  [
    { dtype: "int8", dims: [1, 2], data: new Int8Array([-128, 127]) },
    file(header("'|i1'", "(1, 2)"), "gH8="),
  ],
  [
    { dtype: "uint16", dims: [1], data: new Uint16Array([65535]) },
    file(header("'<u2'", "(1,)"), "//8="),
  ],
  [
    { dtype: "bool", dims: [3], data: new Uint8Array([1, 0, 1]) },
    file(header("'|b1'", "(3,)"), "AQAB"),
  ],
  [
    { dtype: "float32", dims: [0, 3], data: new Float32Array() },
    file(header("'<f4'", "(0, 3)"), ""),
  ],
];

describe.each(CASES)("%o", (tensor, base64) => {
  it("is read", () => expect(readNpy(bytes(base64))).toEqual(tensor));
  it("is written as numpy does", () => expect(writeNpy(tensor)).toEqual(bytes(base64)));
});

describe("readNpy", () => {
  it("brings column-major arrays into row-major order", () => {
    // np.asfortranarray(np.arange(24, dtype=np.int32).reshape(2, 3, 4))
    const content =
      "AAAAAAwAAAAEAAAAEAAAAAgAAAAUAAAAAQAAAA0AAAAFAAAAEQAAAAkAAAAVAAAAAgAAAA4AAAAGAAAAEgAAAAoAAAAWAAAAAwAAAA8AAAAHAAAAEwAAAAsAAAAXAAAA";
    const tensor = readNpy(bytes(file(header("'<i4'", "(2, 3, 4)", "True"), content)));
    expect(tensor.dims).toEqual([2, 3, 4]);
    expect([...tensor.data]).toEqual(Array.from({ length: 24 }, (_, index) => index));
  });

  it("reads what lies at an odd offset of a bigger buffer", () => {
    const [tensor, base64] = CASES[3] as (typeof CASES)[number];
    const whole = bytes(base64);
    const buffer = new Uint8Array(whole.length + 3);
    buffer.set(whole, 3);
    expect(readNpy(buffer.subarray(3))).toEqual(tensor);
  });

  it.each([
    ["notNpy", btoa("PK\x03\x04 something else")],
    ["notNpy", ""],
    ["order", file(header("'>f4'", "(1,)"), "P4AAAA==")],
    ["dtype", file(header("'<c8'", "(2,)"), "AAAAAAAAAAAAAAAAAAAAAA==")],
    ["dtype", file(header("[('a', '<f4'), ('b', '<i4')]", "(1,)"), "AAAAAAAAAAA=")],
    ["short", file(header("'<f4'", "(2,)"), "AACAPw==")],
  ])("refuses with the reason %s", (reason, base64) => {
    let thrown: unknown;
    try {
      readNpy(bytes(base64));
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(NpyError);
    expect((thrown as NpyError).reason).toBe(reason);
  });
});
