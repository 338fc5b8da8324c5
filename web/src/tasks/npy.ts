/** Read and write .npy files. Format: numpy.lib.format in NumPy's reference. Pure. */
import { fromHalf, toHalf } from "../runtime/half.ts";
import type { DType, Tensor, TypedArray } from "../runtime/index.ts";

/** Why a file can't be read; `reason` is a key of the page's texts. */
export class NpyError extends Error {
  readonly reason: "notNpy" | "order" | "dtype" | "short";
  readonly detail: string;

  constructor(reason: NpyError["reason"], detail = "") {
    super(`${reason} ${detail}`.trim());
    this.name = "NpyError";
    this.reason = reason;
    this.detail = detail;
  }
}

type Reader = (view: DataView, offset: number) => number | bigint;
type Writer = (view: DataView, offset: number, value: number | bigint) => void;

interface Kind {
  readonly descr: string;
  readonly size: number;
  readonly make: (length: number) => TypedArray;
  readonly read: Reader;
  readonly write: Writer;
}

/** By dtype; float16 is widened to float32 in memory and narrowed in the file. */
const KINDS: Readonly<Record<DType, Kind>> = {
  float16: {
    descr: "<f2",
    size: 2,
    make: (n) => new Float32Array(n),
    read: (v, at) => fromHalf(v.getUint16(at, true)),
    write: (v, at, x) => v.setUint16(at, toHalf(Number(x)), true),
  },
  float32: {
    descr: "<f4",
    size: 4,
    make: (n) => new Float32Array(n),
    read: (v, at) => v.getFloat32(at, true),
    write: (v, at, x) => v.setFloat32(at, Number(x), true),
  },
  float64: {
    descr: "<f8",
    size: 8,
    make: (n) => new Float64Array(n),
    read: (v, at) => v.getFloat64(at, true),
    write: (v, at, x) => v.setFloat64(at, Number(x), true),
  },
  int8: {
    descr: "|i1",
    size: 1,
    make: (n) => new Int8Array(n),
    read: (v, at) => v.getInt8(at),
    write: (v, at, x) => v.setInt8(at, Number(x)),
  },
  uint8: {
    descr: "|u1",
    size: 1,
    make: (n) => new Uint8Array(n),
    read: (v, at) => v.getUint8(at),
    write: (v, at, x) => v.setUint8(at, Number(x)),
  },
  int16: {
    descr: "<i2",
    size: 2,
    make: (n) => new Int16Array(n),
    read: (v, at) => v.getInt16(at, true),
    write: (v, at, x) => v.setInt16(at, Number(x), true),
  },
  uint16: {
    descr: "<u2",
    size: 2,
    make: (n) => new Uint16Array(n),
    read: (v, at) => v.getUint16(at, true),
    write: (v, at, x) => v.setUint16(at, Number(x), true),
  },
  int32: {
    descr: "<i4",
    size: 4,
    make: (n) => new Int32Array(n),
    read: (v, at) => v.getInt32(at, true),
    write: (v, at, x) => v.setInt32(at, Number(x), true),
  },
  uint32: {
    descr: "<u4",
    size: 4,
    make: (n) => new Uint32Array(n),
    read: (v, at) => v.getUint32(at, true),
    write: (v, at, x) => v.setUint32(at, Number(x), true),
  },
  int64: {
    descr: "<i8",
    size: 8,
    make: (n) => new BigInt64Array(n),
    read: (v, at) => v.getBigInt64(at, true),
    write: (v, at, x) => v.setBigInt64(at, BigInt(x), true),
  },
  uint64: {
    descr: "<u8",
    size: 8,
    make: (n) => new BigUint64Array(n),
    read: (v, at) => v.getBigUint64(at, true),
    write: (v, at, x) => v.setBigUint64(at, BigInt(x), true),
  },
  bool: {
    descr: "|b1",
    size: 1,
    make: (n) => new Uint8Array(n),
    read: (v, at) => (v.getUint8(at) === 0 ? 0 : 1),
    write: (v, at, x) => v.setUint8(at, Number(x) === 0 ? 0 : 1),
  },
};

const MAGIC = "\u0093NUMPY";
/** The header's end is aligned to this many bytes, as numpy.save does. */
const ALIGNMENT = 64;

/** The number of elements of a shape. */
export function sizeOf(dims: readonly number[]): number {
  return dims.reduce((product, dim) => product * dim, 1);
}

/** An array for a tensor of `dtype` in memory. */
export function allocate(dtype: DType, length: number): TypedArray {
  return KINDS[dtype].make(length);
}

/**
 * Read a .npy file of version 1, 2 or 3, little-endian, in either order.
 *
 * @throws NpyError with the reason.
 */
export function readNpy(bytes: Uint8Array<ArrayBuffer>): Tensor {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(0, 6)) !== MAGIC) {
    throw new NpyError("notNpy");
  }
  const wide = view.getUint8(6) >= 2;
  const start = wide ? 12 : 10;
  const end = start + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  if (end > bytes.length) {
    throw new NpyError("short");
  }
  const { descr, fortran, dims } = parseHeader(
    new TextDecoder().decode(bytes.subarray(start, end)),
  );
  const dtype = dtypeOf(descr);
  const { size, make, read } = KINDS[dtype];
  const count = sizeOf(dims);
  if (end + count * size > bytes.length) {
    throw new NpyError("short");
  }
  const data = make(count);
  const place = fortran && dims.length > 1 ? fortranPlaces(dims) : (index: number) => index;
  for (let index = 0; index < count; index++) {
    data[place(index)] = read(view, end + index * size) as never;
  }
  return { dtype, dims, data };
}

function parseHeader(text: string): { descr: string; fortran: boolean; dims: number[] } {
  const descr = /'descr':\s*'([^']+)'/.exec(text)?.[1];
  const order = /'fortran_order':\s*(True|False)/.exec(text)?.[1];
  const shape = /'shape':\s*\(([^)]*)\)/.exec(text)?.[1];
  if (order === undefined || shape === undefined) {
    throw new NpyError("notNpy");
  }
  if (descr === undefined) {
    // A structured array describes its fields in a list.
    throw new NpyError("dtype", /'descr':\s*(\[.*?\])/.exec(text)?.[1] ?? "");
  }
  const dims = shape
    .split(",")
    .map((dim) => dim.trim())
    .filter((dim) => dim !== "")
    .map(Number);
  return { descr, fortran: order === "True", dims };
}

function dtypeOf(descr: string): DType {
  if (descr.startsWith(">")) {
    throw new NpyError("order");
  }
  const known = Object.entries(KINDS) as [DType, Kind][];
  const found = known.find(([, kind]) => kind.descr.slice(1) === descr.slice(1));
  if (found === undefined) {
    throw new NpyError("dtype", descr);
  }
  return found[0];
}

/** Where, in row-major order, the element stands that is at `index` in column-major order. */
function fortranPlaces(dims: readonly number[]): (index: number) => number {
  const strides = dims.map((_, axis) => sizeOf(dims.slice(axis + 1)));
  return (index) => {
    let rest = index;
    let place = 0;
    for (const [axis, dim] of dims.entries()) {
      place += (rest % dim) * (strides[axis] ?? 0);
      rest = Math.floor(rest / dim);
    }
    return place;
  };
}

/** Write a tensor as a .npy file of version 1, byte for byte as numpy.save does. */
export function writeNpy({ dtype, dims, data }: Tensor): Uint8Array<ArrayBuffer> {
  const { descr, size, write } = KINDS[dtype];
  const shape = dims.length === 1 ? `${dims[0]},` : dims.join(", ");
  const header = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape}), }`;
  // numpy leaves room for the first dimension to grow to 21 digits.
  const first = dims.length > 0 ? 21 - String(dims[0]).length : 0;
  const text = header + " ".repeat(first);
  const length = Math.ceil((10 + text.length + 1) / ALIGNMENT) * ALIGNMENT - 10;
  const bytes = new Uint8Array(10 + length + data.length * size);
  const view = new DataView(bytes.buffer);
  bytes.set(Uint8Array.from(MAGIC, (char) => char.charCodeAt(0)));
  view.setUint8(6, 1);
  view.setUint16(8, length, true);
  bytes.set(new TextEncoder().encode(`${text.padEnd(length - 1)}\n`), 10);
  for (let index = 0; index < data.length; index++) {
    write(view, 10 + length + index * size, data[index] as number | bigint);
  }
  return bytes;
}
