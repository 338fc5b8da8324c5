/** Device, variant and threads: from the address, chosen by the visitor, kept in the address. */
import type { Device, Manifest, VariantName } from "../runtime/index.ts";
import { TEXT } from "./text.ts";

export interface Options {
  readonly device: Device | "auto";
  readonly dtype: VariantName | "auto";
  readonly threads: number | "auto";
}

export interface Offered {
  readonly devices: readonly Device[];
  /** Variants with the bytes of each. */
  readonly dtypes: ReadonlyMap<VariantName, number>;
}

/** What the model's own stages can run as. */
export function offeredBy({ stages }: Manifest): Offered {
  const models = stages.filter(({ kind }) => kind === "model");
  const variants = models.flatMap((stage) => stage.variants);
  const dtypes = new Map<VariantName, number>();
  for (const dtype of new Set(variants.map((variant) => variant.dtype))) {
    // Forms of one dtype differ in size by little; the smallest of each stage counts.
    const forms = models.map((stage) =>
      stage.variants.filter((variant) => variant.dtype === dtype),
    );
    dtypes.set(dtype, sum(forms.filter(({ length }) => length > 0).map(least)));
  }
  const devices = (["webgpu", "wasm"] as const).filter((device) =>
    variants.some((variant) => variant.devices.includes(device)),
  );
  return { devices, dtypes };
}

/** Most threads that a page may ask for; the runtime caps it at what the device has. */
const MOST_THREADS = 64;

/** Read `?device=wasm&dtype=int8&threads=1`; what isn't offered is left to "auto", with a note. */
export function parseOptions(
  query: URLSearchParams,
  { devices, dtypes }: Offered,
): { options: Options; notes: string[] } {
  const notes: string[] = [];
  const pick = <T extends string>(name: string, allowed: readonly T[]): T | "auto" => {
    const value = query.get(name);
    const found = allowed.find((item) => item === value);
    if (value !== null && value !== "auto" && found === undefined) {
      notes.push(TEXT.note.ignored(name, value, allowed.join(", ")));
    }
    return found ?? "auto";
  };
  const counts = Array.from({ length: MOST_THREADS }, (_, index) => String(index + 1));
  const device = pick("device", devices);
  const dtype = pick("dtype", [...dtypes.keys()]);
  const threads = query.get("threads") ?? "auto";
  const known = threads === "auto" || counts.includes(threads);
  if (!known) {
    notes.push(TEXT.note.ignored("threads", threads, `1 to ${MOST_THREADS}`));
  }
  return {
    options: { device, dtype, threads: known && threads !== "auto" ? Number(threads) : "auto" },
    notes,
  };
}

/** The address with `name` set, or without it where the choice is automatic. */
export function withOption(address: URL, name: keyof Options, value: string): URL {
  const changed = new URL(address);
  if (value === "auto") {
    changed.searchParams.delete(name);
  } else {
    changed.searchParams.set(name, value);
  }
  return changed;
}

/** The bytes of the smallest variant of each of the model's own stages. */
export function smallestSize({ stages }: Manifest): number {
  return sum(stages.filter(({ kind }) => kind === "model").map(({ variants }) => least(variants)));
}

/**
 * About how many bytes a first visit downloads with `options`: every stage and the runtime. What is
 * left to the runtime's choice counts with its smallest.
 */
export function downloadSize({ stages, runtime }: Manifest, options: Options): number {
  const models = stages.map(({ variants }) => {
    const asked = variants.filter(({ dtype }) => dtype === options.dtype);
    return least(asked.length > 0 ? asked : variants);
  });
  const flavours = runtime.flavours
    .filter(
      ({ name }) => options.device === "auto" || (name === "wasm") === (options.device === "wasm"),
    )
    .map(({ api, glue, wasm }) => ({ size: api.size + glue.size + wasm.size }));
  return sum(models) + least(flavours);
}

const least = (files: readonly { readonly size: number }[]) =>
  Math.min(...files.map(({ size }) => size));

const sum = (sizes: readonly number[]) => sizes.reduce((total, size) => total + size, 0);
