// The programs that the tests run. Each ends with its test file, however that ends.
import { spawn, type ChildProcess } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { after } from "node:test";

/** Where npm run server leaves orderonce and vectors. Tests run in the package's directory. */
const built = resolve(".build");

export interface Dev {
  base_url: string;
  database_url: string;
  keys: Record<"acme" | "globex" | "ops", string>;
}

/** startDev runs the real service on a PostgreSQL of its own. */
export async function startDev(...args: string[]): Promise<Dev> {
  const dir = mkdtempSync(join(tmpdir(), "orderonce-client-"));
  chmodSync(dir, 0o755); // as root, PostgreSQL runs as another user
  const ready = join(dir, "ready.json");
  const child = start("orderonce", [
    "dev",
    "--listen",
    "127.0.0.1:0",
    "--data",
    join(dir, "data"),
    "--ready-file",
    ready,
    ...args,
  ]);
  after(async () => {
    await end(child, "SIGTERM");
    rmSync(dir, { recursive: true, force: true });
  });
  for (;;) {
    try {
      return JSON.parse(readFileSync(ready, "utf8")) as Dev;
    } catch {
      if (child.exitCode !== null) throw new Error(`orderonce dev ended with status ${child.exitCode}`);
      await sleep(50);
    }
  }
}

/** startVectors runs the judge of clients/vectors before a service, and resolves to where it listens. */
export async function startVectors(dev: Dev): Promise<string> {
  const child = start("vectors", ["-server", dev.base_url, "-shop-key", dev.keys.acme, "-operator-key", dev.keys.ops]);
  after(() => end(child));
  let text = "";
  for await (const part of child.stdout!) {
    text += String(part);
    if (text.includes("\n")) break;
  }
  return (JSON.parse(text) as { control_url: string }).control_url;
}

function start(program: string, args: string[]): ChildProcess {
  return spawn(join(built, program), args, { stdio: ["pipe", "pipe", "inherit"] });
}

async function end(child: ChildProcess, signal?: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.stdin!.end();
  if (signal) child.kill(signal);
  await exited;
}
