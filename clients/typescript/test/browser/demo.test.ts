// The shop page of `orderonce dev`, as it is served: whatever a person does to it, a cart is one order.
import assert from "node:assert/strict";
import test from "node:test";

import axe from "axe-core";
import type { BrowserContext, Page } from "playwright-core";

import { startDev } from "../server/children.js";
import { ordersOf } from "../server/orders.js";
import { inBrowser } from "./chromium.js";

await inBrowser(async (browser) => {
  const dev = await startDev();

  /** A person's browser, what its pages sent, and where. */
  interface Person {
    context: BrowserContext;
    page: Page;
    keys: string[];
  }

  const open = async (context: BrowserContext): Promise<Page> => {
    const page = await context.newPage();
    await page.goto(`${dev.base_url}/demo`);
    await page.waitForSelector("body[data-ready]");
    return page;
  };

  const person = (what: string, does: (person: Person) => Promise<void>) =>
    test(what, async () => {
      const context = await browser.newContext();
      const keys: string[] = [];
      const faults: string[] = [];
      context.on("weberror", (error) => faults.push(String(error.error())));
      context.on("console", (message) => /Content.Security|violat/i.test(message.text()) && faults.push(message.text()));
      context.on("request", (request) => {
        const url = new URL(request.url());
        if (url.origin !== dev.base_url) faults.push(`outside: ${url}`);
        if (url.href.includes(dev.keys.acme)) faults.push(`the API key in ${url}`);
        if (request.method() === "POST") keys.push(request.headers()["idempotency-key"]!);
      });
      try {
        await does({ context, page: await open(context), keys });
        assert.deepEqual(faults, []);
      } finally {
        await context.close();
      }
    });

  /** outcomes waits until the page has told so many of these kinds. */
  const outcomes = async (page: Page, count: number, ...kinds: string[]): Promise<string[]> => {
    const lines = page.locator(kinds.map((kind) => `#outcomes li[data-kind="${kind}"]`).join(", "));
    await lines.nth(count - 1).waitFor();
    return lines.allTextContents();
  };

  /** oneOrder is what every story ends with: in the database, on the page, and in what was sent. */
  const oneOrder = async ({ page, keys }: Person) => {
    const cart = (await page.textContent("#cart-id"))!;
    assert.equal(await ordersOf(dev, cart), 1, "one order in the database");
    await page.waitForFunction(() => document.querySelector("#order-count")!.textContent === "1 order");
    assert.deepEqual([...new Set(keys)], [await page.textContent("#intent-key")], "one key, and it is the one that is shown");
    assert.match((await page.textContent("#intent-state"))!, /^settled/);
  };

  const place = (page: Page) => page.click("#place");
  const placedButUnanswered = (page: Page) =>
    page.waitForFunction(() => document.querySelector("#order-count")!.textContent === "1 order");

  person("by keyboard alone an order is placed, and told in words", async (ann) => {
    await ann.page.focus("#coupon");
    await ann.page.keyboard.press("Tab");
    await ann.page.keyboard.press("Enter");
    const [line] = await outcomes(ann.page, 1, "created");
    assert.match(line!, /^created: Order [0-9a-f-]{36} is placed\.$/);
    await oneOrder(ann);
  });

  person("a double click is one order: created, and replayed", async (ann) => {
    await ann.page.dblclick("#place");
    await outcomes(ann.page, 1, "created");
    await outcomes(ann.page, 1, "replayed");
    await oneOrder(ann);
  });

  person("an answer that the server cut is sent for again, and replayed", async (ann) => {
    await ann.page.getByLabel("is cut by the server").check();
    await place(ann.page);
    await outcomes(ann.page, 1, "replayed");
    const sends = await ann.page.locator("#sends tr").allTextContents();
    assert.equal(sends.length, 2);
    assert.match(sends[0]!, /no answer.*again in/);
    assert.match(sends[1]!, /201.*true/);
    assert.ok(await ann.page.getByRole("radio", { name: "comes" }).isChecked(), "it was for one answer");
    await oneOrder(ann);
  });

  person("a page that is reloaded while it waits finds its order", async (ann) => {
    await ann.page.getByLabel("is held back").check();
    await place(ann.page);
    await placedButUnanswered(ann.page);
    assert.match((await ann.page.textContent("#waiting"))!, /^Under way: 1/);
    await ann.page.reload();
    await outcomes(ann.page, 1, "resuming");
    await outcomes(ann.page, 1, "replayed");
    await oneOrder(ann);
  });

  person("who stops waiting is told that it is not known, and finds out later", async (ann) => {
    await ann.page.getByLabel("is held back").check();
    await place(ann.page);
    await placedButUnanswered(ann.page);
    await ann.page.click("#stop");
    const [line] = await outcomes(ann.page, 1, "unknown");
    assert.match(line!, /may have been ordered or not/);
    await place(ann.page);
    await outcomes(ann.page, 1, "replayed");
    await oneOrder(ann);
  });

  person("two tabs share a cart, its intent and its order", async (ann) => {
    const other = await open(ann.context);
    await Promise.all([place(ann.page), place(other)]);
    const told = await Promise.all([ann.page, other].map((page) => outcomes(page, 1, "created", "replayed")));
    assert.deepEqual(told.flat().map((line) => line.split(":")[0]).sort(), ["created", "replayed"]);
    await oneOrder({ ...ann, page: other });
    await oneOrder(ann);
  });

  person("what was clicked offline is placed once there is a network", async (ann) => {
    await ann.context.setOffline(true);
    await place(ann.page);
    await ann.page.locator("#sends", { hasText: "no answer" }).waitFor();
    assert.equal(await ordersOf(dev, (await ann.page.textContent("#cart-id"))!), 0);
    await ann.context.setOffline(false);
    await outcomes(ann.page, 1, "created", "replayed");
    await oneOrder(ann);
  });

  person("so it is where the page alone was offline", async (ann) => {
    await ann.page.getByLabel("This page is offline").check();
    await place(ann.page);
    await ann.page.locator("#sends", { hasText: "this page is offline" }).first().waitFor();
    assert.deepEqual(ann.keys, [], "nothing left the page");
    await ann.page.getByLabel("This page is offline").uncheck();
    await outcomes(ann.page, 1, "created", "replayed");
    await oneOrder(ann);
  });

  person("a definite no is told with its reason, and a corrected order gets a key of its own", async ({ page, keys }) => {
    await page.selectOption("#coupon", "EXPIRED10");
    await place(page);
    const [line] = await outcomes(page, 1, "rejected");
    assert.match(line!, /coupon_expired.*Nothing was ordered/);
    await page.selectOption("#coupon", "WELCOME10");
    await place(page);
    await outcomes(page, 1, "created");
    assert.equal(new Set(keys).size, 2);
    await page.fill("#quantity", "3");
    await place(page);
    await outcomes(page, 1, "conflict");
    assert.equal(keys.length, 2, "nothing was sent for the changed cart");
    await page.click("#new-cart");
    await place(page);
    await outcomes(page, 2, "created");
    assert.equal(new Set(keys).size, 3);
  });

  for (const colorScheme of ["light", "dark"] as const) {
    person(`axe finds nothing, ${colorScheme}`, async ({ page }) => {
      const look = async (when: string) => {
        const { violations } = (await page.evaluate(`${axe.source}; axe.run()`)) as axe.AxeResults;
        assert.deepEqual(violations.map(({ id, nodes }) => [when, id, nodes.map(({ html }) => html)]), []);
      };
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await look("at first");
      await page.dblclick("#place");
      await outcomes(page, 1, "replayed");
      await page.locator("#orders tr").waitFor();
      await look("after an order");
    });
  }
});
