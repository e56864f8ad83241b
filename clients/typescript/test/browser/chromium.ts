import { existsSync } from "node:fs";
import test, { after } from "node:test";

import { chromium, type Browser } from "playwright-core";

// scripts/chromium.sh puts one in place.
const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const executablePath = places.find((place) => place && existsSync(place));

/** inBrowser hands tests a browser, or says that there was none. */
export async function inBrowser(tests: (browser: Browser) => Promise<void>): Promise<void> {
  if (!executablePath) {
    test("in a browser", { skip: "NOT CHECKED: there is no Chromium; scripts/chromium.sh installs one" }, () => {});
    return;
  }
  const quiet = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", ...quiet] });
  after(() => browser.close());
  await tests(browser);
}
