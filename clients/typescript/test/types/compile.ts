// Nothing here runs: tsc compiles it with the tests, and each mistake must be one.
import { createClient, type IntentResult, type Rejection } from "@orderonce/client";

const client = createClient();
const order = { customer_id: "c", currency: "EUR", shipping_address_id: "a", items: [] };

export async function aKeyedOperationNeedsAKey() {
  await client.api.POST("/orders", {
    params: { header: { "Idempotency-Key": "0198d0a6-4b7c-7d3e-9a51-0f6d2c3b4a59" } },
    body: order,
  });
  // @ts-expect-error the key is missing
  await client.api.POST("/orders", { body: order });
  // @ts-expect-error the key is missing among the headers
  await client.api.POST("/orders", { params: { header: {} }, body: order });
}

export async function anIntentNeedsItsRequest() {
  // @ts-expect-error a member is missing
  await client.orders.intent("a").place({ customer_id: "c" });
  // @ts-expect-error a member is misspelt
  await client.orders.intent("a").place({ ...order, coupon: "WELCOME10" });
  // @ts-expect-error the path's parameter is missing
  await client.intent("a").post("/orders/{orderId}/cancel", {});
  // @ts-expect-error the operation takes no body
  await client.intent("a").post("/orders/{orderId}/cancel", { path: { orderId: "x" }, body: order });
  // @ts-expect-error the operation takes no key, and so is no intent
  await client.intent("a").post("/livez", {});
  // @ts-expect-error an intent needs a name
  client.orders.intent();
}

/** Every kind of result, and nothing left. */
export function everyKind(result: IntentResult<"/orders">): string {
  switch (result.kind) {
    case "created":
    case "replayed":
      return result.data.id;
    case "rejected":
      return result.problem.code;
    case "unknown":
      return result.reason;
  }
}

// @ts-expect-error "unknown" is forgotten, so that a person would see nothing
export function aForgottenKind(result: IntentResult<"/orders">): string {
  switch (result.kind) {
    case "created":
    case "replayed":
      return result.data.id;
    case "rejected":
      return result.problem.code;
  }
}

export function theUnionHasNoFailed(result: IntentResult<"/orders">) {
  // @ts-expect-error unknown is never failed
  return result.kind === "failed";
}

export function dataIsThereOnlyWhereItWasDone(result: IntentResult<"/orders">) {
  // @ts-expect-error a rejection has no order
  return result.data;
}

/** Every rejection of createOrder, and nothing left. */
export function everyCode(problem: Rejection<"/orders">): string {
  switch (problem.code) {
    case "coupon_unknown":
    case "coupon_not_applicable":
    case "coupon_expired":
    case "coupon_exhausted":
      return "coupon";
    case "checkout_already_ordered":
      return "done";
    case "validation_failed":
      return (problem.errors ?? []).map((error) => error.pointer).join();
    case "idempotency_key_reused":
      return problem.differing.join();
    case "unauthenticated":
    case "forbidden":
      return "sign in";
    case "invalid_request":
    case "idempotency_key_missing":
    case "idempotency_key_invalid":
    case "body_too_large":
    case "unsupported_media_type":
      return "ours";
    default:
      return problem satisfies never;
  }
}

export function aForgottenCode(problem: Rejection<"/orders/{orderId}/cancel">): string {
  switch (problem.code) {
    case "idempotency_key_reused":
    case "unauthenticated":
    case "forbidden":
    case "not_found":
    case "invalid_request":
    case "idempotency_key_missing":
    case "idempotency_key_invalid":
      return "";
    default:
      // @ts-expect-error order_not_cancellable is forgotten
      return problem satisfies never;
  }
}

export function codesNarrow(problem: Rejection<"/orders">) {
  if (problem.code === "validation_failed") return problem.status satisfies 422;
  if (problem.code === "checkout_already_ordered") return problem.status satisfies 409;
  // @ts-expect-error what can be sent again never comes out as a rejection
  return problem.code === "busy";
}

export async function plainCallsNarrowToo() {
  const { error } = await client.api.GET("/orders/{orderId}", { params: { path: { orderId: "x" } } });
  return error?.code;
}
