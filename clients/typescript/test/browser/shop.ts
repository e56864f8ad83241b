import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after } from "node:test";

import { build } from "esbuild";

import type { Dev } from "../server/children.js";

const page = (apiKey: string) => `<!doctype html><title>A shop</title><link rel="icon" href="data:,">
<body><button>Place the order</button><ol id="results"></ol>
<script>const apiKey = ${JSON.stringify(apiKey)}</script><script type="module" src="/page.js"></script>`;

export interface Shop {
  url: string;
  /** The idempotency keys of the orders that were sent for a cart, one each send. */
  keys(cart: string): string[];
  /** The next order is placed, and its answer held back for ever; resolves once it is placed. */
  holdNextAnswer(): Promise<void>;
}

/** openShop serves the page, and hands everything else to the service, so that both are one origin. */
export async function openShop(dev: Dev): Promise<Shop> {
  const { outputFiles } = await build({
    entryPoints: [".build/test/browser/page.js"],
    bundle: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    write: false,
  });
  const sent: { key: string; body: string }[] = [];
  let held: (() => void) | undefined;

  const forward = (from: IncomingMessage, to: ServerResponse, body: Buffer) => {
    const onAnswer = from.method === "POST" && held;
    if (onAnswer) held = undefined;
    const { host: _, ...headers } = from.headers;
    const request = httpRequest(dev.base_url + from.url!, { method: from.method!, headers }, (answer) => {
      if (onAnswer) {
        answer.resume();
        answer.on("end", onAnswer);
        return;
      }
      to.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(to);
    });
    // The service cut the connection; the browser is to see no more than that.
    request.on("error", () => (onAnswer ? onAnswer() : to.destroy()));
    request.end(body);
  };

  const server = createServer((from, to) => {
    if (from.url === "/page.js")
      return to.writeHead(200, { "Content-Type": "text/javascript" }).end(outputFiles[0]!.text);
    if (from.url!.startsWith("/?")) return to.writeHead(200, { "Content-Type": "text/html" }).end(page(dev.keys.acme));
    const parts: Buffer[] = [];
    from.on("data", (part: Buffer) => parts.push(part));
    from.on("end", () => {
      const body = Buffer.concat(parts);
      if (from.method === "POST") sent.push({ key: from.headers["idempotency-key"] as string, body: body.toString() });
      forward(from, to, body);
    });
    return;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    keys: (cart) => sent.filter(({ body }) => body.includes(`"cart":"${cart}"`)).map(({ key }) => key),
    holdNextAnswer: () => new Promise((resolve) => (held = resolve)),
  };
}
