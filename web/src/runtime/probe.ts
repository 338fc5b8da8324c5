/** Find out what the device offers. Runs in the worker, where the model will run too. */
import type { Probe } from "./types.ts";

/** Ask for an adapter and look at the browser; never throws. */
export async function probe(): Promise<Probe> {
  const [{ adapter, reason }, free] = await Promise.all([findAdapter(), freeStorage()]);
  const { deviceMemory, connection } = navigator as Hints;
  return {
    adapter: adapter && {
      description: describe(adapter),
      features: [...adapter.features],
      maxBufferSize: adapter.limits.maxBufferSize,
      maxStorageBufferBindingSize: adapter.limits.maxStorageBufferBindingSize,
    },
    reason,
    jspi: "Suspending" in WebAssembly,
    cores: navigator.hardwareConcurrency || 1,
    crossOriginIsolated: self.crossOriginIsolated === true,
    memory: deviceMemory === undefined ? null : deviceMemory * GIB,
    free,
    saveData: connection?.saveData === true,
  };
}

const GIB = 2 ** 30;

/** What some browsers tell and TypeScript doesn't know. */
interface Hints extends WorkerNavigator {
  readonly deviceMemory?: number;
  readonly connection?: { readonly saveData?: boolean };
}

async function freeStorage(): Promise<number | null> {
  try {
    const { quota, usage } = await navigator.storage.estimate();
    return quota === undefined ? null : quota - (usage ?? 0);
  } catch {
    return null; // insecure origins have no storage to speak of
  }
}

interface Found {
  readonly adapter: GPUAdapter | null;
  readonly reason: string;
}

async function findAdapter(): Promise<Found> {
  const gpu: GPU | undefined = navigator.gpu;
  if (!gpu) return { adapter: null, reason: "this browser has no WebGPU" };
  try {
    const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
    return { adapter, reason: adapter ? "" : "the browser found no usable GPU" };
  } catch (error) {
    return { adapter: null, reason: `asking for the GPU failed (${String(error)})` };
  }
}

function describe({ info }: GPUAdapter): string {
  return info.description || [info.vendor, info.architecture].filter(Boolean).join(" ") || "GPU";
}

/** Features that onnxruntime's kernels use where they are there. */
const FEATURES: readonly GPUFeatureName[] = ["shader-f16", "subgroups"];

/** Limits that a model may need more of than WebGPU's defaults: taken as high as they go. */
const LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupsPerDimension",
] as const;

/**
 * A device of our own, so that its loss reaches us and not only the runtime.
 *
 * @throws Error if there is no adapter any more, or it refuses.
 */
export async function openDevice(): Promise<GPUDevice> {
  const { adapter, reason } = await findAdapter();
  if (!adapter) throw new Error(reason);
  return adapter.requestDevice({
    requiredFeatures: FEATURES.filter((feature) => adapter.features.has(feature)),
    requiredLimits: Object.fromEntries(LIMITS.map((limit) => [limit, adapter.limits[limit]])),
  });
}
