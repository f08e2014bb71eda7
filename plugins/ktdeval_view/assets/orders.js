// The orders of a day in true identities, beside the handles that the model used, and what the
// market did with each.

const STATUS = {
  filled: ["filled", "good"],
  partially_filled: ["filled in part", "warn"],
  rejected: ["rejected", "bad"],
};
const [PLOT_DAYS_BEFORE, PLOT_DAYS_AFTER] = [20, 10];

/** A share of NAV with as many decimals as it was given, at most two. */
function weight(share) {
  const isExact = (digits) => Math.abs(100 * share - Number((100 * share).toFixed(digits))) < 1e-9;
  return percent(share, [0, 1].find(isExact) ?? 2, false);
}

class Orders {
  constructor(view) {
    this.view = view;
  }

  show(day, {step, handles, facts}) {
    return el(
      "ol.orders",
      {},
      step.orders.map((order, place) => this.order(day, order, handles[place], facts[place])),
    );
  }

  order(day, order, handle, facts) {
    const [status, kind] = STATUS[order.status] || [order.status, "warn"];
    const asked =
      order.target_weight === null
        ? count(order.shares, "share")
        : `to ${weight(order.target_weight)} of NAV`;
    const head = el(
      "div.order-head",
      {},
      el(`span.${order.side === "BUY" ? "buy" : "sell"}`, {}, order.side),
      this.stock(order, handle),
      el("span", {}, order.limit ? `${asked}, limit ${figure(order.limit, 4)}` : asked),
      el("span.quiet", {}, `confidence ${figure(order.confidence, 2)}`),
      el(`span.chip.${kind}`, {}, order.rule ? `${status}: ${order.rule}` : status),
    );
    const words = el(
      "div",
      {},
      el("p.reason", {}, this.view.names.mark(order.reason)),
      this.outcome(order),
      facts ? this.market(facts) : null,
    );
    return el("li.order", {}, head, el("div.order-body", {}, words, this.plot(day, order)));
  }

  stock(order, handle) {
    const used = order.stock_id || handle || this.view.names.handles.get(order.code);
    if (order.code) return stockName(this.view, order.code, used);
    return el(
      "span.stock",
      {},
      el("span.handle-used", {}, used || NONE),
      el("span.quiet", {}, "no such stock"),
    );
  }

  outcome(order) {
    const sum = `${figure(order.notional)} ${this.view.head.currency}, cost ${figure(order.fee)}. `;
    const fill = order.filled_shares
      ? `${count(order.filled_shares, "share")} at ${price(order.price)} = ${sum}`
      : null;
    const message = order.message ? el("span.message", {}, order.message) : null;
    return fill || message ? el("p.outcome", {}, fill, message) : null;
  }

  market(facts) {
    const chain = [
      ["decision close", facts.close_before, null],
      ["open", facts.open, facts.to_open],
      ["close", facts.close, facts.to_close],
      ["next open", facts.next_open, facts.to_next_open],
    ]
      .filter(([, value]) => value !== null)
      .flatMap(([name, value, change], place) => [
        place ? el("span.quiet", {"aria-hidden": "true"}, " → ") : null,
        el(
          "span.nb",
          {},
          `${name} ${this.view.quote(value)} `,
          change === null ? null : el(`span.${tone(change)}`, {}, percent(change)),
        ),
      ]);
    const [word, kind] = facts.right ? ["came out right", "good"] : ["came out wrong", "bad"];
    const judged = this.view.head.is_exact
      ? " An order is judged by the asset's next price of the kind that it was filled at."
      : "";
    return el(
      "p.market",
      {
        title:
          `Close and next open are compared with the open, adjusted for splits and ` +
          `dividends.${judged}`,
      },
      chain,
      " ",
      facts.right === null ? null : el(`span.chip.${kind}`, {}, word),
    );
  }

  plot(day, {code, side, filled_shares: shares}) {
    const {closes} = this.view;
    const values = closes && code ? closes.of(code) : null;
    if (!values) return null;
    const decided = closes.start + day;
    const first = Math.max(0, decided - PLOT_DAYS_BEFORE);
    const [from, to, value] = [decided - first, decided + 1 - first, values[decided + 1]];
    const fills = shares && typeof value === "number" ? [{place: to, value, side}] : [];
    const plot = sparkline(values.slice(first, decided + PLOT_DAYS_AFTER + 1), {from, to, fills});
    const label = `Closes of ${code} and the agent's orders in it`;
    return (
      plot &&
      el(
        "button.plot",
        {type: "button", "aria-label": label, click: () => this.view.openStock(code)},
        plot,
      )
    );
  }
}

/** Code, company and handle of a stock; a button opens its page. */
function stockName(view, code, handle) {
  const company = view.names.company(code);
  const name = el(
    "button.link",
    {type: "button", click: () => view.openStock(code)},
    el("strong", {}, code),
    ` ${company}`,
  );
  const used =
    handle && handle !== code
      ? el("span.handle-used", {title: "the handle that the model used"}, handle)
      : null;
  return el("span.stock", {}, name, used);
}

/**
 * Closes of the stocks that were ordered or held, adjusted for splits and dividends; unpacked stock
 * by stock.
 */
class Closes {
  constructor(packed) {
    this.days = packed.days;
    this.start = packed.start;
    this.packed = packed.closes;
    this.scale = packed.scale;
    this.unpacked = new Map();
  }

  /**
   * [days] in units of currency, null on a day without a bar; null for a stock that was neither
   * ordered nor held.
   */
  of(code) {
    if (!Object.hasOwn(this.packed, code)) return null;
    if (!this.unpacked.has(code)) {
      let now = 0;
      this.unpacked.set(
        code,
        this.packed[code].map((change) => {
          if (change === null) return null;
          now += change;
          return now / this.scale;
        }),
      );
    }
    return this.unpacked.get(code);
  }
}
