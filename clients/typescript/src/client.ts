import createFetchClient, { type Client as FetchClient } from "openapi-fetch";

import { pause } from "./bounds.js";
import { forgotten, idOf, post, resume, type CallOptions, type Intent, type Surroundings } from "./intent.js";
import type { IntentRequest, IntentResult, KeyedPath, PlaceOrder } from "./result.js";
import type { paths } from "./schema.gen.js";
import { limitsOf, sender, type Limits, type Send } from "./send.js";
import { defaultStore, type IntentStore, type StoredIntent } from "./store.js";
import { waitForTask, type TaskResult, type WaitOptions } from "./task.js";

export interface ClientOptions extends Partial<Limits> {
  /** Where the service is; without it, the page's own origin. */
  baseUrl?: string;
  /** An API key, or what gives the newest token; it is asked before every request. */
  credential?: string | (() => string | Promise<string>);
  /**
   * Who is signed in, such as a user id. A key belongs to one principal: intents of another owner are neither reused
   * nor resumed. Needed wherever more than one person uses a browser.
   */
  owner?: string;
  /** Default: IndexedDB, or memory where there is none. */
  store?: IntentStore;
  /** `false` stores no bodies: then resumePending cannot send, and the same call again has to. Default: true. */
  keepBodies?: boolean;
  /** How long an intent without an outcome is sent. Default, and what the service allows for: 24 hours. */
  keepMs?: number;
  fetch?: (request: Request) => Promise<Response>;
  /** Sees every request that was sent. */
  onSend?: (send: Send) => void;
  /** Waits between two requests; tests need not. */
  pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** An intent about one order. */
export interface OrderIntent extends Intent {
  /** Places the order, once. */
  place(order: PlaceOrder, options?: CallOptions): Promise<IntentResult<"/orders">>;
  /** Cancels an order, once. */
  cancel(orderId: string, options?: CallOptions): Promise<IntentResult<"/orders/{orderId}/cancel">>;
}

/** What became of an intent that an earlier page had left open. */
export type Resumed = { [P in KeyedPath]: { name: string; path: P; result: IntentResult<P> } }[KeyedPath];

export interface Client {
  orders: { intent(name: string): OrderIntent };
  /** For any operation that takes a key. */
  intent(name: string): Intent;
  /** The owner's intents without a definite outcome. */
  pending(): Promise<StoredIntent[]>;
  /** Sends what an earlier page had left open. Call it when a page loads, and when the browser is online again. */
  resumePending(options?: CallOptions): Promise<Resumed[]>;
  /** Follows long work: the `taskId` of an `accepted` result. */
  waitForTask(taskId: string, options?: WaitOptions): Promise<TaskResult>;
  /** Every operation of the contract, typed (openapi-fetch); retried like intents, but you bring the key. */
  api: FetchClient<paths>;
}

const defaults: Limits = { deadlineMs: 30_000, sendTimeoutMs: 15_000, maxSends: Infinity };
const dayMs = 24 * 3_600_000; // x-retry-windows' client-queue

export function createClient(options: ClientOptions = {}): Client {
  const { baseUrl = "", credential, owner = "", store = defaultStore(), keepBodies = true, keepMs = dayMs } = options;
  const network = {
    fetch: options.fetch ?? ((request) => fetch(request)), // looked up late, for those who replace it
    credential: typeof credential === "string" ? () => credential : credential,
    onSend: options.onSend,
    pause: options.pause ?? pause,
  };
  const limits = limitsOf(defaults, options);
  const api = createFetchClient<paths>({ baseUrl, fetch: sender(network, limits) });
  const s: Surroundings = { api, network, limits, store, owner, keepBodies, keepMs };

  const intent = (name: string): Intent => ({
    name,
    post: <P extends KeyedPath>(path: P, request: IntentRequest<P>, o: CallOptions = {}) => {
      const { path: parameters, body } = request as { path?: Record<string, string>; body?: unknown };
      return post(s, name, path, { path: parameters, body: JSON.stringify(body) }, o) as Promise<IntentResult<P>>;
    },
    forget: () => store.update(idOf(owner, name), () => undefined).then(() => {}),
  });

  const pending = async () => {
    const all = await store.list();
    const old = (record: StoredIntent | undefined) => record && forgotten(record, Date.now());
    for (const { owner, name } of all.filter(old))
      await store.update(idOf(owner, name), (now) => (old(now) ? undefined : now));
    return all.filter((record) => record.owner === owner && record.state === "pending");
  };

  return {
    api,
    intent,
    pending,
    orders: {
      intent: (name) => {
        const any = intent(name);
        return {
          ...any,
          place: (body, o) => any.post("/orders", { body }, o),
          cancel: (orderId, o) => any.post("/orders/{orderId}/cancel", { path: { orderId } }, o),
        };
      },
    },
    resumePending: async (o = {}) => {
      const resumed = (await pending()).map(async (record) => {
        return { name: record.name, path: record.path, result: await resume(s, record, o) };
      });
      return (await Promise.all(resumed)).filter(({ result }) => result) as Resumed[];
    },
    waitForTask: (taskId, o) =>
      waitForTask((signal) => api.GET("/tasks/{taskId}", { params: { path: { taskId } }, signal }), network, o),
  };
}
