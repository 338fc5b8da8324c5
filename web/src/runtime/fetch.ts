/** Download files and shards: bounded, verified, reported byte by byte, kept for the next visit. */
import { sha256 as portableSha256 } from "@noble/hashes/sha2.js";
import { FetchError, IntegrityError } from "./errors.ts";
import type { File, Blob as Sharded } from "./manifest.gen.ts";
import type { ProgressEvent, RuntimeEvent } from "./types.ts";

const PARALLEL = 6;
const TRIES = 4;
const FIRST_PAUSE = 400;
const CACHE = "onnxsite-files";

/** Statuses after which a second try may succeed. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504]);

type Report = (event: ProgressEvent) => void;
type Say = (event: RuntimeEvent) => void;

/**
 * Everything that one model downloads. Files are named by their content, so one that was verified
 * once is never asked for again: it lies in the Cache API, where that is there.
 */
export class Downloads {
  readonly #root: URL;
  readonly #report: Report;
  readonly #say: Say;
  readonly #pending = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();
  readonly #queue: (() => void)[] = [];
  #active = 0;
  #loaded = 0;
  #total = 0;
  #stored: Promise<Cache | null> | undefined;
  /** Bytes that came over the network, before decompression is counted off. */
  fetched = 0;

  constructor(root: URL, report: Report, say: Say) {
    this.#root = root;
    this.#report = report;
    this.#say = say;
  }

  get overall(): { loaded: number; total: number } {
    return { loaded: this.#loaded, total: this.#total };
  }

  url(file: File): string {
    return new URL(file.path, this.#root).href;
  }

  /** The verified bytes of one file; asked for twice, it is fetched once. */
  file(file: File): Promise<Uint8Array<ArrayBuffer>> {
    const target = new Uint8Array(file.size);
    return this.#once(file, target);
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

  #once(file: File, target: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
    const known = this.#pending.get(file.sha256);
    if (known) return known;
    const work = this.#into(file, target).then(() => target);
    this.#pending.set(file.sha256, work);
    return work;
  }

  async #into(file: File, target: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#total += file.size;
    this.#tell("initiate", file, 0);
    await this.#slot();
    try {
      if (!(await this.#fromCache(file, target))) await this.#fromNetwork(file, target);
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

  async #fromNetwork(file: File, target: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#tell("download", file, 0);
    const url = this.url(file);
    for (let attempt = 1; ; attempt++) {
      const before = this.#loaded;
      try {
        // A second try must not be answered with the bytes that were wrong.
        await this.#stream(file, url, target, attempt > 1 ? "reload" : "default");
        await verify(file, url, target);
        await this.#keep(file, target);
        return;
      } catch (error) {
        this.#loaded = before;
        const final = error instanceof FetchError && error.advice === FINAL;
        if (final || attempt === TRIES) throw error;
        const pause = FIRST_PAUSE * 2 ** (attempt - 1) * (0.5 + Math.random());
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  async #stream(
    file: File,
    url: string,
    target: Uint8Array<ArrayBuffer>,
    cache: RequestCache,
  ): Promise<void> {
    let response: Response;
    try {
      response = await fetch(url, { cache });
    } catch (error) {
      throw new FetchError(`${url} can't be reached (${String(error)}).`, url);
    }
    if (!response.ok) {
      const advice = PASSING.has(response.status) ? undefined : FINAL;
      throw new FetchError(`${url} was answered with status ${response.status}.`, url, advice);
    }
    const type = response.headers.get("content-type") ?? "";
    if (type.startsWith("text/html")) {
      throw new FetchError(`${url} was answered with a web page instead of the file.`, url, FINAL);
    }
    if (!response.body) throw new FetchError(`${url} was answered without content.`, url);
    const reader = response.body.getReader();
    let offset = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (offset + value.length > file.size) {
        await reader.cancel();
        throw new IntegrityError(`${url} is longer than the ${file.size} bytes built.`, url);
      }
      target.set(value, offset);
      offset += value.length;
      this.#loaded += value.length;
      this.fetched += value.length;
      this.#tell("progress", file, offset);
    }
    if (offset < file.size) {
      throw new IntegrityError(`${url} ended after ${offset} of ${file.size} bytes.`, url);
    }
  }

  #tell(status: ProgressEvent["status"], file: File, loaded: number): void {
    this.#report({ status, file: file.path, loaded, total: file.size, overall: this.overall });
  }

  /** Take a file from the Cache API, if it is there and still what it was. */
  async #fromCache(file: File, target: Uint8Array<ArrayBuffer>): Promise<boolean> {
    const cache = await this.#cache();
    const found = await cache?.match(this.url(file));
    if (!cache || !found) return false;
    const bytes = new Uint8Array(await found.arrayBuffer());
    if (bytes.length !== file.size || (await digest(bytes)) !== file.sha256) {
      await cache.delete(this.url(file));
      return false;
    }
    target.set(bytes);
    this.#loaded += file.size;
    this.#tell("progress", file, file.size);
    return true;
  }

  async #keep(file: File, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const cache = await this.#cache();
    try {
      await cache?.put(this.url(file), new Response(bytes.slice()));
    } catch (error) {
      this.#stored = Promise.resolve(null);
      this.#say({
        level: "info",
        step: "storage",
        message: `The model isn't kept for the next visit: the browser stores no more (${String(error)}).`,
      });
    }
  }

  #cache(): Promise<Cache | null> {
    // Private windows and insecure origins have none: every visit downloads again.
    this.#stored ??= globalThis.caches
      ? caches.open(CACHE).catch(() => null)
      : Promise.resolve(null);
    return this.#stored;
  }
}

const FINAL = "Upload the whole site again: the host doesn't have this file.";

async function verify(file: File, url: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const actual = await digest(bytes);
  if (actual !== file.sha256) {
    throw new IntegrityError(
      `${url} isn't the file that was built: its SHA-256 is ${actual}.`,
      url,
    );
  }
}

/** SHA-256 in hexadecimal; insecure origins have no SubtleCrypto. */
export async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = globalThis.crypto.subtle
    ? new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))
    : portableSha256(bytes);
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
