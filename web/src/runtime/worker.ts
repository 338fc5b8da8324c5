/** The worker: answers one request after the other, since a session can't run twice at once. */
import { Engine } from "./engine.ts";
import { DisposedError, toData } from "./errors.ts";
import { Downloads } from "./fetch.ts";
import { probe } from "./probe.ts";
import type { Kept, Reply, Request, Requests, Tensors, Verb } from "./protocol.ts";
import { forget, recorded } from "./records.ts";
import { openStore } from "./store.ts";

const post = (reply: Reply, transfer: Transferable[] = []): void =>
  self.postMessage(reply, { transfer });

let engine: Engine | undefined;

const loaded = (): Engine => {
  if (!engine) throw new DisposedError();
  return engine;
};

type Handlers = { [V in Verb]: (args: Requests[V]["args"]) => Promise<Requests[V]["result"]> };

const HANDLERS: Handlers = {
  probe,

  async load({ manifest, base, candidate, network, plainHost }) {
    const downloads = new Downloads({
      manifest: base,
      root: new URL(manifest.root, base),
      plainHost,
      network,
      report: (event) => post({ kind: "progress", event }),
      say: (event) => post({ kind: "event", event }),
    });
    engine = new Engine(manifest, candidate, downloads, {
      onLost: (error) => post({ kind: "lost", error: toData(error) }),
      onStart: (state) => post({ kind: state }),
    });
    // For a look from the browser's console: the worker's context has it as `engine`.
    Object.assign(self, { engine });
    await engine.open();
    await downloads.remember(manifest);
    const { total } = downloads.overall;
    return { timings: engine.timings, downloaded: downloads.fetched, total };
  },

  async run({ inputs, stage }) {
    const { outputs, timings } = await loaded().run(inputs, stage);
    return { outputs, timings };
  },

  kept,

  async forget({ url }) {
    const { store } = await openStore();
    if (url) await forget(store, url);
    else for (const key of (await store.entries()).keys()) await store.delete(key);
    return kept();
  },

  selfTest: () => loaded().selfTest(),
};

async function kept(): Promise<Kept> {
  const { store, reason } = await openStore();
  const sizes = [...(await store.entries()).values()];
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  return { store: store.kind, reason, models: await recorded(store), bytes };
}

/** Held as long as this worker lives, whatever ends it; insecure origins have no locks. */
navigator.locks?.request(self.name, () => {
  post({ kind: "alive" });
  return new Promise(() => {});
});

let previous: Promise<unknown> = Promise.resolve();

self.addEventListener("message", ({ data }: MessageEvent<Request>) => {
  previous = previous.then(() => answer(data));
});

async function answer({ id, verb, args }: Request): Promise<void> {
  try {
    const result = await HANDLERS[verb](args as never);
    post(
      { kind: "result", id, result },
      verb === "run" ? buffers(result as Requests["run"]["result"]) : [],
    );
  } catch (error) {
    post({ kind: "error", id, error: toData(error) });
  }
}

/** Outputs are handed over, not copied; two may lie in one buffer. */
function buffers({ outputs }: { outputs: Tensors }): Transferable[] {
  return [...new Set(Object.values(outputs).map(({ data }) => data.buffer as ArrayBuffer))];
}
