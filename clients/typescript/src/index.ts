/**
 * The client of OrderOnce: one order for each intent, through lost answers, reloads and tabs. README.md tells how.
 *
 * @packageDocumentation
 */
export { createClient, type Client, type ClientOptions, type OrderIntent, type Resumed } from "./client.js";
export { IntentConflictError, type CallOptions, type Intent } from "./intent.js";
export type * from "./result.js";
export { indexedDBStore, memoryStore, type Change, type IntentStore, type StoredIntent } from "./store.js";
export type { Send } from "./send.js";
export type { TaskResult, WaitOptions } from "./task.js";
export type { components, operations, paths } from "./schema.gen.js";
