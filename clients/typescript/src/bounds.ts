// Bounds in time, and the one-at-a-time of an intent.

/**
 * within runs work with a signal that aborts after `ms`, or with `outer`. It rejects as soon as that happens, whether
 * or not work listens: a fetch or a credential that hangs must not hold up the answer "unknown".
 */
export async function within<T>(
  ms: number,
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const { signal } = controller;
  const stop = () => controller.abort(outer?.reason);
  const timer = setTimeout(() => controller.abort(new DOMException(`${ms} ms are over`, "TimeoutError")), ms);
  if (outer?.aborted) stop();
  outer?.addEventListener("abort", stop);
  try {
    return await new Promise<T>((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      signal.throwIfAborted();
      work(signal).then(resolve, reject);
    });
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener("abort", stop);
  }
}

/** pause waits, but not past the moment at which the browser is online again. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      globalThis.removeEventListener?.("online", end);
      if (signal.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
    globalThis.addEventListener?.("online", end);
  });
}

const turns = new Map<string, Promise<unknown>>();

/**
 * alone lets one caller at a time send an intent: in all tabs where there are Web Locks, else in this page. A second
 * click then finds what became of the first. The store alone makes sure that both use one key.
 */
export async function alone<T>(name: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const locks = (globalThis.navigator as Navigator | undefined)?.locks;
  if (locks) return locks.request(`orderonce:${name}`, { signal }, work) as Promise<T>;

  const before = turns.get(name);
  const mine = (async () => {
    await before?.catch(() => {});
    signal.throwIfAborted();
    return work();
  })();
  turns.set(name, mine);
  try {
    return await mine;
  } finally {
    if (turns.get(name) === mine) turns.delete(name);
  }
}
