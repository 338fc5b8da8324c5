import { expect, it, describe as suite } from "vitest";
import { OnnxsiteError } from "../runtime/errors.ts";
import { InputFault } from "../tasks/task.ts";
import { describe } from "./fault.ts";
import { matches } from "./filter.ts";
import { TEXT } from "./text.ts";

suite("describe", () => {
  it("gives a visitor's mistake its own words", () => {
    const text = TEXT.error.notAnImage("a.txt");
    expect(describe(new InputFault(text), "Title")).toBe(text);
  });

  it("takes message and advice of the runtime's errors", () => {
    const error = new OnnxsiteError("FetchError", "Gone.", "Upload it again.");
    expect(describe(error, "Title")).toEqual({
      title: "Title",
      message: "Gone.",
      advice: "Upload it again.",
    });
  });

  it.each([new Error("odd"), "odd"])("has advice for anything else", (error) => {
    const { advice } = TEXT.error.unexpected;
    expect(describe(error, "Title")).toEqual({ title: "Title", message: "odd", advice });
  });

  it("has words for nothing at all", () => {
    expect(describe(null, "Title").message).toBe("null");
  });
});

suite("matches", () => {
  it.each([
    ["efficientnet apache-2.0", "", true],
    ["efficientnet apache-2.0", "APACHE net", true],
    ["efficientnet apache-2.0", "apache mit", false],
  ])("%s for %j: %s", (text, query, expected) => expect(matches(text, query)).toBe(expected));
});
