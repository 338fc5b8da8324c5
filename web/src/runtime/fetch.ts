/** Everything that one model downloads: bounded, verified, reported, kept for the next visit. */
import { digest } from "./digest.ts";
import { IntegrityError } from "./errors.ts";
import type { File, Manifest, Blob as Sharded } from "./manifest.gen.ts";
import { makeRoom, remember } from "./records.ts";
import { announce, exclusive } from "./shared.ts";
import { NOWHERE, named, openStore, type Store, type Writer } from "./store.ts";
import { NETWORK, receive } from "./transport.ts";
import type { NetworkOptions, ProgressEvent, RuntimeEvent } from "./types.ts";

/** As many requests as browsers send to one host over HTTP/1.1. */
const PARALLEL = 6;

export interface DownloadOptions {
  /** Address of the manifest. */
  readonly manifest: string;
  /** What the manifest's paths are relative to. */
  readonly root: URL;
  /** Whether the host compresses nothing by itself. */
  readonly plainHost: boolean;
  readonly network: NetworkOptions;
  readonly report: (event: ProgressEvent) => void;
  readonly say: (event: RuntimeEvent) => void;
}

/** Files are named by their content, so what was verified once is never asked for again. */
export class Downloads {
  readonly #options: DownloadOptions;
  readonly #network: Required<NetworkOptions>;
  readonly #pending = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();
  readonly #used = new Map<string, number>();
  readonly #queue: (() => void)[] = [];
  #active = 0;
  #loaded = 0;
  #total = 0;
  #store: Promise<Store> | undefined;
  /** Bytes that came over the network, decompressed. */
  fetched = 0;

  constructor(options: DownloadOptions) {
    this.#options = options;
    this.#network = { ...NETWORK, ...options.network };
  }

  get overall(): { loaded: number; total: number } {
    return { loaded: this.#loaded, total: this.#total };
  }

  url(file: File): string {
    return new URL(file.path, this.#options.root).href;
  }

  /** The verified bytes of one file; asked for twice, it is fetched once. */
  file(file: File): Promise<Uint8Array<ArrayBuffer>> {
    const known = this.#pending.get(file.sha256);
    if (known) return known;
    const target = new Uint8Array(file.size);
    const work = this.#into(file, target).then(() => target);
    this.#pending.set(file.sha256, work);
    return work;
  }

  /** The verified bytes of a blob: every shard is written straight to its place. */
  async blob(blob: Sharded): Promise<Uint8Array<ArrayBuffer>> {
    const target = new Uint8Array(blob.size);
    let offset = 0;
    const parts = blob.shards.map((shard) => {
      const start = offset;
      offset += shard.size;
      return this.#into(shard, target.subarray(start, start + shard.size));
    });
    await Promise.all(parts);
    return target;
  }

  /** Write down what was used, and clear away what an earlier version of the model used. */
  async remember(manifest: Manifest): Promise<void> {
    const store = await this.#opened();
    if (store.kind === "none") return;
    const { manifest: url } = this.#options;
    const model = { url, title: manifest.title, files: Object.fromEntries(this.#used) };
    try {
      await remember(store, model, digests(manifest));
    } catch (error) {
      this.#say(`What is kept of the model isn't written down (${String(error)}).`);
    }
  }

  async #into(file: File, target: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#total += file.size;
    this.#tell("initiate", file, 0);
    await this.#slot();
    const progress = new Progress(file.size, (loaded, step) => {
      this.#loaded += step;
      this.#tell("progress", file, loaded);
    });
    try {
      const work = () => this.#take(file, target, progress);
      await exclusive(file.sha256, work, (loaded) => progress.at(loaded));
      this.#used.set(file.sha256, file.size);
      progress.at(file.size);
      this.#tell("done", file, file.size);
    } finally {
      this.#active--;
      this.#queue.shift()?.();
    }
  }

  async #slot(): Promise<void> {
    if (this.#active >= PARALLEL) await new Promise<void>((go) => this.#queue.push(go));
    this.#active++;
  }

  /** From the store, or from the network and into the store. */
  async #take(file: File, target: Uint8Array<ArrayBuffer>, progress: Progress): Promise<void> {
    const store = await this.#opened();
    let start = await this.#kept(store, file, target);
    if (start === file.size) {
      if ((await digest(target)) === file.sha256) return;
      start = 0; // damaged on the disk: it is overwritten
    }
    progress.at(start);
    this.#tell("download", file, start);
    const writer = await this.#writer(store, file);
    await this.#receive(file, target, start, writer, progress);
  }

  async #receive(
    file: File,
    target: Uint8Array<ArrayBuffer>,
    start: number,
    writer: Writer | undefined,
    progress: Progress,
  ): Promise<void> {
    const { plainHost, say } = this.#options;
    const url = this.url(file);
    const unzips = plainHost && file.gzip !== undefined && "DecompressionStream" in globalThis;
    let refusal: unknown;
    try {
      await receive({
        file,
        url,
        zipped: unzips ? `${url}.gz` : undefined,
        target,
        start,
        network: this.#network,
        onBytes: (offset, chunk) => {
          if (chunk) {
            this.fetched += chunk.length;
            try {
              if (!refusal) writer?.write(chunk, offset);
            } catch (error) {
              refusal = error;
            }
          }
          progress.at(offset + (chunk?.length ?? 0));
          announce(file.sha256, offset);
        },
        onRetry: (reason) =>
          say({ level: "info", step: "network", message: `Asked again: ${reason}` }),
      });
    } catch (error) {
      writer?.abandon();
      // What came isn't a beginning to go on from.
      if (error instanceof IntegrityError) await this.#discard(file);
      throw error;
    }
    await this.#finish(file, target, writer, refusal);
  }

  async #finish(
    file: File,
    target: Uint8Array<ArrayBuffer>,
    writer: Writer | undefined,
    refusal: unknown,
  ): Promise<void> {
    try {
      if (refusal) throw refusal;
      await writer?.finish(target);
    } catch (error) {
      writer?.abandon();
      await this.#retryKeeping(file, target, error);
    }
  }

  /** Once more when the disk was full and something else can go; else nothing is kept from now on. */
  async #retryKeeping(file: File, target: Uint8Array<ArrayBuffer>, cause: unknown): Promise<void> {
    let reason = cause;
    try {
      const store = await this.#opened();
      await store.delete(file.sha256);
      if (named(cause, "QuotaExceededError")) {
        const busy = new Set([...this.#used.keys(), ...this.#pending.keys()]);
        const gone = await makeRoom(store, file.size, this.#options.manifest, busy);
        if (gone?.length)
          this.#say(`To make room, this browser no longer keeps: ${gone.join(", ")}.`);
        if (gone) {
          const writer = await store.writer(file.sha256);
          await writer?.finish(target);
          return;
        }
      }
    } catch (error) {
      reason = error;
    }
    this.#keepNoMore(reason);
  }

  async #kept(store: Store, file: File, target: Uint8Array<ArrayBuffer>): Promise<number> {
    try {
      return await store.read(file.sha256, target);
    } catch (error) {
      this.#say(`What is kept of the model can't be read (${String(error)}).`);
      return 0;
    }
  }

  async #writer(store: Store, file: File): Promise<Writer | undefined> {
    try {
      return await store.writer(file.sha256);
    } catch (error) {
      this.#keepNoMore(error);
      return undefined;
    }
  }

  #keepNoMore(reason: unknown): void {
    this.#store = Promise.resolve(NOWHERE);
    this.#say(
      `The model isn't kept for the next visit: the browser stores no more (${String(reason)}).`,
    );
  }

  async #discard(file: File): Promise<void> {
    try {
      await (await this.#opened()).delete(file.sha256);
    } catch (error) {
      this.#say(`A damaged file can't be deleted (${String(error)}).`);
    }
  }

  #opened(): Promise<Store> {
    this.#store ??= openStore().then(({ store, reason }) => {
      if (store.kind === "none") this.#say(`Nothing is kept for the next visit: ${reason}.`);
      return store;
    });
    return this.#store;
  }

  #say(message: string): void {
    this.#options.say({ level: "info", step: "storage", message });
  }

  #tell(status: ProgressEvent["status"], file: File, loaded: number): void {
    const { path, size } = file;
    this.#options.report({ status, file: path, loaded, total: size, overall: this.overall });
  }
}

/** How far one file is; goes back where it begins again. */
class Progress {
  readonly #total: number;
  readonly #tell: (loaded: number, step: number) => void;
  #loaded = 0;

  constructor(total: number, tell: (loaded: number, step: number) => void) {
    this.#total = total;
    this.#tell = tell;
  }

  at(loaded: number): void {
    const capped = Math.min(loaded, this.#total);
    const step = capped - this.#loaded;
    this.#loaded = capped;
    if (step !== 0) this.#tell(capped, step);
  }
}

/** SHA-256 of every file that a manifest names, wherever it names it. */
function digests(manifest: unknown): Set<string> {
  const found = new Set<string>();
  const look = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    if ("path" in value && "sha256" in value) found.add(value.sha256 as string);
    for (const inner of Object.values(value)) look(inner);
  };
  look(manifest);
  return found;
}
