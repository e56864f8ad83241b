import assert from "node:assert/strict";
import test from "node:test";

import type { Unknown } from "@orderonce/client";
import { answer, clientOf, created, cut, mugs, problem, serve, silent, type Act } from "../service.js";

const place = (client: ReturnType<typeof clientOf>["client"], options = {}) =>
  client.orders.intent("a").place(mugs("c"), options);

const sentAgain: [string, Act][] = [
  ["no answer", cut],
  [
    "an answer that is cut amid its body",
    (response) => {
      response.writeHead(201, { "Content-Type": "application/json", "Content-Length": "100" });
      response.write('{"id":');
      setImmediate(() => response.socket!.destroy());
    },
  ],
  ["408", problem(408, "request_timeout", true, "keep")],
  ["409 idempotency_in_progress", problem(409, "idempotency_in_progress", true, "keep")],
  ["409 checkout_in_progress", problem(409, "checkout_in_progress", true, "keep")],
  ["429", problem(429, "rate_limited", true, "keep")],
  ["500 internal", problem(500, "internal", true, "keep")],
  ["503 busy", problem(503, "busy", true, "keep")],
  ["503 outcome_unknown", problem(503, "outcome_unknown", true, "keep")],
  ["a proxy's 502", answer(502, "<html>", { "Content-Type": "text/html" })],
  ["a proxy's 504", answer(504, "<html>", { "Content-Type": "text/html" })],
  ["a proxy's 429", answer(429, "slow down", { "Content-Type": "text/plain" })],
  ["a gateway's 503 of JSON with a code of its own", answer(503, '{"code":"ServiceUnavailable"}')],
  ["a success without the thing", answer(201, '{"ok":true}')],
  ["a hotel's page with status 200", answer(200, "<html>Welcome", { "Content-Type": "text/html" })],
  ["a success whose JSON is broken", answer(201, '{"id":')],
  ["a problem of a newer service that can be retried", problem(409, "something_new", true, "keep")],
];

for (const [what, act] of sentAgain) {
  test(`${what} is sent again, with the same key and bytes`, async (t) => {
    const { got, baseUrl } = await serve(t, act, act, created());
    const { client, pauses } = clientOf(baseUrl);

    const result = await place(client);

    assert.equal(result.kind, "created");
    assert.equal(got.length, 3);
    assert.equal(new Set(got.map((one) => one.key + one.body)).size, 1);
    assert.equal(pauses.length, 2);
  });
}

const final: [string, Act][] = [
  ["idempotency_key_reused", problem(409, "idempotency_key_reused", false, "keep", { "X-Should-Retry": "false" })],
  [
    "idempotency_key_reused, even if something calls it retryable",
    problem(409, "idempotency_key_reused", true, "keep", { "X-Should-Retry": "true" }),
  ],
  ["checkout_already_ordered", problem(409, "checkout_already_ordered", false, "new")],
  ["coupon_expired", problem(422, "coupon_expired", false, "new")],
  ["validation_failed", problem(422, "validation_failed", false, "keep")],
  ["unauthenticated", problem(401, "unauthenticated", false, "keep")],
  ["a problem of a newer service", problem(422, "something_new", false, "new")],
];

for (const [what, act] of final) {
  test(`${what} is never sent again`, async (t) => {
    const { got, baseUrl } = await serve(t, act);

    const result = await place(clientOf(baseUrl).client);

    assert.equal(result.kind, "rejected");
    assert.equal(got.length, 1);
  });
}

test("a refusal after a lost answer is unknown: the lost one may have placed the order", async (t) => {
  for (const [status, code] of [
    [401, "unauthenticated"],
    [403, "forbidden"],
    [403, "replay_forbidden"],
    [404, "not_found"],
    [400, "idempotency_key_missing"],
  ] as const) {
    const action = status === 400 ? "new" : "keep";
    const { got, baseUrl } = await serve(t, cut, problem(status, code, false, action), created(true));
    const { client } = clientOf(baseUrl);

    const result = await place(client);
    assert.equal(result.kind, "unknown", code);
    assert.equal((result as Unknown).reason, "refused");
    assert.equal((result as Unknown).problem?.code, code);

    assert.equal((await place(client)).kind, "replayed");
    assert.equal(new Set(got.map((one) => one.key)).size, 1);
  }
});

test("a refusal by the request alone, or for ever, is a rejection even after a lost answer", async (t) => {
  for (const [status, code, action] of [
    [422, "validation_failed", "keep"],
    [400, "invalid_request", "keep"],
    [413, "body_too_large", "keep"],
    [409, "checkout_already_ordered", "new"],
  ] as const) {
    const { baseUrl } = await serve(t, cut, problem(status, code, false, action));
    assert.equal((await place(clientOf(baseUrl).client)).kind, "rejected", code);
  }
});

test("an outcome that is withheld is unknown from the first send on", async (t) => {
  for (const [status, code] of [
    [403, "replay_forbidden"],
    [500, "idempotency_record_incomplete"],
  ] as const) {
    const { got, baseUrl } = await serve(t, problem(status, code, false, "keep"));
    const result = await place(clientOf(baseUrl).client);
    assert.equal(result.kind, "unknown");
    assert.equal(got.length, 1);
  }
});

test("what is no problem of the service says nothing about the order", async (t) => {
  const { got, baseUrl } = await serve(t, answer(403, "<html>", { "Content-Type": "text/html" }));
  const result = await place(clientOf(baseUrl).client);
  assert.equal(result.kind, "unknown");
  assert.equal((result as Unknown).reason, "unreadable");
  assert.equal(got.length, 1);
});

test("a redirect is not followed: its answer could be another request's", async (t) => {
  const { got, baseUrl } = await serve(t, answer(302, "", { Location: "/orders" }), created());
  const result = await place(clientOf(baseUrl).client);
  assert.equal(result.kind, "created");
  assert.deepEqual(
    got.map((one) => one.method),
    ["POST", "POST"],
  );
});

test("Retry-After is waited for, and a random time on top", async (t) => {
  const inTwoMinutes = new Date(Date.now() + 120_000).toUTCString();
  const { baseUrl } = await serve(
    t,
    problem(503, "busy", true, "keep", { "Retry-After": "7" }),
    problem(503, "busy", true, "keep", { "Retry-After": inTwoMinutes }),
    answer(429, JSON.stringify({ code: "rate_limited", retryable: true, retry_after_ms: 1500 }), {
      "Retry-After": "2",
    }),
    created(),
  );
  const { client, pauses } = clientOf(baseUrl, { deadlineMs: 600_000 });

  assert.equal((await place(client)).kind, "created");

  assert.equal(pauses.length, 3);
  assert.ok(pauses[0]! >= 7_000 && pauses[0]! < 7_200, `${pauses[0]}`);
  assert.ok(pauses[1]! > 110_000 && pauses[1]! < 121_000, `${pauses[1]}`);
  assert.ok(pauses[2]! >= 1_500 && pauses[2]! < 2_300, `${pauses[2]}: retry_after_ms is exact`);
});

test("pauses have full jitter under a bound that grows to ten seconds", async (t) => {
  t.mock.method(Math, "random", () => 0.5);
  const { baseUrl } = await serve(t, cut);
  const { client, pauses } = clientOf(baseUrl, { deadlineMs: 600_000, maxSends: 10 });

  await place(client);

  assert.deepEqual(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
});

test("X-Should-Retry decides where an answer is no problem", async (t) => {
  const { got, baseUrl } = await serve(
    t,
    answer(409, "{}", { "X-Should-Retry": "true" }),
    answer(503, "{}", { "X-Should-Retry": "false" }),
  );
  assert.equal((await place(clientOf(baseUrl).client)).kind, "unknown");
  assert.equal(got.length, 2);
});

test("the deadline ends it with unknown, never with failed", async (t) => {
  const { baseUrl } = await serve(t, silent);
  const result = await place(clientOf(baseUrl).client, { deadlineMs: 50 });
  assert.equal(result.kind, "unknown");
  assert.equal((result as Unknown).reason, "gave_up");
  assert.match((result as Unknown).key!, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("a pause that would outlast the deadline is not made", async (t) => {
  const { got, baseUrl } = await serve(t, problem(429, "rate_limited", true, "keep", { "Retry-After": "3600" }));
  const { client, pauses } = clientOf(baseUrl);
  const result = await place(client);
  assert.equal(result.kind, "unknown");
  assert.equal((result as Unknown).problem?.code, "rate_limited");
  assert.deepEqual([got.length, pauses.length], [1, 0]);
});

test("one request that hangs does not use up the deadline", async (t) => {
  const { got, baseUrl } = await serve(t, silent, created());
  assert.equal((await place(clientOf(baseUrl).client, { sendTimeoutMs: 200 })).kind, "created");
  assert.ok(got.length >= 2);
});

test("maxSends bounds the sends of one call", async (t) => {
  const { got, baseUrl } = await serve(t, cut);
  assert.equal((await place(clientOf(baseUrl).client, { maxSends: 3 })).kind, "unknown");
  assert.equal(got.length, 3);
});

test("a signal ends the waiting and not the intent", async (t) => {
  const abort = new AbortController();
  const { got, baseUrl } = await serve(
    t,
    (...args) => {
      abort.abort();
      silent(...args);
    },
    created(true),
  );
  const { client } = clientOf(baseUrl);

  const result = await place(client, { signal: abort.signal });
  assert.equal(result.kind, "unknown");
  assert.equal((result as Unknown).reason, "aborted");

  assert.equal((await place(client)).kind, "replayed");
  assert.equal(got[0]!.key, got[1]!.key);
});

test("a signal that is over before the start throws: nothing was stored or sent", async (t) => {
  const { got, baseUrl } = await serve(t, created());
  const { client } = clientOf(baseUrl);
  await assert.rejects(place(client, { signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.deepEqual([got.length, (await client.pending()).length], [0, 0]);
});

test("a fetch or a credential that hangs and does not listen does not hold up the deadline", async (t) => {
  const { baseUrl } = await serve(t, created());
  for (const options of [
    { fetch: () => new Promise<never>(() => {}) },
    { credential: () => new Promise<never>(() => {}) },
  ]) {
    const result = await place(clientOf(baseUrl, options).client, { deadlineMs: 50 });
    assert.equal(result.kind, "unknown");
  }
});

test("each send asks for the credential, so a refreshed token is used", async (t) => {
  const { got, baseUrl } = await serve(t, cut, created());
  let n = 0;
  const credential = () => {
    if (++n === 2) throw new Error("the token endpoint is away");
    return `token-${n}`;
  };
  assert.equal((await place(clientOf(baseUrl, { credential }).client)).kind, "created");
  assert.deepEqual(
    got.map((one) => one.authorization),
    ["Bearer token-1", "Bearer token-3"],
  );
});

test("plain reads are sent again too, and give up with the last answer", async (t) => {
  const { got, baseUrl } = await serve(t, cut, problem(503, "unavailable", true, "none"));
  const { client } = clientOf(baseUrl, { maxSends: 3 });
  const { error, response } = await client.api.GET("/orders/{orderId}", { params: { path: { orderId: anId } } });
  assert.equal(error?.code, "unavailable");
  assert.equal(response.status, 503);
  assert.equal(got.length, 3);
});

const anId = "0198d0a7-52f1-7c44-a3b8-5d1a9be0f001";

test("onSend sees every request, its problem and the pause after it", async (t) => {
  const { baseUrl } = await serve(t, cut, problem(503, "busy", true, "keep"), created());
  const seen: string[] = [];
  const { client } = clientOf(baseUrl, {
    onSend: ({ number, response, problem, error, pauseMs }) =>
      seen.push(`${number} ${response?.status} ${problem?.code} ${error ? "lost" : ""} ${pauseMs !== undefined}`),
  });
  await place(client);
  assert.deepEqual(seen, ["1 undefined undefined lost true", "2 503 busy  true", "3 201 undefined  false"]);
});
