/** Which model uses which kept files: so that updates, evictions and visitors can clear them up. */
import { digest } from "./digest.ts";
import { named, type Store } from "./store.ts";

/** One model that is kept in this browser. */
export interface KeptModel {
  /** Address of its manifest. */
  readonly url: string;
  readonly title: string;
  /** Bytes by SHA-256. Models and variants may share files. */
  readonly files: Readonly<Record<string, number>>;
  /** When it was last loaded, ISO 8601. */
  readonly used: string;
}

const PREFIX = "model-";

/** Bytes: far above any record, each file of which takes about 80. */
const LARGEST = 1 << 20;

/** Every model that is kept, the one used last first. Records that can't be read are left out. */
export async function recorded(store: Store): Promise<KeptModel[]> {
  const models: KeptModel[] = [];
  for (const [key, size] of await store.entries()) {
    if (!key.startsWith(PREFIX)) continue;
    const bytes = new Uint8Array(Math.min(size, LARGEST));
    const length = await store.read(key, bytes);
    const model = parse(new TextDecoder().decode(bytes.subarray(0, length)));
    if (model) models.push(model);
  }
  return models.sort((a, b) => (a.used < b.used ? 1 : -1));
}

/**
 * Write that a model was loaded, and delete what an earlier version of it used and nobody uses now.
 *
 * @param files What was used this time.
 * @param current SHA-256 of every file that the model's manifest names.
 */
export async function remember(
  store: Store,
  model: Omit<KeptModel, "used">,
  current: ReadonlySet<string>,
): Promise<void> {
  const others = await recorded(store);
  const before = others.find(({ url }) => url === model.url)?.files ?? {};
  const stale = Object.keys(before).filter((key) => !current.has(key));
  const still = Object.entries(before).filter(([key]) => current.has(key));
  const files = { ...Object.fromEntries(still), ...model.files };
  await save(store, { ...model, files, used: new Date().toISOString() });
  await drop(
    store,
    stale,
    others.filter(({ url }) => url !== model.url),
  );
}

/** Delete a model's record and the files that no other model uses. */
export async function forget(store: Store, url: string): Promise<void> {
  const models = await recorded(store);
  await store.delete(await keyOf(url));
  const files = models.find((model) => model.url === url)?.files ?? {};
  await drop(
    store,
    Object.keys(files),
    models.filter((model) => model.url !== url),
  );
}

/**
 * Free at least `bytes` by deleting what no record names and then whole models, the one used longest
 * ago first.
 *
 * @param spared Address of a manifest whose model stays.
 * @returns Titles of the models that went; undefined if that doesn't free enough.
 */
export async function makeRoom(
  store: Store,
  bytes: number,
  spared: string,
  busy: ReadonlySet<string>,
): Promise<string[] | undefined> {
  const models = await recorded(store);
  const entries = await store.entries();
  const used = new Set(models.flatMap(({ files }) => Object.keys(files)));
  let missing = bytes;
  for (const [key, size] of entries) {
    if (key.startsWith(PREFIX) || used.has(key) || busy.has(key)) continue;
    await drop(store, [key], []);
    missing -= size;
  }
  const gone: string[] = [];
  for (const model of models.filter(({ url }) => url !== spared).reverse()) {
    if (missing <= 0) break;
    await forget(store, model.url);
    gone.push(model.title);
    const left = await store.entries();
    for (const key of Object.keys(model.files)) {
      if (!left.has(key)) missing -= entries.get(key) ?? 0;
    }
  }
  return missing <= 0 ? gone : undefined;
}

async function drop(store: Store, keys: readonly string[], users: readonly KeptModel[]) {
  for (const key of keys) {
    if (users.some(({ files }) => key in files)) continue;
    try {
      await store.delete(key);
    } catch (error) {
      // Another tab reads it: it goes the next time.
      if (!named(error, "NoModificationAllowedError")) throw error;
    }
  }
}

async function save(store: Store, model: KeptModel): Promise<void> {
  const key = await keyOf(model.url);
  const writer = await store.writer(key);
  if (!writer) return; // another tab writes it
  const bytes = new TextEncoder().encode(JSON.stringify(model));
  try {
    writer.write(bytes, 0);
    await writer.finish(bytes);
  } catch (error) {
    writer.abandon();
    throw error;
  }
}

const keyOf = async (url: string): Promise<string> =>
  PREFIX + (await digest(new TextEncoder().encode(url)));

function parse(text: string): KeptModel | undefined {
  try {
    const model: KeptModel = JSON.parse(text);
    return typeof model.url === "string" && typeof model.files === "object" ? model : undefined;
  } catch {
    return undefined; // cut off by the end of a tab
  }
}
