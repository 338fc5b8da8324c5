import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import * as errors from "./errors.ts";
import { classify, FetchError, fromData, OnnxsiteError, toData } from "./errors.ts";

// What engines and the runtime really throw when these things happen.
const THROWN: [unknown, string][] = [
  [9437184, "MemoryError"],
  [new RangeError("WebAssembly.Memory(): could not allocate memory"), "MemoryError"],
  [new Error("Out of memory"), "MemoryError"],
  [new Error("failed to allocate a buffer of size 123"), "MemoryError"],
  [new Error("std::bad_alloc"), "MemoryError"],
  [new Error("SafeIntExceptionHandler<E>::SafeIntOnOverflow() Integer overflow"), "MemoryError"],
  [
    new Error("A valid external Instance reference no longer exists. Device is lost."),
    "DeviceLostError",
  ],
  [new Error("Non-zero status code returned while running Conv node"), "SessionError"],
  ["text", "SessionError"],
];

it.each(THROWN)("%s is a %s", (thrown, code) => {
  const error = classify(thrown);
  expect(error).toBeInstanceOf(OnnxsiteError);
  expect(error.code).toBe(code);
  expect(error.message).toContain(thrown instanceof Error ? thrown.message : String(thrown));
  expect(error.advice).not.toBe("");
});

it("stays what it is, in and out of a worker", () => {
  const error = new FetchError("gone", "https://host/file");
  expect(classify(error)).toBe(error);
  const back = fromData(structuredClone(toData(error)));
  expect(back).toMatchObject({ code: "FetchError", message: "gone", url: "https://host/file" });
  expect(back.advice).toBe(error.advice);
});

it("every kind has a section in the documentation, and every section a kind", () => {
  const url = new URL("../../../docs/errors.md", import.meta.url);
  const sections = [...readFileSync(url, "utf8").matchAll(/^## (\w+)$/gm)].map(([, name]) => name);
  const kinds = Object.keys(errors).filter((name) => /^(?!Onnxsite)\w+Error$/.test(name));
  expect(sections.sort()).toEqual(kinds.sort());
  expect(fromData(toData(9437184)).help).toBe("docs/errors.md#memoryerror");
});
