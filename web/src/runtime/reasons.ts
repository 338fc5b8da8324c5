/** Why a model runs the way it does: one sentence for each decision, for visitors. */
import type { Device, FlavourName, Variant } from "./manifest.gen.ts";
import type { LoadOptions, Probe, Reasons } from "./types.ts";

const DEVICES: Record<Device, string> = { webgpu: "WebGPU", wasm: "WASM" };

const FLAVOURS: Record<FlavourName, string> = {
  wasm: "The smallest build of the runtime is loaded, since the GPU isn't used.",
  jspi: "The build for WebGPU is loaded that waits with JSPI, which this browser has.",
  asyncify: "The larger build for WebGPU is loaded, since this browser lacks JSPI.",
};

interface Decision {
  readonly device: Device;
  readonly variant: Variant;
  readonly flavour: FlavourName;
  readonly threads: number;
}

export function reasons(made: Decision, probe: Probe, options: LoadOptions): Reasons {
  return {
    device: device(made, probe, options),
    dtype: dtype(made, probe, options),
    threads: threads(made, probe, options),
    flavour: FLAVOURS[made.flavour],
  };
}

function device({ device, variant }: Decision, { adapter, reason }: Probe, o: LoadOptions): string {
  const name = DEVICES[device];
  if (o.device === device) return `${name} was asked for.`;
  if (device === "webgpu")
    return `${name}: this browser offers ${adapter?.description ?? "a GPU"}.`;
  if (!adapter) return `${name}: ${reason}.`;
  if (!variant.devices.includes("webgpu") && variant.dtype === o.dtype) {
    return `${name}: ${variant.dtype} runs on the CPU alone.`;
  }
  return `${name}: the GPU can't run this model.`;
}

function dtype({ device, variant }: Decision, { saveData }: Probe, options: LoadOptions): string {
  if (options.dtype === variant.dtype) return `${variant.dtype} was asked for.`;
  if (saveData) return `${variant.dtype} is the smallest download: the browser asks to save data.`;
  return `${variant.dtype} comes first for ${DEVICES[device]} among the variants that fit here.`;
}

function threads(made: Decision, probe: Probe, { threads: asked = "auto" }: LoadOptions): string {
  if (made.device === "webgpu") return "One thread: the GPU does the work.";
  if (!probe.crossOriginIsolated) return "One thread: the page isn't isolated by its host.";
  if (asked !== "auto") return `${made.threads} of ${asked} threads that were asked for.`;
  if (probe.cores === 1) return "One thread: this device has one core.";
  if (made.threads === 1) return "One thread: this device has little memory.";
  return `${made.threads} threads for ${probe.cores} cores: more than 4 gain little.`;
}
