import assert from "node:assert/strict";
import test from "node:test";

import { answer, clientOf, cut, problem, serve, silent } from "../service.js";

const state = (state: string, headers = {}) => answer(200, JSON.stringify({ id: "t1", state }), headers);

test("waitForTask reads until the task has ended, as often as the service asks for", async (t) => {
  const { got, baseUrl } = await serve(
    t,
    state("processing", { "Retry-After": "3" }),
    state("processing"),
    state("succeeded"),
  );
  const { client, pauses } = clientOf(baseUrl);
  const seen: string[] = [];

  const result = await client.waitForTask("t1", { onProgress: (task) => seen.push(task.state) });

  assert.deepEqual(result, { kind: "succeeded", task: { id: "t1", state: "succeeded" } });
  assert.deepEqual(seen, ["processing", "processing", "succeeded"]);
  assert.deepEqual(
    got.map((one) => one.path),
    ["/tasks/t1", "/tasks/t1", "/tasks/t1"],
  );
  assert.deepEqual(pauses, [3_000, 2_000]);
});

test("failed and outcome_unknown are the task's own ends", async (t) => {
  for (const kind of ["failed", "outcome_unknown"]) {
    const { baseUrl } = await serve(t, state(kind));
    assert.equal((await clientOf(baseUrl).client.waitForTask("t1")).kind, kind);
  }
});

test("a lost answer is asked for again; one that is refused ends the waiting", async (t) => {
  const { got, baseUrl } = await serve(t, cut, problem(404, "not_found", false, "none"));
  const result = await clientOf(baseUrl).client.waitForTask("t1");
  assert.equal(result.kind === "rejected" && result.problem.code, "not_found");
  assert.equal(got.length, 2);
});

test("past the deadline the task goes on: unknown, with what was seen last", async (t) => {
  const { baseUrl } = await serve(t, state("processing"), silent);
  const result = await clientOf(baseUrl).client.waitForTask("t1", { deadlineMs: 1_000 });
  assert.equal(result.kind, "unknown");
  assert.equal(result.kind === "unknown" && result.task?.state, "processing");
});

test("a signal ends the waiting", async (t) => {
  const { baseUrl } = await serve(t, state("processing"));
  const abort = new AbortController();
  const result = await clientOf(baseUrl).client.waitForTask("t1", {
    signal: abort.signal,
    onProgress: () => abort.abort(),
  });
  assert.equal(result.kind === "unknown" && result.reason, "aborted");
});
