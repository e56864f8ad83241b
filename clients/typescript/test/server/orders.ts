import { createClient, type PlaceOrder } from "@orderonce/client";

import type { Dev } from "./children.js";

/** An order of a cart, without a checkout_id: that would keep a second one away by itself. */
export function orderOf(cart: string): PlaceOrder {
  return {
    customer_id: "customer-1",
    currency: "EUR",
    shipping_address_id: "address-1",
    items: [{ sku: "MUG-BLUE", quantity: 2, unit_price_minor: 1250 }],
    metadata: { cart },
  };
}

/** ordersOf counts the orders of a cart in the database. */
export async function ordersOf(dev: Dev, cart: string): Promise<number> {
  const { api } = createClient({ baseUrl: dev.base_url, credential: dev.keys.acme });
  let count = 0;
  let token: string | undefined;
  do {
    const query = { page_size: 100, ...(token && { page_token: token }) };
    const { data, error } = await api.GET("/orders", { params: { query } });
    if (!data) throw new Error(JSON.stringify(error));
    count += data.orders.filter((order) => order.metadata?.cart === cart || order.checkout_id === cart).length;
    token = data.next_page_token;
  } while (token);
  return count;
}
