import { within } from "./bounds.js";
import { problemIn, type Problem } from "./result.js";

/** How long and how often one call tries. */
export interface Limits {
  /** For everything, pauses included. */
  deadlineMs: number;
  /** For one request; the service gives up after 10 s by itself. */
  sendTimeoutMs: number;
  maxSends: number;
}

/** limitsOf is what a call says, and where it says nothing, or undefined, what was said before. */
export function limitsOf(before: Limits, call: Partial<Limits>): Limits {
  const { deadlineMs = before.deadlineMs, sendTimeoutMs = before.sendTimeoutMs, maxSends = before.maxSends } = call;
  return { deadlineMs, sendTimeoutMs, maxSends };
}

/** One request that was sent, for logs and tests. */
export interface Send {
  request: Request;
  /** 1 for the first of a call. */
  number: number;
  /** Absent where no answer came. */
  response: Response | undefined;
  problem: Problem | undefined;
  error: unknown;
  /** How long to wait before the next one; absent where there is no need of one. */
  pauseMs: number | undefined;
}

export interface Network {
  fetch: (request: Request) => Promise<Response>;
  /** Asked before each request, so that a retry has the newest token. */
  credential: (() => string | Promise<string>) | undefined;
  onSend: ((send: Send) => void) | undefined;
  pause: (ms: number, signal: AbortSignal) => Promise<void>;
}

interface Answer {
  response: Response;
  problem: Problem | undefined;
  /** Whether the same request can still have another answer. */
  again: boolean;
  /** Set for a success that cannot be read: as good as lost. */
  error?: unknown;
}

const firstPauseMs = 200;
const longestPauseMs = 10_000;

/**
 * sender makes a fetch that sends a request again until there is a definite answer, with the same bytes and the same
 * key. It reads each answer whole, so that one cut off amid its body is a lost one too. When it gives up, the last
 * answer stands; where there was none, it throws what went wrong.
 */
export function sender(network: Network, limits: Limits, seen?: (problem: Problem | undefined) => void) {
  return (request: Request): Promise<Response> =>
    within(limits.deadlineMs, request.signal, async (signal) => {
      const end = performance.now() + limits.deadlineMs;
      for (let number = 1; ; number++) {
        let answer: Partial<Answer> = { again: true };
        let error: unknown;
        try {
          answer = await sendOnce(network, request, limits, signal);
          ({ error } = answer);
        } catch (thrown) {
          error = thrown;
        }
        const { response, problem, again } = answer;
        const pauseMs = again ? pauseBefore(number, response, problem) : undefined;
        seen?.(problem);
        network.onSend?.({ request, number, response, problem, error, pauseMs });
        signal.throwIfAborted();
        if (pauseMs === undefined || number >= limits.maxSends || performance.now() + pauseMs >= end) {
          if (!response || error) throw error;
          return response;
        }
        await network.pause(pauseMs, signal);
      }
    });
}

function sendOnce(network: Network, request: Request, limits: Limits, outer: AbortSignal): Promise<Answer> {
  return within(limits.sendTimeoutMs, outer, async (signal) => {
    const copy = new Request(request.clone(), { signal });
    if (network.credential) copy.headers.set("Authorization", `Bearer ${await network.credential()}`);
    signal.throwIfAborted(); // nobody waits for it any more, so it must not go out late
    const response = await network.fetch(copy);
    return judge(response, await response.text(), request.headers.has("Idempotency-Key"));
  });
}

function judge(response: Response, text: string, keyed: boolean): Answer {
  const { headers, ok, status } = response;
  let body: unknown;
  let error: unknown;
  try {
    if (text && headers.get("Content-Type")?.includes("json")) body = JSON.parse(text);
    // Every success of a keyed operation is a thing with an id: a page of a hotel's network with status 200 is none.
    if (keyed && !(body as { id?: unknown } | undefined)?.id) throw new TypeError("no id");
  } catch (thrown) {
    if (ok) error = thrown;
  }
  const problem = ok ? undefined : problemIn(body);
  const again = ok ? !!error : canSucceed(status, problem, headers.get("X-Should-Retry"));
  return { response: new Response(text || null, response), problem, again, error };
}

function canSucceed(status: number, problem: Problem | undefined, shouldRetry: string | null): boolean {
  if (problem?.code === "idempotency_key_reused") return false; // whatever a gateway makes of the rest
  if (shouldRetry) return shouldRetry === "true";
  if (problem) return problem.retryable;
  return status === 408 || status === 429 || status >= 500;
}

/** pauseBefore is what the service asks for, and on top a random time whose bound grows with each send. */
function pauseBefore(number: number, response: Response | undefined, problem: Problem | undefined): number {
  const bound = Math.min(longestPauseMs, firstPauseMs * 2 ** (number - 1));
  return (problem?.retry_after_ms ?? retryAfterMs(response)) + Math.random() * bound;
}

/** retryAfterMs reads Retry-After in both its forms; without one it is 0. */
export function retryAfterMs(response: Response | undefined): number {
  const header = response?.headers.get("Retry-After") ?? "";
  const ms = Number(header) * 1000 || Date.parse(header) - Date.now();
  return ms > 0 ? ms : 0;
}
