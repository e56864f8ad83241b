import type { components, paths } from "./schema.gen.js";

type Schemas = components["schemas"];

export type Order = Schemas["Order"];
export type PlaceOrder = Schemas["PlaceOrder"];
export type Task = Schemas["Task"];

/** RFC 9457 problem details as the service writes them; `code` is the member to branch on. */
export type Problem = Schemas["Problem"];

/** A path whose POST takes an idempotency key. */
export type KeyedPath = {
  [P in keyof paths]: paths[P] extends { post: { parameters: { header: { "Idempotency-Key": string } } } } ? P : never;
}[keyof paths];

type Post<P extends KeyedPath> = paths[P]["post"];
type Responses<P extends KeyedPath> = Post<P>["responses"];
type Content<R, Type extends string> = R extends { content: { [T in Type]: infer Body } } ? Body : never;
type Answer<P extends KeyedPath, Status> = Content<Responses<P>[Status & keyof Responses<P>], "application/json">;

/** What an operation's POST needs besides its key. */
export type IntentRequest<P extends KeyedPath> = (Post<P>["parameters"] extends { path: infer Path }
  ? { path: Path }
  : { path?: never }) &
  (Post<P> extends { requestBody: { content: { "application/json": infer Body } } }
    ? { body: Body }
    : { body?: never });

/** Problems after which the same request can still succeed. They are sent again and never come out as a rejection. */
export type RetryableCode =
  | "request_timeout"
  | "idempotency_in_progress"
  | "checkout_in_progress"
  | "rate_limited"
  | "internal"
  | "busy"
  | "unavailable"
  | "outcome_unknown";

/** Problems that say that the key has an outcome, and not which. */
export type WithheldCode = "replay_forbidden" | "idempotency_record_incomplete";

/** The problems of an operation that are a definite "no"; a switch over `code` can be exhaustive. */
export type Rejection<P extends KeyedPath> = Exclude<
  Content<Responses<P>[Exclude<keyof Responses<P>, "default">], "application/problem+json">,
  { code: RetryableCode | WithheldCode }
>;

/** This very call did it. */
export interface Created<P extends KeyedPath> {
  kind: "created";
  key: string;
  data: Answer<P, 200 | 201>;
  location?: string | undefined;
}

/** It had been done before, by the same intent; `data` is the first answer, byte for byte. */
export interface Replayed<P extends KeyedPath> {
  kind: "replayed";
  key: string;
  data: Answer<P, 200 | 201>;
  location?: string | undefined;
}

/** Long work was taken on (202); `waitForTask` follows it. */
export interface Accepted<P extends KeyedPath> {
  kind: "accepted";
  key: string;
  data: Answer<P, 202>;
  taskId: string;
  replayed: boolean;
}

/** A definite "no": nothing was done, and the same request will not be. */
export interface Rejected<P extends KeyedPath> {
  kind: "rejected";
  key: string;
  problem: Rejection<P>;
  replayed: boolean;
  /** What is in the way, such as the order that the checkout has already. */
  location?: string | undefined;
}

/**
 * - `gave_up`: no definite answer came before the deadline, or within `maxSends`
 * - `aborted`: the caller's signal said so
 * - `refused`: an earlier request may have been done, and the last one was refused; `problem` says why
 * - `unreadable`: what answered was not the service
 * - `expired`: the intent is older than a retry may be; look for its order before you `forget()` it
 * - `no_body`: only on resuming: the body is not kept (`keepBodies: false`); call again with it
 */
export type UnknownReason = "gave_up" | "aborted" | "refused" | "unreadable" | "expired" | "no_body";

/** It may have been done or not; never "failed". The key is kept: the same call, or `resumePending`, finds out. */
export interface Unknown {
  kind: "unknown";
  /** Absent where nothing was stored yet, and so nothing was sent. */
  key?: string | undefined;
  reason: UnknownReason;
  /** The last problem that the service answered with, if it did. */
  problem?: Problem | undefined;
  /** What went wrong below HTTP, for logs. */
  cause?: unknown;
}

/** What became of an intent. `accepted` is there only for operations that answer 202. */
export type IntentResult<P extends KeyedPath> =
  | ([Answer<P, 200 | 201>] extends [never] ? never : Created<P> | Replayed<P>)
  | ([Answer<P, 202>] extends [never] ? never : Accepted<P>)
  | Rejected<P>
  | Unknown;

/** problemIn is the body of an answer, where that is a problem of the service; a gateway's own have no `retryable`. */
export function problemIn(body: unknown): Problem | undefined {
  return typeof (body as Problem | undefined)?.retryable === "boolean" ? (body as Problem) : undefined;
}
