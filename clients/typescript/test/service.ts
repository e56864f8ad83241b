import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

import { createClient, memoryStore, type Client, type ClientOptions, type PlaceOrder } from "@orderonce/client";

/** What a service that answers by a script has been sent. */
export interface Got {
  method: string;
  path: string;
  key: string | undefined;
  authorization: string | undefined;
  version: string | undefined;
  body: string;
}

/** Does one thing to a request; the socket is there for those that answer nothing. */
export type Act = (response: ServerResponse, request: IncomingMessage, got: Got) => void;

export const cut: Act = (response) => void response.socket!.destroy();
export const silent: Act = () => {};

export function answer(status: number, body: string, headers: Record<string, string> = {}): Act {
  return (response) => response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(body);
}

export function problem(
  status: number,
  code: string,
  retryable: boolean,
  action: string,
  headers: Record<string, string> = {},
): Act {
  const body = { type: `/problems/${code}`, title: code, status, code, retryable, key_action: action, request_id: "1" };
  return answer(status, JSON.stringify(body), { "Content-Type": "application/problem+json", ...headers });
}

export const anOrder = { id: "0198d0a7-52f1-7c44-a3b8-5d1a9be0f001", status: "pending" };

export function created(replayed = false): Act {
  const expires = new Date(Date.now() + 72 * 3_600_000).toUTCString();
  return answer(201, JSON.stringify(anOrder), {
    Location: `/orders/${anOrder.id}`,
    "Idempotency-Replayed": String(replayed),
    "Idempotency-Key-Expires": expires,
  });
}

/** A service that does with the n-th request what the n-th act says, and with all later ones what the last one says. */
export async function serve(t: TestContext, ...acts: Act[]) {
  const got: Got[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const one = {
        method: request.method!,
        path: request.url!,
        key: request.headers["idempotency-key"] as string | undefined,
        authorization: request.headers.authorization,
        version: request.headers["api-version"] as string | undefined,
        body: Buffer.concat(parts).toString(),
      };
      got.push(one);
      acts[Math.min(got.length, acts.length) - 1]!(response, request, one);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { got, baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** A client that notes its pauses instead of making them. */
export function clientOf(baseUrl: string, options: ClientOptions = {}): { client: Client; pauses: number[] } {
  const pauses: number[] = [];
  const pause = async (ms: number) => void pauses.push(ms);
  return { client: createClient({ baseUrl, store: memoryStore(), pause, ...options }), pauses };
}

export function mugs(checkout: string): PlaceOrder {
  return {
    checkout_id: checkout,
    customer_id: "customer-1",
    currency: "EUR",
    shipping_address_id: "address-1",
    items: [{ sku: "MUG-BLUE", quantity: 2, unit_price_minor: 1250 }],
  };
}
