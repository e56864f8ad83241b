// What is published: its shape, its size, and that it says what the contract says.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const read = (path: string) => readFileSync(path, "utf8");
const npx = (program: string, ...args: string[]) =>
  execFileSync("npx", ["--no-install", program, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

test("all of it, with what it runs on, is at most 6 kB (gzip)", async (t) => {
  const { outputFiles } = await build({
    stdin: { contents: 'export * from "@orderonce/client"', resolveDir: "." },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    write: false,
  });
  const bytes = gzipSync(outputFiles[0]!.contents, { level: 9 }).length;
  t.diagnostic(`${bytes} bytes`);
  assert.ok(bytes <= 6 * 1024, `${bytes} bytes`);
});

test("publint finds nothing", () => {
  assert.match(npx("publint", "--strict"), /All good/);
});

test("types resolve for ESM, CommonJS and bundlers", () => {
  assert.match(npx("attw", "--pack", ".", "--no-color"), /No problems found/);
});

test("CommonJS gets the same client", () => {
  const { createClient } = createRequire(import.meta.url)("@orderonce/client") as typeof import("@orderonce/client");
  assert.equal(createClient({ baseUrl: "http://127.0.0.1" }).orders.intent("a").name, "a");
});

test("the types are generated from openapi.yaml as it is: npm run gen", (t) => {
  const dir = mkdtempSync(join(tmpdir(), "orderonce-gen-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const [, ...args] = (JSON.parse(read("package.json")) as { scripts: { gen: string } }).scripts.gen.split(" ");
  npx("openapi-typescript", ...args.slice(0, -1), join(dir, "schema.gen.ts"));
  assert.ok(read(join(dir, "schema.gen.ts")) === read("src/schema.gen.ts"), "src/schema.gen.ts is stale");
});

test("the script of dev's shop page is made of demo and src as they are: npm run demo", (t) => {
  const dir = mkdtempSync(join(tmpdir(), "orderonce-demo-"));
  t.after(() => rmSync(dir, { recursive: true }));
  execFileSync(process.execPath, ["scripts/demo.mjs", join(dir, "shop.js")]);
  assert.ok(read(join(dir, "shop.js")) === read("../../cmd/orderonce/demo/shop.js"), "cmd/orderonce/demo/shop.js is stale");
});

test("the lock file names no registry", () => {
  assert.doesNotMatch(read("package-lock.json"), /"resolved"|https?:\/\/[^"]*registry/);
});

test("nothing runs with it but idb-keyval and openapi-fetch", () => {
  const { dependencies } = JSON.parse(read("package.json")) as { dependencies: object };
  assert.deepEqual(Object.keys(dependencies).sort(), ["idb-keyval", "openapi-fetch"]);
});

test("the members that may differ between retries are the contract's", () => {
  const lines = read("../../openapi.yaml").split("\n");
  const marked = lines.flatMap((line, i) => (line.trim() === "x-fingerprint: exclude" ? [i] : []));
  const names = marked.map((i) => {
    const indent = lines[i]!.search(/\S/);
    return lines
      .slice(0, i)
      .findLast((line) => line.search(/\S/) < indent && line.trim())!
      .trim();
  });
  const [, ours] = /transportMembers[^=]*= (\[.*\]);/.exec(read("src/fingerprint.ts"))!;
  assert.deepEqual(
    [...new Set(names)],
    (JSON.parse(ours!) as string[]).map((name) => `${name}:`),
  );
});

test("what is sent again, and what is a rejection, is as in docs/errors.md", () => {
  const rows = [...read("../../docs/errors.md").matchAll(/^\| \[`(\w+)`\]\S+ \| \d+ \| (yes|no) \|/gm)];
  assert.ok(rows.length > 25, "the table is there");
  const retryable = rows.filter(([, , yes]) => yes === "yes").map(([, code]) => code);
  const [, union] = /type RetryableCode =([^;]*);/.exec(read("src/result.ts"))!;
  const ours = [...union!.matchAll(/"(\w+)"/g)].map(([, code]) => code);
  assert.deepEqual(ours.sort(), retryable.sort());
});

test("times are the contract's", () => {
  const contract = read("../../openapi.yaml");
  assert.match(contract, /client-queue: 24h/, "keepMs");
  assert.deepEqual(
    [...new Set([...contract.matchAll(/ retention: (\w+)/g)].map(([, time]) => time))],
    ["72h"],
    "retentionMs",
  );
});
