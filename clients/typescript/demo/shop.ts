// A small shop that shows what the client does: `orderonce dev` serves it at /demo.
import { createClient, indexedDBStore, IntentConflictError } from "@orderonce/client";
import type { IntentResult, Order, PlaceOrder, Send } from "@orderonce/client";

import { cell, code, element, entry, money, row } from "./dom.js";

const owner = "acme";
const cartItem = "orderonce-demo-cart"; // in localStorage: the tabs of a browser share a cart, and a reload keeps it
const otherTabs = new BroadcastChannel("orderonce-demo");

const { credential } = (await (await fetch("/demo/config.json")).json()) as { credential: string };
const store = indexedDBStore();
const client = createClient({ credential, owner, store, fetch: send, onSend: answered, sendTimeoutMs: 12_000, deadlineMs: 20_000 });

const form = element("cart", HTMLFormElement);
const offline = element("offline", HTMLInputElement);
const waiting = new Set<AbortController>();

const cart = () => (localStorage[cartItem] ??= newCart()) as string;
const newCart = () => `cart-${crypto.randomUUID().slice(0, 8)}`;
const intentName = () => `checkout:${cart()}`;

function orderOfForm(): PlaceOrder {
  const fields = new FormData(form);
  const coupon = String(fields.get("coupon"));
  return {
    checkout_id: cart(),
    customer_id: "customer-1",
    currency: "EUR",
    shipping_address_id: "address-1",
    items: [{ sku: "MUG-BLUE", quantity: Number(fields.get("quantity")), unit_price_minor: 1250 }],
    ...(coupon && { coupon_code: coupon }),
  };
}

/** place is all that a shop has to do; the rest of this file shows what happens. */
async function place(): Promise<void> {
  const name = intentName();
  await whileWaiting(async (signal) => {
    try {
      conclude(name, await client.orders.intent(name).place(orderOfForm(), { signal }));
    } catch (error) {
      if (!(error instanceof IntentConflictError)) throw error;
      const what = error.settled ? "has been ordered with other contents" : "is being ordered with other contents";
      say("conflict", `This cart ${what}. Nothing was sent: put the contents back, or take a new cart.`);
    }
  });
}

/** resume finds out what became of intents that an earlier page had left open. */
async function resume(): Promise<void> {
  const open = await client.pending();
  if (open.length === 0) return;
  say("resuming", `An earlier page left ${open.map(({ name }) => name).join(", ")} open. Asking again, under the same key.`);
  await resumePending("Another page has found the outcome.");
}

async function resumePending(elsewhere?: string): Promise<void> {
  await whileWaiting(async (signal) => {
    const resumed = await client.resumePending({ signal });
    for (const { name, result } of resumed) conclude(name, result as IntentResult<"/orders">);
    if (resumed.length === 0 && elsewhere) say("resumed", elsewhere);
  });
}

async function whileWaiting(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const controller = new AbortController();
  waiting.add(controller);
  showWaiting();
  try {
    await work(controller.signal);
  } catch (error) {
    say("fault", String(error));
  } finally {
    waiting.delete(controller);
    showWaiting();
    changed();
  }
}

/** conclude says an outcome in words. */
function conclude(name: string, result: IntentResult<"/orders">): void {
  const whose = name === intentName() ? "" : ` (of ${name})`;
  switch (result.kind) {
    case "created":
      return say("created", `Order ${result.data.id} is placed${whose}.`);
    case "replayed":
      return say("replayed", `Order ${result.data.id} had been placed before${whose}. This is its first answer again; nothing happened twice.`);
    case "rejected":
      return say("rejected", `${result.problem.title} (${result.problem.code})${whose}. Nothing was ordered${result.replayed ? "; this is its first answer again" : ""}.`);
    case "unknown":
      return say("unknown", `No definite answer yet (${result.reason})${whose}. It may have been ordered or not. The key is kept: place it again, reload, or go online to find out.`);
  }
}

const outcomes = element("outcomes", HTMLOListElement);

function say(kind: string, text: string): void {
  outcomes.append(entry(kind, text));
  while (outcomes.children.length > 8) outcomes.firstElementChild!.remove();
  element("no-outcome").hidden = true;
  element("log").scrollTop = element("log").scrollHeight;
}

function showWaiting(): void {
  element("waiting").textContent = waiting.size === 0 ? "Nothing is under way." : `Under way: ${waiting.size}. No outcome yet.`;
  element("stop").toggleAttribute("disabled", waiting.size === 0);
}

// What the network does. A send's line is there from its beginning; the client tells how it ended.

const sends = element("sends", HTMLTableSectionElement);
const openLines = new Map<string, HTMLTableRowElement>(); // by key; the sends of one intent take turns

async function send(request: Request): Promise<Response> {
  const key = request.headers.get("Idempotency-Key");
  if (key) {
    const time = new Date().toLocaleTimeString("en-GB");
    const line = row(cell(String(sends.children.length + 1), "th"), cell(time), cell(code(key)), cell("waiting …"), cell("–"), cell("–"));
    sends.append(line);
    element("no-send").hidden = true;
    openLines.set(key, line);
    void showIntent();
  }
  if (offline.checked) throw new TypeError("this page is offline");
  if (key) {
    const luck = form.elements.namedItem("answer") as RadioNodeList;
    if (luck.value !== "come") request.headers.set("Demo-Answer", luck.value);
    luck.value = "come"; // bad luck is for one answer
  }
  return fetch(request);
}

function answered({ request, response, problem, error, pauseMs }: Send): void {
  const line = openLines.get(request.headers.get("Idempotency-Key") ?? "");
  if (!line) return;
  const [, , , came, replayed, next] = line.children;
  const stopped = request.signal.aborted;
  came!.textContent = stopped ? "no answer (not waited for)" : response ? [response.status, problem?.code].join(" ") : `no answer (${(error as Error).message})`;
  replayed!.textContent = response?.headers.get("Idempotency-Replayed") ?? "–";
  next!.textContent = stopped ? "stopped" : pauseMs === undefined ? "done" : `again in ${(pauseMs / 1000).toFixed(1)} s`;
  changed();
}

// What is known here and what is in the database.

async function showIntent(): Promise<void> {
  const record = (await store.list()).find((one) => one.owner === owner && one.name === intentName());
  const states = { pending: "open: no outcome yet", settled: "settled: the outcome is known", rejected: "rejected: a corrected order gets a new key" };
  element("cart-id").textContent = cart();
  element("intent-name").textContent = intentName();
  element("intent-key").textContent = record?.key ?? "none yet: it is made at the first click";
  element("intent-state").textContent = record ? states[record.state] : "not begun";
}

let asking: AbortController | undefined;

async function showOrders(): Promise<void> {
  asking?.abort();
  const { signal } = (asking = new AbortController());
  const checkout = cart();
  const count = element("order-count");
  try {
    const { data } = await client.api.GET("/orders", { params: { query: { checkout_id: checkout } }, signal });
    if (signal.aborted) return;
    if (!data) throw new Error("refused");
    const { orders } = data;
    count.textContent = orders.length === 1 ? "1 order" : `${orders.length} orders`;
    element("orders").replaceChildren(...orders.map(orderRow));
    element("order-table").hidden = orders.length === 0;
  } catch {
    if (!signal.aborted) count.textContent = "not known: the service cannot be asked now";
  }
}

function orderRow(order: Order): HTMLTableRowElement {
  const items = order.items.map(({ quantity, sku }) => `${quantity} × ${sku}`).join(", ");
  return row(cell(code(order.id), "th"), cell(order.status), cell(items), cell(money(order.total_minor, order.currency)));
}

function show(): void {
  void showIntent();
  void showOrders();
}

/** changed shows what there is now, in the other tabs too. */
function changed(): void {
  show();
  otherTabs.postMessage("changed");
}

function takeNewCart(): void {
  localStorage[cartItem] = newCart();
  form.reset();
  say("new cart", `${cart()} is a new intent: it gets a key of its own.`);
  changed();
}

const back = () => {
  void resumePending();
  show();
};

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void place();
});
element("new-cart").addEventListener("click", takeNewCart);
element("reload").addEventListener("click", () => location.reload());
element("stop").addEventListener("click", () => waiting.forEach((one) => one.abort()));
// The client too waits for this event of the browser's.
offline.addEventListener("change", () => offline.checked || dispatchEvent(new Event("online")));
addEventListener("online", back);
addEventListener("storage", show);
otherTabs.addEventListener("message", show);
// While an answer is held back, its order can be seen already.
setInterval(() => waiting.size > 0 && !offline.checked && void showOrders(), 1500);

showWaiting();
show();
document.body.dataset.ready = "yes";
await resume();
