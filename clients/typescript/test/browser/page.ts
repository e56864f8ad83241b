// The page that the browser tests drive: a button that places the order of a cart, and what became of it.
import { createClient, type IntentResult } from "@orderonce/client";
import { orderOf } from "../server/orders.js";

declare const apiKey: string; // served with the page

const cart = new URLSearchParams(location.search).get("cart")!;
const client = createClient({ credential: apiKey, owner: "ann", sendTimeoutMs: 60_000, deadlineMs: 120_000 });

function show(name: string, result: IntentResult<"/orders">): void {
  const line = document.createElement("li");
  const id = result.kind === "created" || result.kind === "replayed" ? result.data.id : "";
  line.textContent = `${name} ${result.kind} ${id}`;
  document.querySelector("#results")!.append(line);
}

document.querySelector("button")!.addEventListener("click", async () => {
  const name = `checkout:${cart}`;
  show(name, await client.orders.intent(name).place(orderOf(cart)));
});

for (const { name, result } of await client.resumePending()) show(name, result as IntentResult<"/orders">);
document.body.dataset.ready = "yes";
