// Order ticket: terms of an order, what it would do to the account, and sending it.

import {begin} from "./busy.js";
import {previewOrder} from "./calls.js";
import {place} from "./broker.js";
import {instrumentName, instrumentOf, money, optionParts, orderText, price} from "./format.js";
import {actOnce, errorLine, figure, options, panel, switches} from "./parts.js";
import {listedStock, on, page} from "./state.js";

const {el, field} = kt;
const PAUSE_MS = 200;
const TYPES = [
  ["MARKET", "Market"],
  ["LIMIT", "Limit"],
  ["STOP", "Stop"],
  ["STOP_LIMIT", "Stop limit"],
];
const IN_FORCE = [
  ["DAY", "Day"],
  ["GTC", "Until cancelled"],
  ["GTD", "Until a moment"],
];
const PRICES = {
  MARKET: [],
  LIMIT: ["limit_price"],
  STOP: ["stop_price"],
  STOP_LIMIT: ["stop_price", "limit_price"],
};

function fieldsOf() {
  const number = (attributes) =>
    el("input", {
      type: "number",
      inputmode: "decimal",
      step: "any",
      autocomplete: "off",
      ...attributes,
    });
  return {
    symbol: el("input", {
      type: "text",
      id: "ticket-symbol",
      list: "listed",
      maxlength: "24",
      autocomplete: "off",
      required: true,
    }),
    order_type: el("select", {id: "ticket-type"}, options(TYPES)),
    qty: number({id: "ticket-qty", required: true, value: "10"}),
    stop_price: number({id: "ticket-stop"}),
    limit_price: number({id: "ticket-limit"}),
    time_in_force: el("select", {id: "ticket-force"}, options(IN_FORCE)),
    expire_ts: el("input", {
      type: "text",
      id: "ticket-expire",
      maxlength: "40",
      autocomplete: "off",
      placeholder: "2025-01-10T20:00:00Z",
    }),
    take_profit_price: number({id: "ticket-profit"}),
    stop_loss_price: number({id: "ticket-loss"}),
  };
}

const asNumber = (input) => (input.value.trim() === "" ? null : Number(input.value));

/** Order of the fields as the API takes it: only what was filled in, and what its type has. */
function orderOf(fields, side) {
  const type = fields.order_type.value;
  const order = {
    instrument: instrumentOf(fields.symbol.value.trim()),
    side,
    order_type: type,
    qty: asNumber(fields.qty),
    time_in_force: fields.time_in_force.value,
  };
  for (const name of [...PRICES[type], "take_profit_price", "stop_loss_price"]) {
    const value = asNumber(fields[name]);
    if (value !== null) order[name] = value;
  }
  const expires = fields.expire_ts.value.trim();
  if (order.time_in_force === "GTD" && expires) order.expire_ts = expires;
  return order;
}

export function ticketPanel() {
  const fields = fieldsOf();
  const error = errorLine();
  const said = el("p.said", {role: "status"});
  const about = el("p.quiet.about", {id: "ticket-about"});
  // always as high, so that the button below it never moves under the pointer
  const after = el(
    "dl.figures",
    {id: "ticket-after", "aria-label": "What the order would do"},
    previewFigures(null, ""),
  );
  const verdict = el("p.verdict", {id: "ticket-verdict"});
  const side = switches(
    "side",
    "Side",
    [
      ["BUY", "Buy"],
      ["SELL", "Sell"],
    ],
    () => renew(),
  );
  side.set("BUY");
  const send = el(
    "button.small.send",
    {type: "submit", id: "ticket-send", "aria-describedby": "ticket-after ticket-verdict"},
    "Send the order",
  );
  const boxes = {
    stop_price: field("Stop price", fields.stop_price),
    limit_price: field("Limit price", fields.limit_price),
    expire_ts: field("Expires at", fields.expire_ts),
  };
  const state = {timer: 0, asked: 0, end: null};

  function showFields() {
    const type = fields.order_type.value;
    for (const name of ["stop_price", "limit_price"]) {
      boxes[name].hidden = !PRICES[type].includes(name);
      fields[name].required = PRICES[type].includes(name);
    }
    boxes.expire_ts.hidden = fields.time_in_force.value !== "GTD";
    fields.expire_ts.required = fields.time_in_force.value === "GTD";
    kt.replace(about, aboutInstrument(fields.symbol.value.trim()));
    send.className = `small send ${side.get() === "BUY" ? "buy" : "sell"}`;
  }

  /** Asks for the preview once typing pauses. */
  function renew() {
    showFields();
    window.clearTimeout(state.timer);
    state.end ||= begin();
    state.timer = window.setTimeout(async () => {
      const {end} = state;
      state.end = null;
      await preview();
      end();
    }, PAUSE_MS);
  }

  async function preview() {
    const session = page.active;
    const mine = (state.asked += 1);
    const order = orderOf(fields, side.get());
    const hasTerms = fields.symbol.value.trim() && order.qty !== null && !lacksPrice(order);
    if (!session?.isRunning || !hasTerms) {
      showPreview(null, "");
      return;
    }
    let shown = null;
    let problem = "";
    try {
      shown = await previewOrder(session, order);
      if (!shown.accepted) problem = `Would be rejected: ${shown.reason}`;
    } catch (error_) {
      problem = `Not possible: ${error_.message}`;
    }
    if (mine === state.asked && session === page.active) showPreview(shown, problem);
  }

  function showPreview(shown, problem) {
    kt.replace(after, previewFigures(shown, page.active?.currency));
    kt.replace(verdict, problem);
  }

  async function sendOrder() {
    const order = orderOf(fields, side.get());
    kt.replace(said);
    try {
      const placed = await place(page.active, order);
      const {order_id: id, status, reason} = placed;
      if (status === "REJECTED") throw new Error(`${id} was rejected: ${reason}`);
      kt.replace(said, `${id}: ${orderText(placed.order)} is ${status.toLowerCase()}`);
    } finally {
      renew();
    }
  }

  function submit(event) {
    event.preventDefault();
    if (page.active) actOnce(send, error, sendOrder);
  }

  for (const input of Object.values(fields)) input.addEventListener("input", renew);
  on("ticket", (quote) => {
    fields.symbol.value = quote.symbol;
    side.set(quote.side);
    if (Number.isFinite(quote.price)) fields.limit_price.value = String(quote.price);
    if (quote.qty) fields.qty.value = String(quote.qty);
    renew();
    fields.qty.focus();
    fields.qty.select();
  });
  on("symbol", () => {
    if (page.active) fields.symbol.value = page.active.symbol;
    renew();
  });
  on("account", renew);
  on("market", renew);
  on("sessions", () => {
    error.clear();
    kt.replace(said);
    send.disabled = !page.active?.isRunning;
  });
  showFields();
  return panel(
    "ticket",
    "Order ticket",
    el(
      "form.ticket",
      {submit, "aria-label": "Order ticket"},
      side.element,
      field("Stock, or contract of an option", fields.symbol),
      about,
      field("Type", fields.order_type),
      field("Quantity", fields.qty),
      boxes.stop_price,
      boxes.limit_price,
      field("Time in force", fields.time_in_force),
      boxes.expire_ts,
      kt.details(
        "Bracket",
        field("Take profit at", fields.take_profit_price),
        field("Stop loss at", fields.stop_loss_price),
      ),
      after,
      send,
      verdict,
      error.element,
      said,
    ),
  );
}

const lacksPrice = (order) => PRICES[order.order_type].some((name) => order[name] === undefined);

/** Name of what a symbol stands for; empty where no stock has it. */
function aboutInstrument(symbol) {
  if (optionParts(symbol)) return `${instrumentName(symbol)} · 100 shares a contract`;
  const listed = listedStock(symbol.toUpperCase());
  return listed ? `${listed.name} · ${listed.sector}` : "";
}

/** Figures of a preview: cost, and buying power before and after; dashes without one. */
function previewFigures(shown, currency) {
  const cash = (value) => money(value, currency);
  const power = shown ? (shown.filled || shown.placed).buying_power : null;
  const pairs = [
    ["Price, about", price(shown?.price)],
    ["Value", cash(shown?.value)],
    ["Fee", cash(shown?.fee)],
    ["Buying power now", cash(shown?.before.buying_power)],
    ["Buying power after", el("strong", {}, cash(power))],
  ];
  return pairs.map(([term, value]) => figure(term, value, ".n"));
}
