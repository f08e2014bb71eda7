// What the reader does to a session, and reading again what it changed.

import * as calls from "./calls.js";
import {amount, daysLater, instrumentName, orderText, price, symbolOf, when} from "./format.js";
import {page, show, tell, TradingSession} from "./state.js";

const LOG_PAGE = 200;
const MOST_LOGGED = 5000;
const MOST_CONTRACTS = 500;
const WATCHED_AT_FIRST = 8;

// -- reading

/** Reads account, positions, orders, trades, last prices and the log again. */
async function refresh(session) {
  await Promise.all([readAccount(session), readBooks(session)]);
  await readPricesAndLog(session);
}

async function readAccount(session) {
  const {account, as_of_ts: clock} = await calls.getAccount(session);
  Object.assign(session, {account, clock});
}

async function readBooks(session) {
  const [positions, orders, trades] = await Promise.all([
    calls.getPositions(session),
    calls.getOrders(session),
    calls.getTrades(session),
  ]);
  Object.assign(session, {positions, orders, trades});
}

/** What any passing of time changes; everything else has been read when this is. */
async function readPricesAndLog(session) {
  await Promise.all([readQuotes(session), readLog(session)]);
  if (session === page.active) tell("account");
}

async function readQuotes(session) {
  const {bars} = await calls.getMarket(session);
  session.quotes = new Map(bars.map((bar) => [symbolOf(bar.instrument), bar]));
  if (session === page.active) tell("market");
}

/** Reads the lines of the log that are new. */
async function readLog(session) {
  let answer;
  const known = session.log.length ? session.log.at(-1).seq : -1;
  const fresh = [];
  do {
    answer = await calls.getLog(session, session.logCursor, LOG_PAGE);
    const entries = answer.lines.map((line) => JSON.parse(line));
    fresh.push(...entries.filter((entry) => entry.seq > known));
    // without a next page the last cursor stays: the same page is read again, as far as it is new
    if (answer.next_cursor) session.logCursor = answer.next_cursor;
  } while (answer.next_cursor);
  if (!fresh.length) return;
  session.log = [...session.log, ...fresh].slice(-MOST_LOGGED);
  if (session === page.active) tell("log");
}

/** Says fills after the first `known` ones, for those who see and those who hear the page. */
function sayFills(session, known) {
  const fills = session.trades.slice(known);
  if (!fills.length || session !== page.active) return;
  const last = fills.at(-1);
  const done = last.side === "BUY" ? "Bought" : "Sold";
  const what = `${amount(last.qty)} ${instrumentName(symbolOf(last.instrument))}`;
  const text = `${done} ${what} at ${price(last.price)}`;
  kt.notice(fills.length > 1 ? `${fills.length} fills; the last: ${text}` : text);
}

/** Does something to a session in its turn, then reads it again, also where it was refused. */
function change(session, act) {
  return session.inTurn(async () => {
    const known = session.trades.length;
    try {
      return await act();
    } finally {
      await refresh(session);
      sayFills(session, known);
    }
  });
}

// -- commands

/** Goes forward; where nothing happened only what a clock changes is read again. */
export function step(session, distance) {
  return session.inTurn(async () => {
    const known = session.trades.length;
    const stepped = await calls.stepSession(session, distance);
    session.clock = stepped.as_of_ts;
    session.status = stepped.clock.status;
    session.account = stepped.account;
    const isQuiet = !stepped.events.length && session.isRunning;
    if (!isQuiet) await readBooks(session);
    else if (session.positions.length) session.positions = await calls.getPositions(session);
    await readPricesAndLog(session);
    sayFills(session, known);
    if (!session.isRunning && session === page.active) tell("sessions");
  });
}

export const place = (session, order) => change(session, () => calls.placeOrder(session, order));
export const cancel = (session, orderId) =>
  change(session, () => calls.cancelOrder(session, orderId));

export async function stop(session) {
  await change(session, () => calls.stopSession(session));
  session.takeShown(await calls.getSession(session.workspace, session.sessionId));
  tell("sessions");
}

/** Cancels each working order; gives the first refusal after trying all. */
async function cancelEach(session) {
  let refused = null;
  for (const order of session.workingOrders) {
    try {
      await calls.cancelOrder(session, order.order_id);
    } catch (error) {
      refused ||= error;
    }
  }
  return refused;
}

export function cancelAll(session) {
  return change(session, async () => {
    const refused = await cancelEach(session);
    if (refused) throw refused;
  });
}

/** Cancels all orders, and closes each position by an order at market. */
export function flatten(session) {
  return change(session, async () => {
    let refused = await cancelEach(session);
    for (const position of await calls.getPositions(session)) {
      const order = {
        instrument: position.instrument,
        side: position.qty > 0 ? "SELL" : "BUY",
        order_type: "MARKET",
        qty: Math.abs(position.qty),
        time_in_force: "DAY",
      };
      try {
        const placed = await calls.placeOrder(session, order);
        if (placed.status === "REJECTED")
          refused ||= new Error(`${orderText(order)} was rejected: ${placed.reason}`);
      } catch (error) {
        refused ||= error;
      }
    }
    if (refused) throw refused;
  });
}

// -- sessions

/** Contracts that a session may trade: those that are alive, the nearest to the money. */
async function contractsFor(workspace, underlyings) {
  if (!underlyings.length) return [];
  const day = await calls.getOptionDay(workspace);
  if (!day) return [];
  const room = Math.floor(MOST_CONTRACTS / underlyings.length);
  const contracts = [];
  for (const underlying of underlyings) {
    const query = {underlying, date: day, fields: "expiry,strike", expiry_min: daysLater(day, 1)};
    const [chain, bars] = await Promise.all([
      calls.getChain(workspace, query),
      calls.getDays(workspace, {tickers: underlying, start: day, end: day}),
    ]);
    const spot = bars.at(-1)?.close ?? 0;
    const nearest = chain
      .map((row) => ({...row, distance: Math.abs(row.strike - spot)}))
      .sort((one, other) => one.distance - other.distance);
    contracts.push(...nearest.slice(0, room).map((row) => row.contract));
  }
  return contracts.sort();
}

/**
 * Opens account and session in a workspace, and shows it. terms: {workspace, asOf, accountType,
 * frequency, endTs, stocks, underlyings}.
 */
export async function openSession(terms) {
  const {workspace, stocks, underlyings} = terms;
  const options = await contractsFor(workspace, underlyings);
  const account = await calls.createAccount(workspace, terms.accountType);
  const shown = await calls.createSession(workspace, {
    account_id: account.account_id,
    frequency: terms.frequency,
    start_ts: terms.asOf,
    end_ts: terms.endTs,
    universe: options.length ? {stocks, options} : {stocks},
  });
  const roots = page.sessions.filter((session) => !session.parent).length;
  const name = roots ? `main ${roots + 1}` : "main";
  const session = new TradingSession({name, workspace, shown});
  session.symbols = page.symbols;
  session.watched = watchedAtFirst(stocks, underlyings);
  session.symbol = session.watched[0] || "";
  session.frame = session.frequency === "1m" ? "5m" : "1d";
  await add(session);
  return session;
}

function watchedAtFirst(stocks, underlyings) {
  const withOptions = page.symbols.filter((row) => row.has_options).map((row) => row.ticker);
  const wanted = [...underlyings, ...withOptions, ...stocks];
  return [...new Set(wanted)].filter((one) => stocks.includes(one)).slice(0, WATCHED_AT_FIRST);
}

async function add(session) {
  page.sessions.push(session);
  await refresh(session);
  show(session);
}

/** Root of a session's branches. */
function rootOf(session) {
  let root = session;
  while (root.parent) root = root.parent;
  return root;
}

/** Name of the session whose commands a branch repeats last. */
async function originOf(session, workspace) {
  const {lineage} = await calls.getLineage(workspace);
  const origin = lineage.at(-2)?.name;
  return lineage.length > 2 ? origin : rootOf(session).name;
}

/** Opens a branch of a session at a moment before its clock, and shows it. */
export async function branch(session, moment) {
  const made = await calls.openBranch(session.workspace, moment);
  const workspace = made.workspace_id;
  try {
    const {accounts} = await calls.listAccounts(workspace);
    const id = accounts.find((account) => account.session_id)?.session_id;
    if (!id) throw new Error(`no session was running at ${when(moment)}`);
    const shown = await calls.getSession(workspace, id);
    const origin = await originOf(session, workspace);
    const name = `${made.name} of ${origin} at ${when(made.as_of_ts)}`;
    const opened = new TradingSession({name, workspace, parent: session, shown});
    Object.assign(opened, {
      symbols: session.symbols,
      watched: [...session.watched],
      symbol: session.symbol,
      frame: session.frame,
    });
    await add(opened);
    return opened;
  } catch (error) {
    await calls.dropWorkspace(workspace);
    throw error;
  }
}

/** Gives a session's workspace back. */
export async function close(session) {
  await calls.dropWorkspace(session.workspace);
  page.sessions = page.sessions.filter((one) => one !== session);
  for (const other of page.sessions) if (other.parent === session) other.parent = session.parent;
  if (page.active !== session) return tell("sessions");
  return show(page.sessions.at(-1) || null);
}
