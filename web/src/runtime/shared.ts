/** Several tabs share one download: who comes first does it, the others watch it and take it over. */

/** Milliseconds without a word from the tab that downloads: it may be asleep, or gone. */
const PATIENCE = 10_000;

/** Milliseconds between two words. */
const RHYTHM = 200;

interface Word {
  readonly key: string;
  readonly loaded: number;
}

const channel = globalThis.BroadcastChannel ? new BroadcastChannel("onnxsite") : undefined;
const listeners = new Map<string, Set<(loaded: number) => void>>();
const lastWord = new Map<string, number>();

channel?.addEventListener("message", ({ data: { key, loaded } }: MessageEvent<Word>) => {
  for (const listener of listeners.get(key) ?? []) listener(loaded);
});

/** Tell other tabs how far the download of `key` is. */
export function announce(key: string, loaded: number): void {
  const now = performance.now();
  if (now - (lastWord.get(key) ?? -RHYTHM) < RHYTHM) return;
  lastWord.set(key, now);
  channel?.postMessage({ key, loaded } satisfies Word);
}

/**
 * Do `work` while no other tab or worker of this origin does it for the same `key`. If the other one
 * falls silent, or the browser has no locks, it is done at the same time.
 *
 * @param onElsewhere Told how many bytes the other one has.
 */
export async function exclusive<T>(
  key: string,
  work: () => Promise<T>,
  onElsewhere: (loaded: number) => void,
): Promise<T> {
  const { locks } = navigator;
  if (!locks) return work(); // insecure origins have none
  const silence = new AbortController();
  const wait = () => setTimeout(() => silence.abort(), PATIENCE);
  let timer = wait();
  const heard = (loaded: number) => {
    clearTimeout(timer);
    timer = wait();
    onElsewhere(loaded);
  };
  const mine = listeners.get(key) ?? new Set();
  listeners.set(key, mine.add(heard));
  const over = () => {
    clearTimeout(timer);
    mine.delete(heard);
    if (mine.size === 0) listeners.delete(key);
  };
  let granted = false;
  try {
    return await locks.request(`onnxsite ${key}`, { signal: silence.signal }, () => {
      granted = true;
      over();
      return work();
    });
  } catch (error) {
    if (granted || !silence.signal.aborted) throw error;
    return work();
  } finally {
    over();
  }
}
