// A real browser, the real service, and a network that loses half of the answers: one order each.
import assert from "node:assert/strict";
import test from "node:test";

import type { BrowserContext, Page } from "playwright-core";

import { startDev } from "../server/children.js";
import { ordersOf } from "../server/orders.js";
import { inBrowser } from "./chromium.js";
import { openShop } from "./shop.js";

await inBrowser(async (browser) => {
  const dev = await startDev("--drop-responses", "50%");
  const shop = await openShop(dev);

  const open = async (context: BrowserContext, cart: string): Promise<Page> => {
    const page = await context.newPage();
    page.on("pageerror", (error) => assert.fail(error));
    await page.goto(`${shop.url}?cart=${cart}`);
    await page.waitForSelector("body[data-ready]");
    return page;
  };

  /** results waits for so many lines of the page. */
  const results = async (page: Page, count: number): Promise<string[]> => {
    await page.waitForFunction((n) => document.querySelectorAll("li").length >= n, count);
    return page.locator("li").allTextContents();
  };

  /** oneOrder is what every story has to end with. */
  const oneOrder = async (cart: string, lines: string[]) => {
    for (const line of lines) assert.match(line, new RegExp(`^checkout:${cart} (created|replayed) [0-9a-f-]{36}$`));
    assert.equal(new Set(lines.map((line) => line.split(" ")[2])).size, 1, "everyone is shown the same order");
    assert.equal(new Set(shop.keys(cart)).size, 1, "one key");
    assert.equal(await ordersOf(dev, cart), 1, "one order in the database");
  };

  const story = (cart: string, what: string, tell: (context: BrowserContext) => Promise<string[]>) =>
    test(what, async () => {
      const context = await browser.newContext();
      try {
        await oneOrder(cart, await tell(context));
      } finally {
        await context.close();
      }
    });

  story("reload", "a page that is reloaded amid its request finds its order", async (context) => {
    const page = await open(context, "reload");
    const placed = shop.holdNextAnswer();
    await page.click("button");
    await placed;
    await page.reload();
    return results(page, 1);
  });

  story(
    "closed",
    "a page that is closed amid its request leaves its order to the next one, whatever that shows",
    async (context) => {
      const page = await open(context, "closed");
      const placed = shop.holdNextAnswer();
      await page.click("button");
      await placed;
      await page.close();
      return results(await open(context, "another"), 1);
    },
  );

  story("dblclick", "a double click is one order", async (context) => {
    const page = await open(context, "dblclick");
    await page.dblclick("button");
    return results(page, 2);
  });

  story("late", "a click after the answer is no second order", async (context) => {
    const page = await open(context, "late");
    await page.click("button");
    await results(page, 1);
    await page.click("button");
    return results(page, 2);
  });

  const bothTabs = async (context: BrowserContext, cart: string) => {
    const tabs = await Promise.all([open(context, cart), open(context, cart)]);
    await Promise.all(tabs.map((tab) => tab.click("button")));
    return (await Promise.all(tabs.map((tab) => results(tab, 1)))).flat();
  };

  story("tabs", "two tabs are one order", (context) => bothTabs(context, "tabs"));

  story("no-locks", "two tabs are one order in a browser without Web Locks", async (context) => {
    await context.addInitScript(() => Object.defineProperty(Navigator.prototype, "locks", { value: undefined }));
    return bothTabs(context, "no-locks");
  });

  story("offline", "a click without a network places its order once there is one", async (context) => {
    const page = await open(context, "offline");
    await context.setOffline(true);
    const failed = page.waitForEvent("requestfailed");
    await page.click("button");
    await failed;
    assert.equal(await ordersOf(dev, "offline"), 0);
    await context.setOffline(false);
    return results(page, 1);
  });

  story(
    "offline-reload",
    "a page that is opened again later places what was clicked without a network",
    async (context) => {
      const page = await open(context, "offline-reload");
      await context.setOffline(true);
      const failed = page.waitForEvent("requestfailed");
      await page.click("button");
      await failed;
      await page.close();
      await context.setOffline(false);
      return results(await open(context, "offline-reload"), 1);
    },
  );

  for (let i = 0; i < 5; i++) {
    story(`half-${i}`, `half of the answers are lost: order ${i + 1} of 5`, async (context) => {
      const page = await open(context, `half-${i}`);
      await page.click("button");
      return results(page, 1);
    });
  }
});
