import { describe, expect, it } from "vitest";
import type { Info, Manifest, RunResult, TensorSpec } from "../runtime/index.ts";
import { facesOf } from "./faces.ts";
import { isNamed, mainInput, numbers } from "./outputs.ts";

const spec = (name: string, rest: Partial<TensorSpec> = {}): TensorSpec => ({
  name,
  dtype: "float32",
  shape: [],
  ...rest,
});

const manifest = (inputs: TensorSpec[], outputs: TensorSpec[]) =>
  ({ interface: { inputs, outputs } }) as unknown as Manifest;

const result = (outputs: Record<string, readonly number[]>): RunResult => ({
  outputs: Object.fromEntries(
    Object.entries(outputs).map(([name, values]) => [
      name,
      { dtype: "float32", dims: [values.length], data: Float32Array.from(values) },
    ]),
  ),
  timings: {},
  total: 0,
  info: {} as Info,
});

describe("mainInput", () => {
  it("is the one without a default, whatever its name", () => {
    const value = { data: [1], dims: [1] };
    const inputs = [spec("score_threshold", { default: [0.5] }), spec("raw_bytes")];
    expect(mainInput(manifest(inputs, []), value)).toEqual({ raw_bytes: value });
  });
});

describe("isNamed", () => {
  it.each([
    ["scores", "scores", true],
    ["top_scores", "scores", true],
    ["topscores", "scores", false],
    ["scores_top", "scores", false],
  ])("%s for %s: %s", (actual, name, expected) => expect(isNamed(actual, name)).toBe(expected));
});

describe("numbers", () => {
  it("finds an output under a prefix", () => {
    const outputs = [spec("top_scores")];
    expect(numbers(manifest([], outputs), result({ top_scores: [1, 2] }), "scores")).toEqual([
      1, 2,
    ]);
  });

  it("says which output is missing", () => {
    expect(() => numbers(manifest([], []), result({}), "scores")).toThrow(/scores/);
  });
});

describe("facesOf", () => {
  const outputs = [spec("boxes"), spec("scores"), spec("landmarks")];

  it("gives faces with their landmarks, best first", () => {
    const faces = facesOf(
      manifest([], outputs),
      result({
        boxes: [1, 2, 3, 4, 5, 6, 7, 8],
        scores: [0.25, 0.75],
        landmarks: [...Array(10).fill(0), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
      }),
    );
    expect(faces.map(({ score }) => score)).toEqual([0.75, 0.25]);
    expect(faces[0]).toMatchObject({ left: 5, top: 6, right: 7, bottom: 8 });
    expect(faces[0]?.landmarks).toEqual([
      [1, 2],
      [3, 4],
      [5, 6],
      [7, 8],
      [9, 10],
    ]);
  });

  it("gives none for none", () => {
    const none = result({ boxes: [], scores: [], landmarks: [] });
    expect(facesOf(manifest([], outputs), none)).toEqual([]);
  });
});
