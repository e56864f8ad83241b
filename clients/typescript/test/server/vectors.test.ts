import assert from "node:assert/strict";
import test from "node:test";

import { createClient, IntentConflictError, memoryStore, type IntentResult } from "@orderonce/client";
import { startDev, startVectors } from "./children.js";

interface Call {
  intent: string;
  operation?: "createOrder" | "cancelOrder" | "importOrders";
  body?: never;
  order_of?: string;
  credential?: string;
  wait?: boolean;
  max_sends?: number;
  deadline_ms?: number;
  send_timeout_ms?: number;
}

interface Session {
  session: string;
  base_url: string;
  credentials: Record<string, string>;
  vector: { calls: Call[] };
}

interface Verdict {
  passed: boolean;
  failures: string[];
  sends: unknown[];
}

interface Outcome {
  kind: string;
  code?: string | undefined;
  replayed?: boolean;
  order_id?: string;
  taskId?: string;
  task?: string;
}

const control = await startVectors(await startDev());
const ask = async <T>(method: string, path: string, body?: unknown) => {
  const response = await fetch(control + path, { method, body: body === undefined ? null : JSON.stringify(body) });
  const answer = await response.text();
  assert.ok(response.ok, answer);
  return JSON.parse(answer) as T;
};

for (const { name, why } of await ask<{ name: string; why: string }[]>("GET", "/vectors")) {
  test(`${name}: ${why}`, async () => {
    const session = await ask<Session>("POST", `/sessions/${name}`);
    const pauses: number[] = [];
    const results = await run(session, pauses);
    const verdict = await ask<Verdict>("POST", `/verdicts/${session.session}`, {
      results,
      pauses_ms: pauses.map(Math.floor),
    });
    assert.ok(
      verdict.passed,
      `${verdict.failures.join("\n")}\n${JSON.stringify({ results, pauses, sends: verdict.sends }, null, 2)}`,
    );
  });
}

/** run makes the calls of a session. Each has a client of its own, which knows what is in the store and no more. */
async function run({ base_url, credentials, vector }: Session, pauses: number[]): Promise<Outcome[]> {
  const store = memoryStore();
  const orders = new Map<string, string>();
  const outcomes: Outcome[] = [];
  for (const call of vector.calls) {
    const connection = { baseUrl: base_url, credential: credentials[call.credential ?? "shop"]!, store };
    const client = createClient({
      ...connection,
      maxSends: call.max_sends ?? 10,
      deadlineMs: call.deadline_ms ?? 60_000,
      sendTimeoutMs: call.send_timeout_ms ?? 20_000,
      pause: async (ms) => void pauses.push(ms),
    });
    const intent = client.orders.intent(call.intent);
    let outcome: Outcome;
    switch (call.operation) {
      case "cancelOrder":
        outcome = await outcomeOf(intent.cancel(orders.get(call.order_of!)!));
        break;
      case "importOrders":
        outcome = await outcomeOf(intent.post("/order-imports", { body: call.body! }));
        break;
      default:
        outcome = await outcomeOf(intent.place(call.body!));
    }
    if (call.wait && outcome.taskId) outcome.task = (await createClient(connection).waitForTask(outcome.taskId)).kind;
    if (outcome.order_id) orders.set(call.intent, outcome.order_id);
    outcomes.push(outcome);
  }
  return outcomes;
}

type AnyResult = IntentResult<"/orders"> | IntentResult<"/orders/{orderId}/cancel"> | IntentResult<"/order-imports">;

async function outcomeOf(call: Promise<AnyResult>): Promise<Outcome> {
  try {
    const result = await call;
    switch (result.kind) {
      case "created":
      case "replayed":
        return { kind: result.kind, replayed: result.kind === "replayed", order_id: result.data.id };
      case "accepted":
        return { kind: "accepted", replayed: result.replayed, taskId: result.taskId };
      case "rejected":
        return { kind: "rejected", code: result.problem.code, replayed: result.replayed };
      case "unknown":
        return { kind: "unknown", code: result.problem?.code };
    }
  } catch (error) {
    if (error instanceof IntentConflictError) return { kind: "local_error" };
    throw error;
  }
}
