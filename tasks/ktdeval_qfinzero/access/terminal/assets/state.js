// What the page holds: its sessions, the one on show, and the stock that chart and chain are about.
// Ids of workspaces are nowhere else. Parts of the page are told of changes by topic:
//
//   sessions   the list of sessions, or the one on show, is another; or that one has ended
//   market     the clock or the last prices are others
//   account    account, positions, orders or trades are others
//   log        the event log is longer
//   symbol     another stock is chosen
//   ticket     a quote is chosen for the order ticket: {symbol, side, price}

import {during} from "./busy.js";
import {DAY_MS, MINUTE_MS} from "./format.js";

const listeners = new Map();

export const page = {
  sessions: [],
  active: null,
  symbols: [], // stocks listed where the clock of the next session starts
};

/** Stocks listed where the clock of the session on show started. */
export const listedStocks = () => page.active?.symbols || page.symbols;

/** One of them by its ticker. */
export const listedStock = (ticker) => listedStocks().find((one) => one.ticker === ticker);

/** Calls `act(detail)` at each change of a topic. */
export function on(topic, act) {
  if (!listeners.has(topic)) listeners.set(topic, []);
  listeners.get(topic).push(act);
}

export function tell(topic, detail) {
  for (const act of listeners.get(topic) || []) act(detail);
}

let sessionsSoFar = 0;

/** A session of the broker in a workspace of its own, as far as the page has read it. */
export class TradingSession {
  constructor({name, workspace, parent = null, shown}) {
    this.number = sessionsSoFar += 1; // names it on the page, where its workspace is not shown
    this.name = name;
    this.workspace = workspace;
    this.parent = parent;
    this.symbols = [];
    this.watched = [];
    this.symbol = "";
    this.frame = "1d";
    this.positions = [];
    this.orders = [];
    this.trades = [];
    this.log = [];
    this.logCursor = null;
    this.quotes = new Map(); // last bar by symbol
    this.closes = new Map(); // closes of the last two days by stock
    this.bars = new Map(); // bars of the chart by stock and time frame
    this.last = Promise.resolve();
    this.takeShown(shown);
  }

  /** Takes what an answer says of session and account. */
  takeShown({session, account, as_of_ts: clock}) {
    this.sessionId = session.session_id;
    this.accountId = session.account_id;
    this.frequency = session.frequency;
    this.startTs = session.start_ts;
    this.endTs = session.end_ts;
    this.rules = session.execution_config;
    this.status = session.status;
    this.clock = clock;
    this.account = account;
  }

  get currency() {
    return this.account.base_currency;
  }

  get isRunning() {
    return this.status === "RUNNING";
  }

  /** Milliseconds of a tick, or of the day between two of them. */
  get unitMs() {
    return this.frequency === "1m" ? MINUTE_MS : DAY_MS;
  }

  get workingOrders() {
    return this.orders.filter(isWorking);
  }

  /** Does one thing after the other, so that answers never overtake each other. */
  inTurn(act) {
    const mine = during(this.last.then(act));
    this.last = mine.catch(() => null);
    return mine;
  }
}

const WORKING = ["ACCEPTED", "PARTIALLY_FILLED"];
export const isWorking = (order) => WORKING.includes(order.status);

/** Shows a session. */
export function show(session) {
  page.active = session;
  tell("sessions");
  tell("symbol");
  tell("market");
  tell("account");
  tell("log");
}

/** Chooses the stock of chart and chain. */
export function chooseSymbol(symbol) {
  if (!page.active || page.active.symbol === symbol) return;
  page.active.symbol = symbol;
  tell("symbol");
}
