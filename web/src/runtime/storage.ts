/** What this browser keeps of the models of this origin: to be shown and cleared. */
import { WorkerClient } from "./client.ts";
import type { Kept, Requests } from "./protocol.ts";

/** How much of the browser's storage the origin uses; bytes. */
export interface Room {
  readonly used: number;
  readonly quota: number;
  /** Whether the browser has promised not to clear it when the disk fills up. */
  readonly persistent: boolean;
}

export const storage = {
  /** The models that are kept, and what they take. */
  kept: (): Promise<Kept> => ask("kept", {}),

  /** Delete a model by its manifest's address, or everything; models that are loaded go on running. */
  forget: (url?: string): Promise<Kept> => ask("forget", { url }),

  /** undefined where the browser doesn't say. */
  async room(): Promise<Room | undefined> {
    if (!navigator.storage?.estimate) return undefined;
    const { usage = 0, quota = 0 } = await navigator.storage.estimate();
    return { used: usage, quota, persistent: (await navigator.storage.persisted?.()) ?? false };
  },

  /** Ask the browser not to clear it when the disk fills up; some ask the visitor. */
  async persist(): Promise<boolean> {
    return (await navigator.storage?.persist?.()) ?? false;
  },
};

/** Only workers have the fast handles of the private file system, and decide where things lie. */
async function ask<V extends "kept" | "forget">(
  verb: V,
  args: Requests[V]["args"],
): Promise<Requests[V]["result"]> {
  const client = new WorkerClient({ onProgress() {}, onEvent() {} });
  try {
    return await client.request(verb, args);
  } finally {
    client.end();
  }
}
