import type { Client } from "openapi-fetch";

import { alone, within } from "./bounds.js";
import { fingerprint } from "./fingerprint.js";
import { problemIn } from "./result.js";
import type { IntentRequest, IntentResult, KeyedPath, Problem, Unknown, UnknownReason } from "./result.js";
import type { components, paths } from "./schema.gen.js";
import { limitsOf, sender, type Limits, type Network } from "./send.js";
import type { IntentStore, StoredIntent } from "./store.js";
import { uuidv7 } from "./uuid.js";

/** How one call differs from the client's settings. */
export interface CallOptions extends Partial<Limits> {
  /** Ends the waiting, not the intent: the result is `unknown`, and the key is kept. */
  signal?: AbortSignal;
}

/** One business intent under a name of yours, such as `checkout:` and the cart's id. */
export interface Intent {
  readonly name: string;
  /** Sends the request until its outcome is definite. Throws IntentConflictError where the name is another request's. */
  post<P extends KeyedPath>(path: P, request: IntentRequest<P>, options?: CallOptions): Promise<IntentResult<P>>;
  /** Forgets the key: the next call is a new intent. For a person who wants another order, not for errors. */
  forget(): Promise<void>;
}

/** The name stands for another request already. Nothing was sent: take another name for another intent. */
export class IntentConflictError extends Error {
  override readonly name = "IntentConflictError";
  constructor(
    readonly intent: string,
    /** Whether the other request has been done. */
    readonly settled: boolean,
  ) {
    super(`the intent ${intent} is another request`);
  }
}

/** What all intents of a client share. */
export interface Surroundings {
  api: Client<paths>;
  network: Network;
  limits: Limits;
  store: IntentStore;
  owner: string;
  keepBodies: boolean;
  keepMs: number;
}

type Sent = NonNullable<StoredIntent["request"]>;

interface Answered {
  data?: unknown;
  error?: unknown;
  response: Response;
}

const apiVersion: components["parameters"]["ApiVersion"] = "2026-11-01";
const retentionMs = 72 * 3_600_000; // x-idempotency's, for answers whose Idempotency-Key-Expires is out of sight

/** A request is judged alone before its key is looked at: whatever became of earlier sends, none can have been done. */
const judgedAlone = [400, 413, 415, 422];

export function idOf(owner: string, name: string): string {
  return JSON.stringify([owner, name]);
}

/** post is a call of an intent with a request at hand. */
export async function post(
  s: Surroundings,
  name: string,
  path: string,
  request: Sent,
  o: CallOptions,
): Promise<Result> {
  o.signal?.throwIfAborted(); // nothing is stored or sent yet
  const digest = await fingerprint(path, request.path, request.body);
  const id = idOf(s.owner, name);
  return bounded(s, id, o, async (signal, begun) => {
    const now = Date.now();
    const mint: StoredIntent = {
      owner: s.owner,
      name,
      key: uuidv7(now),
      path,
      apiVersion,
      fingerprint: digest,
      request: s.keepBodies ? request : undefined,
      state: "pending",
      createdAt: now,
      expiresAt: now + s.keepMs,
    };
    let untouched = false;
    const record = (await s.store.update(id, (old) => {
      untouched = !old || old.state === "rejected" || forgotten(old, now);
      if (!untouched) return old;
      // A refused request may go on under its key, once its cause is gone; it is kept as if it were new.
      return old?.fingerprint === digest && old.expiresAt > now ? { ...mint, key: old.key } : mint;
    }))!;
    if (record.fingerprint !== digest) throw new IntentConflictError(name, record.state === "settled");
    begun(record.key);
    if (record.state === "pending" && record.expiresAt <= now) return unknown(record, "expired");
    return send(s, record, record.request ?? request, untouched, signal, o);
  });
}

/** resume sends what is left of an intent, and resolves to undefined where another tab has found its outcome. */
export async function resume(s: Surroundings, found: StoredIntent, o: CallOptions): Promise<Result | undefined> {
  const id = idOf(found.owner, found.name);
  return bounded<Result | undefined>(s, id, o, async (signal, begun) => {
    const record = await s.store.update(id, (now) => {
      if (now && now.expiresAt <= Date.now()) delete now.request;
      return now;
    });
    if (record?.key !== found.key || record.state !== "pending") return undefined;
    begun(record.key);
    if (record.request) return send(s, record, record.request, false, signal, o);
    return unknown(record, record.expiresAt <= Date.now() ? "expired" : "no_body");
  });
}

/** A result whose path is known to the caller only. */
export type Result = { [P in KeyedPath]: IntentResult<P> }[KeyedPath];

/** bounded makes `unknown` of a call that its deadline or its caller ends. */
async function bounded<T>(
  s: Surroundings,
  id: string,
  o: CallOptions,
  work: (signal: AbortSignal, begun: (key: string) => void) => Promise<T>,
): Promise<T | Unknown> {
  let key: string | undefined;
  let ended: AbortSignal | undefined;
  try {
    return await within(limitsOf(s.limits, o).deadlineMs, o.signal, (signal) => {
      ended = signal;
      return alone(id, signal, () => work(signal, (minted) => (key = minted)));
    });
  } catch (error) {
    if (!ended?.aborted) throw error; // a conflict, or a store that does not work: nothing was sent
    return { kind: "unknown", key, reason: o.signal?.aborted ? "aborted" : "gave_up", cause: error };
  }
}

async function send(
  s: Surroundings,
  record: StoredIntent,
  request: Sent,
  untouched: boolean, // whether no request with this key can have been done so far
  signal: AbortSignal,
  o: CallOptions,
): Promise<Result> {
  let sends = 0;
  let last: Problem | undefined;
  const fetch = sender(s.network, limitsOf(s.limits, o), (problem) => {
    sends++;
    last = problem;
  });
  let answered: Answered;
  try {
    answered = await untyped(s.api).POST(record.path, {
      params: { path: request.path, header: { "Idempotency-Key": record.key, "API-Version": record.apiVersion } },
      body: request.body,
      bodySerializer: (body: string) => body, // the stored bytes
      redirect: "error", // a POST that is redirected may come back as the answer to a GET
      signal,
      fetch,
    });
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { ...unknown(record, "gave_up", last), cause };
  }
  const result = conclude(record, answered, untouched && sends === 1);
  // What cannot be written is no reason to hide what is known: the record stays open, and a replay will say the same.
  await keep(s, record, result, answered.response).catch(() => {});
  return result;
}

/** conclude says what an answer means. `rejected` is said only where the request was certainly not done. */
function conclude(record: StoredIntent, answered: Answered, untouched: boolean): Result {
  const { key } = record;
  const { response } = answered;
  const replayed = response.headers.get("Idempotency-Replayed") === "true";
  const location = response.headers.get("Location") ?? undefined;
  if (response.ok) {
    const data = answered.data as { id: string }; // the sender has seen to it
    if (response.status === 202) return { kind: "accepted", key, data, taskId: data.id, replayed } as never;
    return { kind: replayed ? "replayed" : "created", key, data: data as never, location };
  }
  const problem = problemIn(answered.error);
  if (!problem) return unknown(record, "unreadable");
  const { code, key_action: action, status, retryable } = problem;
  const reused = code === "idempotency_key_reused";
  if (retryable && !reused) return unknown(record, "gave_up", problem);
  // A key that is missing or malformed was lost on the way, and says nothing of the sends before.
  const final = !code.startsWith("idempotency_key_") && (action === "new" || judgedAlone.includes(status));
  if (status < 500 && code !== "replay_forbidden" && (untouched || reused || final)) {
    return { kind: "rejected", key, problem: problem as never, replayed, location };
  }
  return unknown(record, "refused", problem);
}

/** keep leaves of the record what the result still needs. */
async function keep(s: Surroundings, record: StoredIntent, result: Result, response: Response): Promise<void> {
  if (result.kind === "unknown") return;
  await s.store.update(idOf(record.owner, record.name), (now) => {
    // Forgotten meanwhile, or done: what another tab was refused takes nothing of that away.
    if (now?.key !== record.key || now.state === "settled") return now;
    if (result.kind === "rejected" && result.problem.code !== "idempotency_key_reused") {
      return { ...now, request: undefined, state: "rejected" };
    }
    const expires = Date.parse(response.headers.get("Idempotency-Key-Expires") ?? "");
    return { ...now, request: undefined, state: "settled", expiresAt: expires || Date.now() + retentionMs };
  });
}

function unknown(record: StoredIntent, reason: UnknownReason, problem?: Problem): Unknown {
  return { kind: "unknown", key: record.key, reason, problem };
}

/** forgotten: the service has dropped the key of what had an outcome, so a call with this name is a new intent. */
export function forgotten(record: StoredIntent, now: number): boolean {
  return record.state !== "pending" && record.expiresAt <= now;
}

/** A stored record names its path at run time, where the types of the contract have no say. */
function untyped(api: Client<paths>): { POST(path: string, init: object): Promise<Answered> } {
  return api as never;
}
