/** Choose what to run before downloading it: pure, from manifest, device and wishes. */
import type { Device, Manifest, Variant, VariantName } from "./manifest.gen.ts";
import { reasons } from "./reasons.ts";
import type { Candidate, LoadOptions, Probe, RuntimeEvent } from "./types.ts";

export interface Choice {
  /** Best first; each is tried until one works. */
  readonly candidates: readonly Candidate[];
  readonly events: readonly RuntimeEvent[];
  /** Bytes that the least variant needs and that there are, where none fits. */
  readonly short: { readonly needed: number; readonly available: number } | null;
}

/** wasm32 addresses no more, whatever the device has. */
const HEAP = 2 ** 32;

/** Tabs that take more of a phone's memory than this share are ended. */
const SHARE = 0.5;

/** With this much memory or less, threads cost more than they give. */
const LITTLE = 2 ** 31;

/** More threads than this gain little on the small matrices of models that fit a page. */
const MAX_THREADS = 4;

/**
 * What suits a device, best first: smallest and quickest, since every variant passed its gate. q8
 * and uint8 are for those who ask for them: slower than int8 on the CPU, and not for GPUs.
 */
const PREFERENCE: Record<"webgpu-f16" | Device, readonly VariantName[]> = {
  "webgpu-f16": ["int8", "fp16", "q4f16", "q4", "fp32"],
  webgpu: ["int8", "fp16", "q4", "fp32"],
  wasm: ["int8", "fp16", "q4", "fp32", "q8", "uint8"],
};

/** How many dtypes are tried on a device. */
const STEPS: Record<Device, number> = { webgpu: 1, wasm: 2 };

/**
 * What the whole model can run as: each variant that all of its parts have, with the sizes added up
 * and what the most demanding part requires.
 */
function variantsOf(manifest: Manifest): Variant[] {
  const [first, ...others] = manifest.stages.filter(({ kind }) => kind === "model");
  if (!first) throw new Error("the manifest has no model stage");
  return first.variants.flatMap((variant) => {
    const alike = others.map(({ variants }) => variants.find(({ name }) => name === variant.name));
    return alike.every((found) => found !== undefined)
      ? [alike.reduce<Variant>((whole, part) => together(whole, part as Variant), variant)]
      : [];
  });
}

function together(whole: Variant, part: Variant): Variant {
  const { features, maxBufferSize, maxStorageBufferBindingSize } = whole.requires;
  return {
    ...whole,
    size: whole.size + part.size,
    peakMemory: whole.peakMemory + part.peakMemory,
    devices: whole.devices.filter((device) => part.devices.includes(device)),
    requires: {
      features: [...new Set([...features, ...part.requires.features])],
      maxBufferSize: Math.max(maxBufferSize, part.requires.maxBufferSize),
      maxStorageBufferBindingSize: Math.max(
        maxStorageBufferBindingSize,
        part.requires.maxStorageBufferBindingSize,
      ),
    },
  };
}

/** Candidates in the order in which to try them, and why others are not among them. */
export function choose(manifest: Manifest, probe: Probe, options: LoadOptions): Choice {
  const events: RuntimeEvent[] = [];
  const say = (step: string, message: string, level: RuntimeEvent["level"] = "warning") =>
    events.push({ level, step, message });
  const asked = options.device ?? "auto";
  const wanted = asked === "auto" && isForTheCpu(manifest, options) ? "wasm" : asked;
  const candidates: Candidate[] = [];
  if (wanted !== "wasm") {
    if (probe.adapter) candidates.push(...onDevice("webgpu", manifest, probe, options, say));
    else say("device", `The GPU isn't used: ${probe.reason}. The model runs on the CPU.`);
  }
  if (wanted !== "webgpu" || candidates.length === 0) {
    candidates.push(...onDevice("wasm", manifest, probe, options, say));
  } else {
    // Asked for WebGPU: the CPU is still better than nothing, and the page says so.
    candidates.push(...onDevice("wasm", manifest, probe, { ...options, dtype: "auto" }, () => {}));
  }
  if (candidates.some(({ device }) => device === "wasm") && !probe.crossOriginIsolated) {
    say(
      "threads",
      "The CPU runs one thread: the host doesn't send the headers that isolate the page " +
        "(Cross-Origin-Opener-Policy and Cross-Origin-Embedder-Policy).",
      candidates[0]?.device === "wasm" ? "warning" : "info",
    );
  }
  const first = candidates[0];
  const variants = variantsOf(manifest);
  const size = variants.find(({ name }) => name === first?.variant)?.size ?? 0;
  if (probe.free !== null && size > probe.free) {
    say(
      "storage",
      `The next visit downloads the model again: ${mebibytes(size)} exceed the ` +
        `${mebibytes(probe.free)} that the browser still stores.`,
      "info",
    );
  }
  const needed = Math.min(...variants.map(({ peakMemory }) => peakMemory));
  const available = budget(probe, options);
  return { candidates, events, short: first || needed <= available ? null : { needed, available } };
}

/** Bytes that loading a model may take. Who asks for a dtype isn't kept from trying it. */
function budget({ memory }: Probe, { dtype = "auto" }: LoadOptions): number {
  return memory === null || dtype !== "auto" ? HEAP : Math.min(HEAP, memory * SHARE);
}

export const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;

/** Whether who asks for a dtype asks for the CPU: no form of it runs anywhere else. */
function isForTheCpu(manifest: Manifest, { dtype }: LoadOptions): boolean {
  const forms = variantsOf(manifest).filter((variant) => variant.dtype === dtype);
  return forms.length > 0 && forms.every(({ devices }) => !devices.includes("webgpu"));
}

/** Of one dtype, a form for fewer devices, or for those that compute in halves, is the quicker. */
const special = ({ compute, devices }: Variant): number =>
  (compute === "float16" ? 2 : 0) + (devices.length === 1 ? 1 : 0);

type Say = (step: string, message: string, level?: RuntimeEvent["level"]) => void;

function onDevice(
  device: Device,
  manifest: Manifest,
  probe: Probe,
  options: LoadOptions,
  say: Say,
): Candidate[] {
  const halves = probe.adapter?.features.includes("shader-f16") ?? false;
  const order = PREFERENCE[device === "webgpu" && halves ? "webgpu-f16" : device];
  const variants = variantsOf(manifest);
  const able = variants.filter((variant) => !whyNot(variant, device, probe));
  const available = budget(probe, options);
  const fit = able.filter(({ peakMemory }) => peakMemory <= available);
  for (const { name, peakMemory } of able) {
    if (peakMemory <= available) continue;
    const figures = `${mebibytes(peakMemory)}, ${mebibytes(available)} are available`;
    say("memory", `${name} isn't used: loading it takes about ${figures}.`, "info");
  }
  const asked = options.dtype ?? "auto";
  const unfit = variants.filter(({ dtype }) => dtype === asked);
  if (asked !== "auto" && unfit.length === 0) {
    const known = [...new Set(variants.map(({ dtype }) => dtype))].join(", ");
    say("dtype", `There is no variant ${asked}; there are: ${known}.`);
  } else if (unfit[0] && !fit.some(({ dtype }) => dtype === asked)) {
    say("dtype", `${asked} can't run on ${device}: ${whyNot(unfit[0], device, probe)}.`);
  }
  const rank = ({ dtype }: Variant) => {
    if (dtype === asked) return -1;
    const place = order.indexOf(dtype);
    return place < 0 ? order.length : place;
  };
  const costs = ({ size }: Variant) => (probe.saveData && asked === "auto" ? size : 0);
  const sorted = [...fit].sort(
    (a, b) => costs(a) - costs(b) || rank(a) - rank(b) || special(b) - special(a),
  );
  // One step down on the same device, then the next device: every dtype tried costs a download.
  // Forms of one dtype share theirs.
  const tried = [...new Set(sorted.map(({ dtype }) => dtype))].slice(0, STEPS[device]);
  return sorted
    .filter(({ dtype }) => tried.includes(dtype))
    .map((variant) => {
      const made = {
        device,
        flavour: device === "wasm" ? "wasm" : probe.jspi ? "jspi" : "asyncify",
        threads: device === "wasm" ? threads(probe, options) : 1,
      } as const;
      const why = reasons({ ...made, variant }, probe, options);
      return { ...made, dtype: variant.dtype, variant: variant.name, reasons: why };
    });
}

function whyNot(variant: Variant, device: Device, { adapter }: Probe): string {
  if (!variant.devices.includes(device)) return "it wasn't built for that";
  if (device === "wasm" || !adapter) return "";
  const missing = variant.requires.features.filter((name) => !adapter.features.includes(name));
  if (missing.length) return `the GPU lacks ${missing.join(", ")}`;
  if (variant.requires.maxBufferSize > adapter.maxBufferSize) return "a weight exceeds its buffers";
  return variant.requires.maxStorageBufferBindingSize > adapter.maxStorageBufferBindingSize
    ? "a weight exceeds its bindings"
    : "";
}

function threads(probe: Probe, { threads: asked = "auto" }: LoadOptions): number {
  const { cores, crossOriginIsolated, memory } = probe;
  if (!crossOriginIsolated) return 1;
  if (asked !== "auto") return Math.max(1, Math.min(asked, cores));
  return memory !== null && memory <= LITTLE ? 1 : Math.min(MAX_THREADS, cores);
}
