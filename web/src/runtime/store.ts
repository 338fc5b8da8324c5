/**
 * Where a browser keeps what was downloaded: the origin's private file system (OPFS), else the
 * Cache API, else nowhere. Entries are named by the SHA-256 of their content, and whoever reads one
 * holds it against its name: no mark says that an entry is complete, so none can lie.
 */

/** Bytes on their way into a store. */
export interface Writer {
  /** Add `chunk` at `offset`, which may be lower than before: what is behind it is cut off. */
  write(chunk: Uint8Array<ArrayBuffer>, offset: number): void;
  /** The entry is `bytes` now. */
  finish(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Stop here; what a store can go on with later stays. */
  abandon(): void;
}

export interface Store {
  readonly kind: "opfs" | "cache" | "none";
  /** Read into `target`: how many bytes there are, at most its length; 0 if there is no entry. */
  read(key: string, target: Uint8Array<ArrayBuffer>): Promise<number>;
  /** Begin an entry, or go on with it; undefined while somebody else writes it. */
  writer(key: string): Promise<Writer | undefined>;
  delete(key: string): Promise<void>;
  /** Bytes of every entry, unfinished ones too. */
  entries(): Promise<Map<string, number>>;
}

/** As in the library of workers, which can't be had beside the one of windows. */
interface SyncAccessHandle {
  read(target: Uint8Array, options: { at: number }): number;
  write(source: Uint8Array, options: { at: number }): number;
  getSize(): number;
  truncate(size: number): void;
  flush(): void;
  close(): void;
}

const NAME = "onnxsite";

/** Milliseconds between tries to open a file that another context hasn't let go of yet. */
const PAUSES = [20, 80, 200];

/** Milliseconds for the private file system to answer: no load may wait for it for ever. */
const PATIENCE = 5_000;

/** What `asked` gives, or a TimeoutError; what comes later is handed to `drop`. */
async function inTime<T>(asked: Promise<T>, drop: (late: T) => void): Promise<T> {
  let over = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      over = true;
      const words = "The browser's private file system doesn't answer.";
      reject(new DOMException(words, "TimeoutError"));
    }, PATIENCE);
  });
  asked.then(
    (value) => over && drop(value),
    () => {}, // whoever waits is told
  );
  try {
    return await Promise.race([asked, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Kept in files. Synchronous handles, which only workers have, are ten times as fast as the rest. */
export class FileStore implements Store {
  readonly kind = "opfs";
  readonly #folder: FileSystemDirectoryHandle;
  /** Files that are being opened: Chromium never answers one that is garbage by then. */
  readonly #asked = new Set<FileSystemFileHandle>();

  constructor(folder: FileSystemDirectoryHandle) {
    this.#folder = folder;
  }

  async read(key: string, target: Uint8Array<ArrayBuffer>): Promise<number> {
    const handle = await this.#open(key, false);
    if (!handle) return 0;
    try {
      return handle.read(target, { at: 0 });
    } finally {
      handle.close();
    }
  }

  async writer(key: string): Promise<Writer | undefined> {
    const handle = await this.#open(key, true);
    if (!handle) return undefined;
    let end = handle.getSize();
    let closed = false;
    const close = () => {
      if (!closed) handle.close();
      closed = true;
    };
    const write: Writer["write"] = (chunk, offset) => {
      if (offset < end) handle.truncate(offset);
      let done = 0;
      // A full disk shortens a write in some browsers and throws in others.
      while (done < chunk.length) {
        const count = handle.write(chunk.subarray(done), { at: offset + done });
        if (count === 0) throw new DOMException("The disk is full.", "QuotaExceededError");
        done += count;
      }
      end = offset + chunk.length;
    };
    return {
      write,
      async finish(bytes) {
        if (end !== bytes.length) write(bytes, 0);
        handle.flush();
        close();
      },
      abandon: close,
    };
  }

  async delete(key: string): Promise<void> {
    try {
      await this.#folder.removeEntry(key);
    } catch (error) {
      if (!named(error, "NotFoundError")) throw error;
    }
  }

  async entries(): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    // The DOM library of TypeScript lacks the iterator.
    const folder = this.#folder as unknown as AsyncIterable<[string, FileSystemHandle]>;
    for await (const [key, handle] of folder) {
      if (handle.kind === "file")
        found.set(key, (await (handle as FileSystemFileHandle).getFile()).size);
    }
    return found;
  }

  /** A handle that nobody else holds; undefined if there is no file, or it stays in use. */
  async #open(key: string, create: boolean): Promise<SyncAccessHandle | undefined> {
    for (const pause of [...PAUSES, 0]) {
      try {
        return await inTime(this.#handle(key, create), (late) => late.close());
      } catch (error) {
        if (named(error, "NotFoundError")) return undefined;
        if (!named(error, "NoModificationAllowedError")) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    return undefined;
  }

  async #handle(key: string, create: boolean): Promise<SyncAccessHandle> {
    const file = await this.#folder.getFileHandle(key, { create });
    const opening = file as unknown as { createSyncAccessHandle(): Promise<SyncAccessHandle> };
    this.#asked.add(file);
    try {
      return await opening.createSyncAccessHandle();
    } finally {
      this.#asked.delete(file);
    }
  }
}

/** Kept as responses, each entered when it is complete. */
export class CacheStore implements Store {
  readonly kind = "cache";
  readonly #cache: Cache;

  constructor(cache: Cache) {
    this.#cache = cache;
  }

  async read(key: string, target: Uint8Array<ArrayBuffer>): Promise<number> {
    const found = await this.#cache.match(address(key));
    if (!found) return 0;
    const bytes = new Uint8Array(await found.arrayBuffer());
    target.set(bytes.subarray(0, target.length));
    return Math.min(bytes.length, target.length);
  }

  async writer(key: string): Promise<Writer> {
    return {
      write() {},
      finish: (bytes) => this.#cache.put(address(key), new Response(bytes.slice())),
      abandon() {},
    };
  }

  async delete(key: string): Promise<void> {
    await this.#cache.delete(address(key));
  }

  async entries(): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    for (const { url } of await this.#cache.keys()) {
      const key = new URL(url).pathname.slice(1);
      const body = await this.#cache.match(url);
      found.set(key, (await body?.blob())?.size ?? 0);
    }
    return found;
  }
}

/** Keeps nothing. */
export const NOWHERE: Store = {
  kind: "none",
  read: async () => 0,
  writer: async () => undefined,
  delete: async () => {},
  entries: async () => new Map(),
};

/** The best store that works here; `reason` says why it isn't files. */
export async function openStore(): Promise<{ store: Store; reason: string }> {
  let reason = "the browser has no private file system";
  try {
    const folder = await inTime(ownFolder(), () => {});
    if (folder) {
      // Some browsers have the folder without the handles.
      if ("createSyncAccessHandle" in FileSystemFileHandle.prototype) {
        return { store: new FileStore(folder), reason: "" };
      }
    }
  } catch (error) {
    // Private windows refuse it.
    reason = `the browser refuses its private file system (${String(error)})`;
  }
  try {
    if (globalThis.caches) return { store: new CacheStore(await caches.open(NAME)), reason };
  } catch (error) {
    reason = `the browser refuses storage (${String(error)})`;
  }
  return { store: NOWHERE, reason };
}

async function ownFolder(): Promise<FileSystemDirectoryHandle | null> {
  const root = await navigator.storage?.getDirectory?.();
  return root ? root.getDirectoryHandle(NAME, { create: true }) : null;
}

export const named = (error: unknown, name: string): boolean =>
  error instanceof DOMException && error.name === name;

/** An address that no file of a site has; the Cache API wants one of http. */
const address = (key: string): string => `https://${NAME}.invalid/${key}`;
