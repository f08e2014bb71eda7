// Positions, orders, trades and the event log, each behind a tab.

import {during} from "./busy.js";
import {cancel, cancelAll, flatten} from "./broker.js";
import {amount, instrumentName, money, optionParts, price, symbolOf, tone, when} from "./format.js";
import {actButton, errorLine, liveTable, row, tabTable} from "./parts.js";
import {chooseSymbol, isWorking, on, page, tell} from "./state.js";
import {logTable} from "./log.js";

const {el} = kt;
const MOST_SHOWN = 300;

export function tablesPanel() {
  const error = errorLine();
  const parts = [
    ["positions", "Positions", positionsTable(error)],
    ["orders", "Open orders", openOrders(error)],
    ["history", "Order history", orderHistory()],
    ["trades", "Trades", tradesTable()],
    ["log", "Event log", logTable()],
  ];
  const tabs = tabList(parts);
  return el(
    "section.pane",
    {id: "tables", tabindex: "-1", "aria-label": "Positions, orders, trades and events"},
    el("div.row.between", {}, tabs.element, commands(error)),
    error.element,
    tabs.panels,
  );
}

/** Tabs of one Tab stop, between which arrows move. */
function tabList(parts) {
  const tabs = parts.map(([id, title, {count}]) => {
    const number = el("span.quiet", {});
    const tab = el(
      "button.tab",
      {
        type: "button",
        role: "tab",
        id: `tab-${id}`,
        "aria-controls": `part-${id}`,
        click: () => choose(id),
      },
      title,
      " ",
      number,
    );
    count((text) => kt.replace(number, text));
    return tab;
  });
  const panels = parts.map(([id, , {element}]) =>
    el("div", {role: "tabpanel", id: `part-${id}`, "aria-labelledby": `tab-${id}`}, element),
  );
  function choose(id) {
    parts.forEach(([own], at) => {
      tabs[at].setAttribute("aria-selected", String(own === id));
      tabs[at].tabIndex = own === id ? 0 : -1;
      panels[at].hidden = own !== id;
    });
  }
  const element = el("div.tabs", {role: "tablist", "aria-label": "Tables"}, tabs);
  element.addEventListener("keydown", (event) => {
    const place = tabs.indexOf(document.activeElement);
    const goal = {ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1}[
      event.key
    ];
    if (goal === undefined) return;
    event.preventDefault();
    const next = (goal + tabs.length) % tabs.length;
    choose(parts[next][0]);
    tabs[next].focus();
  });
  choose(parts[0][0]);
  return {element, panels};
}

function commands(error) {
  const dialog = el(
    "dialog",
    {"aria-labelledby": "flatten-title"},
    el("h2", {id: "flatten-title"}, "Flatten the account?"),
    el(
      "p",
      {},
      "All open orders are cancelled, and each position is closed by an order at market.",
    ),
    el(
      "form.row",
      {method: "dialog"},
      el("button.small", {value: "no"}, "Keep it"),
      el("button.small.sell", {value: "yes", id: "flatten-yes"}, "Flatten"),
    ),
  );
  dialog.addEventListener("close", async () => {
    if (dialog.returnValue !== "yes") return;
    try {
      await during(flatten(page.active));
      kt.notice("Orders are cancelled, and orders that close the positions are sent.");
    } catch (problem) {
      error.show(problem);
    }
  });
  const ask = () => {
    error.clear();
    dialog.returnValue = "";
    dialog.showModal();
  };
  const buttons = [
    actButton("Cancel all orders", () => cancelAll(page.active), error, {id: "cancel-all"}),
    kt.button("Flatten", ask, {class: "small", id: "flatten"}),
  ];
  on("sessions", () => {
    error.clear();
    for (const button of buttons) button.disabled = !page.active?.isRunning;
  });
  return el("div.row", {}, buttons, dialog);
}

const symbolButton = (symbol, key) => {
  const stock = optionParts(symbol)?.underlying || symbol;
  return kt.button(instrumentName(symbol), () => chooseSymbol(stock), {
    class: "link",
    "data-key": key,
  });
};

function positionsTable() {
  const heads = [
    ["Instrument"],
    ["Quantity", true],
    ["Average price", true],
    ["Last", true],
    ["Value", true],
    ["Unrealized", true],
    ["Realized", true],
    [""],
  ];
  const rowOf = (session) => (held) => {
    const symbol = symbolOf(held.instrument);
    const cash = (value, signed = false) => money(value, session.currency, {signed});
    const side = held.qty > 0 ? "SELL" : "BUY";
    const toTicket = () =>
      tell("ticket", {symbol, side, price: held.mark_price, qty: Math.abs(held.qty)});
    return row(held.instrument_id, [
      symbolButton(symbol, `position ${symbol}`),
      [".n", amount(held.qty)],
      [".n", price(held.avg_price)],
      [".n", price(held.mark_price)],
      [".n", cash(held.market_value)],
      [`.n${tone(held.unrealized_pnl)}`, cash(held.unrealized_pnl, true)],
      [`.n${tone(held.realized_pnl)}`, cash(held.realized_pnl, true)],
      kt.button("Close …", toTicket, {
        class: "small",
        "aria-label": `Close ${instrumentName(symbol)}: fill in the ticket`,
        "data-key": `close ${symbol}`,
      }),
    ]);
  };
  return tabTable(
    liveTable("Positions", heads, "No positions."),
    "account",
    (session) => session.positions.map(rowOf(session)),
    (session) => session.positions.length,
  );
}

const sideCell = (side) => [side === "BUY" ? ".up" : ".down", side];

const terms = (order) => [
  order.order_id,
  sideCell(order.side),
  instrumentName(symbolOf(order.instrument)),
  [".n", `${amount(order.filled_qty)} / ${amount(order.qty)}`],
  order.order_type.replace("_", " "),
  [".n", price(order.stop_price)],
  [".n", price(order.limit_price)],
  order.time_in_force,
];
const TERMS = [
  ["Order"],
  ["Side"],
  ["Instrument"],
  ["Filled", true],
  ["Type"],
  ["Stop", true],
  ["Limit", true],
  ["In force"],
];

function openOrders(error) {
  const rowOf = (session) => (order) =>
    row(order.order_id, [
      ...terms(order),
      when(order.created_at),
      actButton("Cancel", () => cancel(session, order.order_id), error, {
        "aria-label": `Cancel ${order.order_id}`,
        "data-key": `cancel ${order.order_id}`,
      }),
    ]);
  return tabTable(
    liveTable("Open orders", [...TERMS, ["Sent"], [""]], "No open orders."),
    "account",
    (session) => session.workingOrders.map(rowOf(session)),
    (session) => session.workingOrders.length,
  );
}

function orderHistory() {
  const rowOf = (order) =>
    row(order.order_id, [
      ...terms(order),
      when(order.created_at),
      order.status.replace("_", " "),
      [".n", price(order.avg_fill_price)],
      order.reason || kt.format.NONE,
    ]);
  return tabTable(
    liveTable(
      "Order history",
      [...TERMS, ["Sent"], ["Status"], ["Fill price", true], ["Reason"]],
      "No order has ended.",
    ),
    "account",
    (session) => newestFirst(ended(session)).map(rowOf),
    (session) => ended(session).length,
  );
}

const ended = (session) => session.orders.filter((order) => !isWorking(order));
const newestFirst = (rows) => rows.slice(-MOST_SHOWN).reverse();

function tradesTable() {
  const heads = [
    ["Trade"],
    ["Time"],
    ["Side"],
    ["Instrument"],
    ["Quantity", true],
    ["Price", true],
    ["Value", true],
    ["Fee", true],
    ["Order"],
  ];
  const rowOf = (session) => (trade) =>
    row(trade.trade_id, [
      trade.trade_id,
      when(trade.ts),
      sideCell(trade.side),
      instrumentName(symbolOf(trade.instrument)),
      [".n", amount(trade.qty)],
      [".n", price(trade.price)],
      [".n", money(trade.value, session.currency)],
      [".n", money(trade.fee, session.currency)],
      trade.order_id,
    ]);
  return tabTable(
    liveTable("Trades", heads, "No trades."),
    "account",
    (session) => newestFirst(session.trades).map(rowOf(session)),
    (session) => session.trades.length,
  );
}
