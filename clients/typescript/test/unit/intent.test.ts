import assert from "node:assert/strict";
import test from "node:test";

import { IntentConflictError, memoryStore, type IntentStore, type Unknown } from "@orderonce/client";
import { anOrder, clientOf, created, cut, mugs, problem, serve } from "../service.js";

test("the first answer is created, and says where the order is", async (t) => {
  const { got, baseUrl } = await serve(t, created());
  const { client } = clientOf(baseUrl, { credential: "oo_live_1" });

  const result = await client.orders.intent("checkout:1").place(mugs("cart-1"));

  assert.deepEqual(result, { kind: "created", key: got[0]!.key, data: anOrder, location: `/orders/${anOrder.id}` });
  assert.equal(got[0]!.authorization, "Bearer oo_live_1");
  assert.deepEqual(JSON.parse(got[0]!.body), mugs("cart-1"));
});

test("key, body and expiry are stored before the first send", async (t) => {
  const store = memoryStore();
  let then: Awaited<ReturnType<IntentStore["list"]>> = [];
  const { got, baseUrl } = await serve(t, (response, request, one) => {
    void store.list().then((records) => {
      then = records;
      created()(response, request, one);
    });
  });
  const { client } = clientOf(baseUrl, { store });

  await client.orders.intent("a").place(mugs("c"));

  assert.equal(then.length, 1);
  assert.equal(then[0]!.key, got[0]!.key);
  assert.equal(then[0]!.request!.body, got[0]!.body);
  assert.equal(then[0]!.expiresAt - then[0]!.createdAt, 24 * 3_600_000);
});

test("nothing is sent where nothing can be stored", async (t) => {
  const { got, baseUrl } = await serve(t, created());
  const store: IntentStore = { update: () => Promise.reject(new Error("the disk is full")), list: async () => [] };
  const { client } = clientOf(baseUrl, { store });
  await assert.rejects(client.orders.intent("a").place(mugs("c")), /the disk is full/);
  assert.equal(got.length, 0);
});

test("a reload sends the stored key and bytes, whatever order the members come in now", async (t) => {
  const store = memoryStore();
  const { got, baseUrl } = await serve(t, cut, created(true));
  const before = clientOf(baseUrl, { store, maxSends: 1 }).client;
  assert.equal((await before.orders.intent("a").place(mugs("c"))).kind, "unknown");

  const after = clientOf(baseUrl, { store }).client;
  const turned = Object.fromEntries(Object.entries(mugs("c")).reverse()) as ReturnType<typeof mugs>;
  const result = await after.orders.intent("a").place({ ...turned, client_sent_at: "2026-11-01T12:00:00Z" });

  assert.equal(result.kind, "replayed");
  assert.equal(got[0]!.key, got[1]!.key);
  assert.equal(got[0]!.body, got[1]!.body);
});

test("an intent that meets another body is an error here, and nothing is sent", async (t) => {
  const { got, baseUrl } = await serve(t, cut, created());
  const { client } = clientOf(baseUrl, { maxSends: 1 });
  const intent = client.orders.intent("a");
  await intent.place(mugs("c"));

  await assert.rejects(intent.place({ ...mugs("c"), currency: "USD" }), (error) => {
    assert.ok(error instanceof IntentConflictError);
    assert.deepEqual([error.intent, error.settled], ["a", false]);
    return true;
  });
  await assert.rejects(intent.cancel(anOrder.id), IntentConflictError);
  assert.equal(got.length, 1);

  await intent.place(mugs("c"));
  await assert.rejects(intent.place(mugs("d")), (error) => error instanceof IntentConflictError && error.settled);
});

test("a second click after the answer gets the first answer, and not a second order", async (t) => {
  const { got, baseUrl } = await serve(t, created(), created(true));
  const { client } = clientOf(baseUrl);
  const intent = client.orders.intent("a");
  assert.equal((await intent.place(mugs("c"))).kind, "created");
  assert.equal((await intent.place(mugs("c"))).kind, "replayed");
  assert.equal(got[0]!.key, got[1]!.key);
});

test("clicks at the same moment go one after the other, with one key", async (t) => {
  let open = 0;
  let most = 0;
  const { got, baseUrl } = await serve(t, (...args) => {
    most = Math.max(most, ++open);
    // Time for the others to come, if they would.
    setTimeout(() => {
      open--;
      created(got.length > 1)(...args);
    }, 50);
  });
  const { client } = clientOf(baseUrl);
  const results = await Promise.all(Array.from({ length: 5 }, () => client.orders.intent("a").place(mugs("c"))));
  assert.deepEqual(
    results.map((one) => one.kind),
    ["created", "replayed", "replayed", "replayed", "replayed"],
  );
  assert.equal(new Set(got.map((one) => one.key)).size, 1);
  assert.equal(most, 1);
});

test("after a rejection the same request gets the same no, and another one is a new attempt", async (t) => {
  const { got, baseUrl } = await serve(t, problem(422, "coupon_expired", false, "new"));
  const intent = clientOf(baseUrl).client.orders.intent("a");
  const withCoupon = { ...mugs("c"), coupon_code: "EXPIRED10" };

  const result = await intent.place(withCoupon);
  assert.equal(result.kind === "rejected" && result.problem.code, "coupon_expired");
  await intent.place(withCoupon);
  await intent.place(mugs("c"));

  const [first, again, other] = got.map((one) => one.key);
  assert.equal(first, again);
  assert.notEqual(first, other);
});

test("a refused request goes on under its key once the cause is gone, and is not called unknown meanwhile", async (t) => {
  const store = memoryStore();
  const no = problem(401, "unauthenticated", false, "keep");
  const { got, baseUrl } = await serve(t, no, no, cut, created(true));
  const { client } = clientOf(baseUrl, { store, maxSends: 1 });
  const place = () => client.orders.intent("a").place(mugs("c"));

  assert.deepEqual([(await place()).kind, (await place()).kind], ["rejected", "rejected"]);
  assert.deepEqual(await client.pending(), [], "nothing to resume");
  assert.equal((await place()).kind, "unknown");
  assert.equal((await client.resumePending())[0]!.result.kind, "replayed");
  assert.equal(new Set(got.map((one) => one.key)).size, 1);
});

test("a key that the service knows for another request is kept: its first request may have been done", async (t) => {
  const { got, baseUrl } = await serve(t, problem(409, "idempotency_key_reused", false, "keep"));
  const intent = clientOf(baseUrl).client.orders.intent("a");
  await intent.place(mugs("c"));
  await intent.place(mugs("c"));
  assert.equal(got[0]!.key, got[1]!.key);
  await assert.rejects(intent.place(mugs("d")), IntentConflictError);
  assert.deepEqual(await clientOf(baseUrl).client.resumePending(), [], "no page load sends it again");
});

test("a new name is a new key, and so is a forgotten one", async (t) => {
  const { got, baseUrl } = await serve(t, created());
  const { client } = clientOf(baseUrl);
  await client.orders.intent("a").place(mugs("c"));
  await client.orders.intent("b").place(mugs("c"));
  await client.orders.intent("a").forget();
  await client.orders.intent("a").place(mugs("c"));
  assert.equal(new Set(got.map((one) => one.key)).size, 3);
});

test("after a reload, resumePending sends what was not finished", async (t) => {
  const store = memoryStore();
  const { got, baseUrl } = await serve(t, cut, cut, created(true), problem(409, "order_not_cancellable", false, "new"));
  const before = clientOf(baseUrl, { store, maxSends: 1 }).client;
  await before.orders.intent("place").place(mugs("c"));
  await before.orders.intent("cancel").cancel(anOrder.id);

  const { client } = clientOf(baseUrl, { store });
  assert.deepEqual(
    (await client.pending()).map((one) => one.name),
    ["place", "cancel"],
  );
  const resumed = await client.resumePending();

  assert.deepEqual(
    resumed.map((one) => one.name),
    ["place", "cancel"],
  );
  assert.deepEqual(resumed.map((one) => one.result.kind).sort(), ["rejected", "replayed"]);
  const sent = (one: (typeof got)[number]) => `${one.path} ${one.key} ${one.body}`;
  assert.deepEqual(got.slice(2).map(sent).sort(), got.slice(0, 2).map(sent).sort());
  assert.deepEqual(await client.pending(), []);
  assert.deepEqual(await client.resumePending(), []);
});

test("what is done keeps its key and no body", async (t) => {
  const store = memoryStore();
  const { baseUrl } = await serve(t, created());
  await clientOf(baseUrl, { store }).client.orders.intent("a").place(mugs("c"));
  const [record] = await store.list();
  assert.equal(record!.state, "settled");
  assert.equal(record!.request, undefined);
  assert.ok(Math.abs(record!.expiresAt - Date.now() - 72 * 3_600_000) < 60_000, "until the service forgets it");
});

test("keepBodies: false stores no body; the same call sends it again, and resuming cannot", async (t) => {
  const store = memoryStore();
  const { got, baseUrl } = await serve(t, cut, created(true));
  const { client } = clientOf(baseUrl, { store, keepBodies: false, maxSends: 1 });
  await client.orders.intent("a").place(mugs("c"));
  assert.ok(!JSON.stringify(await store.list()).includes("MUG-BLUE"));

  const [resumed] = await client.resumePending();
  assert.equal((resumed!.result as Unknown).reason, "no_body");
  assert.equal(got.length, 1);

  assert.equal((await client.orders.intent("a").place(mugs("c"))).kind, "replayed");
  assert.equal(got[0]!.key, got[1]!.key);
});

test("an intent past its time is neither sent nor given a new key, and loses its body", async (t) => {
  const store = memoryStore();
  const { got, baseUrl } = await serve(t, cut, created());
  const { client } = clientOf(baseUrl, { store, maxSends: 1, keepMs: -1 });
  const intent = client.orders.intent("a");
  await store.update('["","a"]', () => undefined);

  assert.equal(((await intent.place(mugs("c"))) as Unknown).reason, "expired");
  const [resumed] = await client.resumePending();
  assert.equal((resumed!.result as Unknown).reason, "expired");
  assert.equal((await store.list())[0]!.request, undefined);
  assert.equal(got.length, 0);

  await intent.forget();
  assert.deepEqual(await client.resumePending(), []);
});

test("what has an outcome is removed once the service has forgotten it", async (t) => {
  const store = memoryStore();
  const { got, baseUrl } = await serve(t, created());
  const { client } = clientOf(baseUrl, { store });
  await client.orders.intent("a").place(mugs("c"));
  await client.orders.intent("b").place(mugs("d"));
  for (const name of ["a", "b"])
    await store.update(`["","${name}"]`, (now) => ({ ...now!, expiresAt: Date.now() - 1 }));

  await client.orders.intent("a").place(mugs("c"));
  assert.notEqual(got[0]!.key, got[2]!.key);
  await client.resumePending();
  assert.deepEqual(
    (await store.list()).map((one) => one.name),
    ["a"],
  );
});

test("an outcome that cannot be written is told all the same", async (t) => {
  const { baseUrl } = await serve(t, created());
  const memory = memoryStore();
  let writes = 0;
  const store: IntentStore = {
    ...memory,
    update: (...args) => (++writes === 2 ? Promise.reject(new Error("the disk is full")) : memory.update(...args)),
  };
  assert.equal((await clientOf(baseUrl, { store }).client.orders.intent("a").place(mugs("c"))).kind, "created");
});

test("intents belong to their owner: another one reuses and resumes none of them", async (t) => {
  const store = memoryStore();
  const { got, baseUrl } = await serve(t, cut, created());
  await clientOf(baseUrl, { store, owner: "ann", maxSends: 1 }).client.orders.intent("a").place(mugs("c"));

  const ben = clientOf(baseUrl, { store, owner: "ben" }).client;
  assert.deepEqual(await ben.resumePending(), []);
  await ben.orders.intent("a").place(mugs("c"));

  assert.notEqual(got[0]!.key, got[1]!.key);
});

test("a retry keeps the API-Version of its first send", async (t) => {
  const store = memoryStore();
  const { got, baseUrl } = await serve(t, cut, created());
  const { client } = clientOf(baseUrl, { store, maxSends: 1 });
  await client.orders.intent("a").place(mugs("c"));
  await store.update('["","a"]', (now) => ({ ...now!, apiVersion: "2025-01-01" })); // as an older client had stored it
  await client.resumePending();
  assert.deepEqual(
    got.map((one) => one.version),
    ["2026-11-01", "2025-01-01"],
  );
});

test("an answer that comes after forget() does not bring the intent back", async (t) => {
  const store = memoryStore();
  const { client } = clientOf("", { store });
  const { baseUrl } = await serve(
    t,
    (...args) =>
      void client.orders
        .intent("a")
        .forget()
        .then(() => created()(...args)),
  );
  await clientOf(baseUrl, { store }).client.orders.intent("a").place(mugs("c"));
  assert.deepEqual(await store.list(), []);
});

test("a refusal does not undo what another tab has found done", async (t) => {
  const store = memoryStore();
  const no = problem(401, "unauthenticated", false, "keep");
  const { baseUrl } = await serve(t, (...args) => {
    void store.update('["","a"]', (now) => ({ ...now!, state: "settled" })).then(() => no(...args));
  });
  await clientOf(baseUrl, { store }).client.orders.intent("a").place(mugs("c"));
  assert.equal((await store.list())[0]!.state, "settled");
});

test("the second click's deadline counts while the first one is under way", async (t) => {
  let arrived = () => {};
  const sent = new Promise<void>((resolve) => (arrived = resolve));
  const { got, baseUrl } = await serve(t, () => arrived());
  const { client } = clientOf(baseUrl);
  const abort = new AbortController();
  const first = client.orders.intent("a").place(mugs("c"), { signal: abort.signal });
  await sent;

  assert.equal((await client.orders.intent("a").place(mugs("c"), { deadlineMs: 50 })).kind, "unknown");

  abort.abort();
  assert.equal((await first).kind, "unknown");
  assert.equal(got.length, 1);
});

test("any operation with a key can be an intent", async (t) => {
  const { got, baseUrl } = await serve(t, created());
  const { client } = clientOf(baseUrl);
  const result = await client
    .intent("t")
    .post("/ops/tenants/{tenantId}/activate", { path: { tenantId: "x/y" }, body: { reason: "a reason" } });
  assert.equal(result.kind, "created");
  assert.equal(got[0]!.path, "/ops/tenants/x%2Fy/activate");
  assert.equal(got[0]!.body, '{"reason":"a reason"}');
});
