// Against the real service, on a PostgreSQL of its own, which cuts half of its answers.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import test from "node:test";

import { createClient, memoryStore, type Client } from "@orderonce/client";
import { startDev } from "./children.js";
import { orderOf, ordersOf } from "./orders.js";

const dev = await startDev("--drop-responses", "50%");
const options = { baseUrl: dev.base_url, credential: dev.keys.acme };

/** A client that does not wait for long; the service's answers say how long it should. */
function impatient(): Client {
  return createClient({ ...options, store: memoryStore(), pause: async () => {} });
}

test("half of the answers are lost, and each of fifty intents is one order", async () => {
  const client = impatient();
  const kinds = new Set<string>();
  for (let i = 0; i < 50; i++) {
    const result = await client.orders.intent(`checkout:${i}`).place(orderOf(`half-${i}`));
    kinds.add(result.kind);
    assert.equal(await ordersOf(dev, `half-${i}`), 1);
  }
  assert.deepEqual([...kinds].sort(), ["created", "replayed"]);
});

test("a cancellation whose answers are lost happens once", async () => {
  const client = impatient();
  const placed = await client.orders.intent("place").place(orderOf("cancelled"));
  assert.ok(placed.kind === "created" || placed.kind === "replayed");
  const result = await client.orders.intent("cancel").cancel(placed.data.id);
  assert.ok(result.kind === "created" || result.kind === "replayed");
  assert.equal(result.data.status, "cancelled");
  const late = await client.orders.intent("cancel again").cancel(placed.data.id);
  assert.equal(late.kind === "rejected" && late.problem.code, "order_not_cancellable");
});

test("the README's first order is placed, once", async () => {
  const snippets = [...readFileSync("README.md", "utf8").matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code!);
  const lines = snippets[0]!.split("\n").filter((line) => line.trim());
  assert.ok(lines.length <= 10, `${lines.length} lines`);

  const dir = resolve(".build/readme");
  mkdirSync(dir, { recursive: true });
  const values = `const baseUrl = ${JSON.stringify(dev.base_url)}, apiKey = ${JSON.stringify(dev.keys.acme)};
const userId = "customer-1", cart = { id: "readme" };
export const shown: string[] = [];
const show = (text: string) => void shown.push(text);
`;
  writeFileSync(`${dir}/first.ts`, values + snippets.join(""));
  const tsc = ["typescript/bin/tsc", "--target", "es2022", "--module", "nodenext", "--strict", "--skipLibCheck"];
  execFileSync(process.execPath, [
    resolve("node_modules", tsc[0]!),
    ...tsc.slice(1),
    "--lib",
    "es2022,dom",
    `${dir}/first.ts`,
  ]);

  (globalThis as { addEventListener?: unknown }).addEventListener ??= () => {};
  const { shown } = (await import(pathToFileURL(`${dir}/first.js`).href)) as { shown: string[] };
  assert.match(shown.join(), /^Order [0-9a-f-]{36} is placed$/);
  assert.equal(await ordersOf(dev, "readme"), 1);
});
