/** What there is to say about a tensor's values. Pure. */
import type { TypedArray } from "../runtime/index.ts";

/** Over the finite values; undefined where there are none. */
export interface Statistics {
  readonly minimum: number;
  readonly maximum: number;
  readonly mean: number;
  /** Of the population, as numpy.std gives it. */
  readonly deviation: number;
}

export interface Summary {
  readonly statistics: Statistics | undefined;
  /** How many values are NaN or infinite. */
  readonly nonFinite: number;
}

/** One pass by Welford's method, which keeps its digits where a sum of squares would lose them. */
export function summarise(data: TypedArray): Summary {
  let count = 0;
  let mean = 0;
  let squares = 0;
  let minimum = Number.POSITIVE_INFINITY;
  let maximum = Number.NEGATIVE_INFINITY;
  for (const element of data) {
    const value = Number(element);
    if (!Number.isFinite(value)) {
      continue;
    }
    count += 1;
    const delta = value - mean;
    mean += delta / count;
    squares += delta * (value - mean);
    minimum = Math.min(minimum, value);
    maximum = Math.max(maximum, value);
  }
  const statistics =
    count > 0 ? { minimum, maximum, mean, deviation: Math.sqrt(squares / count) } : undefined;
  return { statistics, nonFinite: data.length - count };
}

/** The last two axes as a picture: its size and how many of them there are. */
export interface Grid {
  readonly width: number;
  readonly height: number;
  readonly slices: number;
}

const LEAST_SIDE = 4;
const LARGEST_SIDE = 2048;

/** How to show a tensor as a heat map, if that makes sense: two axes that are neither tiny nor huge. */
export function gridOf(dims: readonly number[]): Grid | undefined {
  const [height = 0, width = 0] = dims.slice(-2);
  const fits = (side: number) => side >= LEAST_SIDE && side <= LARGEST_SIDE;
  if (dims.length < 2 || !fits(width) || !fits(height)) {
    return undefined;
  }
  const slices = dims.slice(0, -2).reduce((product, dim) => product * dim, 1);
  return slices > 0 ? { width, height, slices } : undefined;
}

/** Control points of the viridis colour map (van der Walt and Smith, matplotlib), evenly spaced. */
const VIRIDIS = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
] as const;

/** The colour of a share from 0 to 1. */
export function viridis(share: number): readonly [number, number, number] {
  const at = Math.max(0, Math.min(1, share)) * (VIRIDIS.length - 1);
  const low = VIRIDIS[Math.floor(at)] ?? VIRIDIS[0];
  const high = VIRIDIS[Math.ceil(at)] ?? low;
  const rest = at - Math.floor(at);
  const mix = (channel: 0 | 1 | 2) =>
    Math.round(low[channel] + (high[channel] - low[channel]) * rest);
  return [mix(0), mix(1), mix(2)];
}
