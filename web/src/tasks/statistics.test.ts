import { describe, expect, it } from "vitest";
import { gridOf, summarise, viridis } from "./statistics.ts";

describe("summarise", () => {
  it("agrees with numpy where a sum of squares would not", () => {
    // np.array([1000001, 1000002, 1000004], np.float32): mean and std in float64.
    const { statistics, nonFinite } = summarise(new Float32Array([1000001, 1000002, 1000004]));
    expect(statistics?.minimum).toBe(1000001);
    expect(statistics?.maximum).toBe(1000004);
    expect(statistics?.mean).toBeCloseTo(1000002.3333333334, 8);
    expect(statistics?.deviation).toBeCloseTo(1.247219128924647, 8);
    expect(nonFinite).toBe(0);
  });

  it("leaves out values that are not finite, and counts them", () => {
    const data = new Float32Array([1, Number.NaN, 3, Number.NEGATIVE_INFINITY]);
    const { statistics, nonFinite } = summarise(data);
    expect(statistics).toEqual({ minimum: 1, maximum: 3, mean: 2, deviation: 1 });
    expect(nonFinite).toBe(2);
  });

  it("has nothing to say about no values", () => {
    expect(summarise(new Float32Array())).toEqual({ statistics: undefined, nonFinite: 0 });
  });

  it("takes 64 bit integers", () => {
    expect(summarise(new BigInt64Array([-2n, 2n])).statistics?.deviation).toBe(2);
  });
});

describe("gridOf", () => {
  it.each([
    [[1, 3, 224, 160], { width: 160, height: 224, slices: 3 }],
    [[8, 8], { width: 8, height: 8, slices: 1 }],
  ])("takes the last two axes of %j", (dims, grid) => expect(gridOf(dims)).toEqual(grid));

  it.each([[[1000]], [[1, 1000]], [[]], [[4096, 4096]], [[0, 8, 8]]])(
    "shows no map of %j",
    (dims) => expect(gridOf(dims)).toBeUndefined(),
  );
});

describe("viridis", () => {
  it("starts at dark violet and ends at yellow, as in matplotlib", () => {
    expect(viridis(0)).toEqual([68, 1, 84]);
    expect(viridis(1)).toEqual([253, 231, 37]);
  });

  it("stays within its ends", () => {
    expect(viridis(-1)).toEqual(viridis(0));
    expect(viridis(2)).toEqual(viridis(1));
  });
});
