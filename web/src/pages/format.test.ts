import { describe, expect, it } from "vitest";
import { formatBytes, formatDuration, formatNumber, percent } from "./format.ts";

describe("formatBytes", () => {
  it.each([
    [0, "0 B"],
    [999, "999 B"],
    [1000, "1.0 kB"],
    [99_949, "99.9 kB"],
    [99_950, "100 kB"],
    [999_499, "999 kB"],
    [999_500, "1.0 MB"],
    [18_552_000, "18.6 MB"],
    [2_000_000_000, "2.0 GB"],
    [5e12, "5000 GB"],
  ])("%d bytes are %s", (bytes, text) => expect(formatBytes(bytes)).toBe(text));
});

describe("percent", () => {
  it.each([
    [0, "0.0 %"],
    [1, "100.0 %"],
    [0.38812, "38.8 %"],
    [0.0004, "< 0.1 %"],
    [0.99999, "> 99.9 %"],
  ])("%d is %s", (share, text) => expect(percent(share)).toBe(text));
});

describe("formatDuration", () => {
  it.each([
    [3.06, "3.1 ms"],
    [9.96, "10 ms"],
    [1234.5, "1235 ms"],
    [12_340, "12.3 s"],
  ])("%d ms are %s", (milliseconds, text) => expect(formatDuration(milliseconds)).toBe(text));
});

describe("formatNumber", () => {
  it.each([
    [3, "3"],
    [-0.5, "-0.5"],
    [1 / 3, "0.33333"],
    [1.23456e-7, "1.235e-7"],
    [123456.7, "1.235e+5"],
    [2n ** 63n, "9223372036854775808"],
    [Number.NaN, "NaN"],
  ])("%d is %s", (value, text) => expect(formatNumber(value)).toBe(text));
});
