/** uuidv7 mints a key: time-ordered, which keeps the service's index fast, with 74 random bits (RFC 9562). */
export function uuidv7(now: number): string {
  const time = now.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}
