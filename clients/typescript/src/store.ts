import { createStore, promisifyRequest } from "idb-keyval";

/** What is kept of an intent, from before its first send. */
export interface StoredIntent {
  owner: string;
  name: string;
  /** The Idempotency-Key. */
  key: string;
  /** The path of openapi.yaml that it is sent to. */
  path: string;
  /** The API-Version it was minted under: part of the request's identity, so a newer client sends the old one. */
  apiVersion: string;
  fingerprint: string;
  /** What is sent, byte for byte. Gone once the outcome is known or the intent has expired. */
  request?: { path?: Record<string, string> | undefined; body?: string | undefined } | undefined;
  /**
   * - `pending`: it may have been sent
   * - `settled`: it was done; the key stays, so that a late second click gets the first answer
   * - `rejected`: nothing was done; the same request gets the same key, and another one is a new attempt
   */
  state: "pending" | "settled" | "rejected";
  /** Both in milliseconds since 1970. Pending intents are not sent past `expiresAt`, all others are forgotten then. */
  createdAt: number;
  expiresAt: number;
}

/** Where intents outlive a request. Two methods, so that you can bring your own. */
export interface IntentStore {
  /**
   * Replaces a record by what `change` makes of it, and `undefined` removes it. Nobody may write between the reading
   * and the writing: two tabs that mint a key at once must end up with one. Resolves to what is stored then, once it is.
   */
  update(id: string, change: Change): Promise<StoredIntent | undefined>;
  list(): Promise<StoredIntent[]>;
}

export type Change = (now: StoredIntent | undefined) => StoredIntent | undefined;

/** memoryStore forgets everything with the process: for Node, and for places without IndexedDB. */
export function memoryStore(): IntentStore {
  const records = new Map<string, StoredIntent>();
  return {
    async update(id, change) {
      const now = records.get(id);
      const next = change(now && { ...now });
      if (next) records.set(id, next);
      else records.delete(id);
      return next;
    },
    list: async () => [...records.values()],
  };
}

/** indexedDBStore outlives reloads and is shared by the tabs of an origin. A write is one transaction of IndexedDB. */
export function indexedDBStore(database = "orderonce"): IntentStore {
  const use = createStore(database, "intents");
  return {
    update: (id, change) =>
      use("readwrite", async (store) => {
        // idb-keyval's own update cannot remove; the requests of one transaction follow each other without a gap.
        const done = promisifyRequest(store.transaction);
        let next: StoredIntent | undefined;
        store.get(id).onsuccess = (event) => {
          next = change((event.target as IDBRequest<StoredIntent | undefined>).result);
          if (next) store.put(next, id);
          else store.delete(id);
        };
        await done;
        return next;
      }),
    list: () => use("readonly", (store) => promisifyRequest(store.getAll() as IDBRequest<StoredIntent[]>)),
  };
}

export function defaultStore(): IntentStore {
  return typeof indexedDB === "undefined" ? memoryStore() : indexedDBStore();
}
