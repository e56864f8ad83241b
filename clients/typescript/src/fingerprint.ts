// What makes two requests of one intent the same, as the service sees it. It detects a mistake early; the service's own
// comparison is the one that counts.

/** Members that may differ between retries: `x-fingerprint: exclude` in openapi.yaml; a test compares them. */
export const transportMembers: readonly string[] = ["client_sent_at"];

/** fingerprint is the SHA-256 of a request whose members may come in any order. */
export async function fingerprint(path: string, params: unknown, body: string | undefined): Promise<string> {
  const parsed: unknown = body === undefined ? null : JSON.parse(body);
  if (typeof parsed === "object" && parsed !== null) {
    for (const member of transportMembers) delete (parsed as Record<string, unknown>)[member];
  }
  const text = JSON.stringify([path, params, parsed], sorted);
  // Browsers have it in secure contexts only: https, or localhost.
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return btoa(String.fromCharCode(...new Uint8Array(digest)));
}

/** sorted is a replacer for JSON.stringify that gives every object's members one order. */
function sorted(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
