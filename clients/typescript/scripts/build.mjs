// Builds dist: one bundle for each module system, and the declarations for both. The CommonJS one holds what it runs on
// as well: openapi-fetch's own CommonJS has its function elsewhere than its declarations say.
import { spawnSync } from "node:child_process";
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
rmSync("dist", { recursive: true, force: true });

const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const { status } = spawnSync(process.execPath, [tsc, "--project", "tsconfig.json"], { stdio: "inherit" });
if (status !== 0) process.exit(status ?? 1);

// The declarations are the same; which module system they speak of is said by the nearest package.json.
cpSync("dist/esm", "dist/cjs", { recursive: true });
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');

for (const format of ["esm", "cjs"]) {
  await build({
    entryPoints: ["src/index.ts"],
    outfile: `dist/${format}/index.js`,
    bundle: true,
    packages: format === "cjs" ? "bundle" : "external",
    format,
    target: "es2022",
    sourcemap: true,
  });
}
