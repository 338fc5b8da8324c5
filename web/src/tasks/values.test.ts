import { describe, expect, it } from "vitest";
import {
  CountError,
  parseNumbers,
  parseWords,
  randomValues,
  randomWords,
  TokenError,
} from "./values.ts";

describe("words", () => {
  it("are parted by commas and lines, and may hold blanks", () => {
    expect(parseWords("New York, Rome\n Kyiv", 3)).toEqual(["New York", "Rome", "Kyiv"]);
  });

  it("fill the tensor where there is one alone", () => {
    expect(parseWords("Rome", 2)).toEqual(["Rome", "Rome"]);
    expect(() => parseWords("a, b", 3)).toThrow(CountError);
  });

  it("are drawn from the vocabulary", () => {
    const drawn = new Set(randomWords(["a", "b"], 200));
    expect([...drawn].sort()).toEqual(["a", "b"]);
  });
});

describe("parseNumbers", () => {
  it("takes commas, blanks, lines and brackets", () => {
    const data = parseNumbers("[[1, -2.5],\n [3e2 .5]]", "float32", 4);
    expect(data).toEqual(new Float32Array([1, -2.5, 300, 0.5]));
  });

  it("fills the tensor with a single number", () => {
    expect(parseNumbers("7", "uint8", 3)).toEqual(new Uint8Array([7, 7, 7]));
  });

  it("keeps every digit of 64 bit integers", () => {
    const data = parseNumbers("9007199254740993, -1", "int64", 2);
    expect(data).toEqual(new BigInt64Array([9007199254740993n, -1n]));
  });

  it("takes truth values and special floats", () => {
    expect(parseNumbers("true False", "bool", 2)).toEqual(new Uint8Array([1, 0]));
    expect(parseNumbers("nan -inf", "float32", 2)).toEqual(
      new Float32Array([Number.NaN, Number.NEGATIVE_INFINITY]),
    );
  });

  it.each([
    ["256", "uint8"],
    ["-1", "uint64"],
    ["1.5", "int32"],
    ["true", "int32"],
    ["nan", "bool"],
    ["2", "bool"],
    ["four", "float32"],
  ] as const)("refuses %s as %s", (text, dtype) => {
    expect(() => parseNumbers(text, dtype, 1)).toThrow(new TokenError(text));
  });

  it.each([
    ["1 2", 2],
    ["", 0],
  ])("refuses %j for three values", (text, count) => {
    expect(() => parseNumbers(text, "float32", 3)).toThrow(new CountError(count));
  });
});

describe("randomValues", () => {
  it("draws floats around zero with a deviation of one", () => {
    const data = Array.from(randomValues("float32", 20000) as Float32Array);
    const mean = data.reduce((sum, value) => sum + value, 0) / data.length;
    const variance = data.reduce((sum, value) => sum + (value - mean) ** 2, 0) / data.length;
    // Seven standard errors of each: 1/sqrt(n) and sqrt(2/n).
    expect(Math.abs(mean)).toBeLessThan(0.05);
    expect(Math.abs(variance - 1)).toBeLessThan(0.07);
  });

  it("draws pixels from all of their range and indices from 0 and 1", () => {
    const pixels = new Set(randomValues("uint8", 20000) as Uint8Array);
    expect(pixels.size).toBe(256);
    const indices = new Set(randomValues("int64", 200) as BigInt64Array);
    expect([...indices].sort()).toEqual([0n, 1n]);
  });
});
