// Two-sided option chain of the chosen stock: calls left, strikes in the middle, puts right. The
// data hold trades, not quotes: bid and ask are the last price less and plus half of the session's
// spread, between which a market order fills.

import {oncePerTurn} from "./busy.js";
import {getChain, getOptionDay} from "./calls.js";
import {amount, daysLater, decimal, marketTime, price, rightName} from "./format.js";
import {arrowKeys, errorLine, options, panel, redraw} from "./parts.js";
import {on, page, tell} from "./state.js";

const {el, field} = kt;
const BPS = 10_000;
const LEFT = ["delta", "iv", "volume", "last", "bid", "ask"];
const HEADS = {delta: "Delta", iv: "IV", volume: "Volume", last: "Last", bid: "Bid", ask: "Ask"};

export function chainPanel() {
  const error = errorLine();
  const expiry = el("select", {change: () => drawRows()});
  const note = el("p.quiet", {});
  const heads = el("thead", {}, headRows());
  const body = el("tbody", {});
  const table = el("table.grid.chain", {}, el("caption.unseen", {}, "Option chain"), heads, body);
  const region = kt.scroller("Option chain", table);
  region.classList.add("tall");
  const setStop = arrowKeys(body);
  const held = {chain: null, asked: 0, drawn: ""};

  const update = oncePerTurn(async () => {
    const session = page.active;
    if (!session?.symbol) return;
    const mine = (held.asked += 1);
    try {
      const chain = await readChain(session, held.chain);
      if (mine !== held.asked || session !== page.active) return;
      error.clear();
      held.chain = chain;
      offerExpiries(expiry, chain, session);
      drawRows();
    } catch (problem) {
      if (mine === held.asked) error.show(problem);
    }
  });

  function drawRows() {
    const session = page.active;
    if (!held.chain || !session) return;
    const rows = strikesOf(held.chain, expiry.value);
    const spot = spotOf(session, held.chain);
    const nearest = nearestStrike(rows, spot);
    region.hidden = rows.length === 0;
    redraw(
      body,
      rows.map((pair) => strikeRow(session, pair, spot, pair.strike === nearest)),
    );
    setStop(`C ask ${nearest}`);
    kt.replace(note, noteOf(session, held.chain, rows));
    const drawn = `${session.number} ${held.chain.underlying} ${expiry.value}`;
    if (drawn !== held.drawn) showMoney(region, body);
    held.drawn = drawn;
  }

  on("symbol", update);
  on("market", update);
  return panel(
    "chain",
    "Option chain",
    el("div.row", {}, field("Expiry", expiry)),
    error.element,
    region,
    note,
  );
}

/** The chain of the last complete day; the known one where it is that. */
async function readChain(session, known) {
  const day = await getOptionDay(session.workspace);
  const underlying = session.symbol;
  const key = `${session.number} ${underlying} ${day}`;
  if (key === known?.key) return known;
  let contracts = [];
  if (day) {
    const query = {
      underlying,
      date: day,
      include_greeks: true,
      expiry_min: daysLater(day, 1),
    };
    contracts = await getChain(session.workspace, query);
  }
  return {key, underlying, day, contracts};
}

/** The expiry chosen before, or else the first after the day of the clock. */
function offerExpiries(choice, chain, session) {
  const expiries = [...new Set(chain.contracts.map((row) => row.expiry))].sort();
  const before = choice.value;
  kt.replace(choice, options(expiries.map((day) => [day, day])));
  const today = marketTime(session.clock).day;
  const later = expiries.find((day) => day > today);
  choice.value = expiries.includes(before) ? before : later || expiries[0] || "";
  choice.disabled = !expiries.length;
}

/** [{strike, C, P}] of an expiry, by strike. */
function strikesOf(chain, expiry) {
  const byStrike = new Map();
  for (const row of chain.contracts) {
    if (row.expiry !== expiry) continue;
    if (!byStrike.has(row.strike)) byStrike.set(row.strike, {strike: row.strike});
    byStrike.get(row.strike)[row.type] = row;
  }
  return [...byStrike.values()].sort((one, other) => one.strike - other.strike);
}

const spotOf = (session, chain) =>
  session.quotes.get(chain.underlying)?.close ?? chain.contracts[0]?.greek_spot ?? null;

function nearestStrike(rows, spot) {
  if (!rows.length || spot === null) return null;
  const distance = (row) => Math.abs(row.strike - spot);
  return rows.reduce((one, other) => (distance(other) < distance(one) ? other : one)).strike;
}

/** What a contract is shown with: its last bar of the session, or else that of the chain's day. */
function quoteOf(session, contract) {
  const quote = session.quotes.get(contract.contract);
  const last = quote?.close ?? contract.close;
  const half = (last * session.rules.fills.option_spread_bps) / BPS / 2;
  return {
    last,
    // whole cents away from the last price; a rounding error of floats is no cent
    bid: Math.max(0, Math.floor((last - half) * 100 + 1e-6) / 100),
    ask: Math.ceil((last + half) * 100 - 1e-6) / 100,
    volume: quote?.volume ?? contract.volume,
    delta: contract.delta,
    iv: contract.iv,
  };
}

function headRows() {
  const side = (names) => names.map((name) => el("th.n", {scope: "col"}, HEADS[name]));
  return [
    el(
      "tr",
      {},
      el("th.side", {scope: "colgroup", colspan: LEFT.length}, "Calls"),
      el("th.strike", {scope: "col", rowspan: 2}, "Strike"),
      el("th.side", {scope: "colgroup", colspan: LEFT.length}, "Puts"),
    ),
    el("tr", {}, side(LEFT), side([...LEFT].reverse())),
  ];
}

function strikeRow(session, pair, spot, isNearest) {
  const cellsOf = (side, names) => {
    const isIn = spot !== null && (side === "C" ? pair.strike < spot : pair.strike > spot);
    const contract = pair[side];
    const quote = contract ? quoteOf(session, contract) : null;
    return names.map((name) => el(isIn ? "td.n.in" : "td.n", {}, cell(contract, quote, name)));
  };
  return el(
    isNearest ? "tr.near" : "tr",
    {},
    cellsOf("C", LEFT),
    el("th.strike", {scope: "row"}, price(pair.strike)),
    cellsOf("P", [...LEFT].reverse()),
  );
}

function cell(contract, quote, name) {
  if (!contract) return kt.format.NONE;
  if (name === "delta") return decimal(quote.delta, 2);
  if (name === "iv") return kt.format.percent(quote.iv, 1);
  if (name === "volume") return amount(quote.volume);
  if (name === "last") return price(quote.last);
  return quoteButton(contract, name, quote[name]);
}

/** A bid is sold to, an ask is bought from. */
function quoteButton(contract, name, value) {
  const side = name === "bid" ? "SELL" : "BUY";
  const act = side === "BUY" ? "Buy" : "Sell";
  const {strike, type: right, expiry} = contract;
  return kt.button(
    price(value),
    () => tell("ticket", {symbol: contract.contract, side, price: value}),
    {
      class: "link",
      "aria-label": `${act} ${rightName(right)} ${price(strike)} ${expiry} at ${price(value)}`,
      "data-key": `${right} ${name} ${strike}`,
      "data-column": `${right} ${name}`,
    },
  );
}

function noteOf(session, chain, rows) {
  if (!chain.day) return "There are no options up to the clock.";
  if (!rows.length) return `No option on ${chain.underlying} traded on ${chain.day}.`;
  const spread = session.rules.fills.option_spread_bps;
  return (
    `Greeks, and prices without a bar of this session, are of ${chain.day}. Bid and ask are the` +
    ` last price with half of the session's spread of ${spread} bps on either side. Open interest` +
    " is not in the data."
  );
}

/** Scrolls the box, not the page, so that the strike next to the spot stands in its middle. */
function showMoney(region, body) {
  const near = body.querySelector(".near");
  if (!near) return;
  region.scrollTop = near.offsetTop - region.clientHeight / 2;
  const strike = near.querySelector(".strike");
  region.scrollLeft = strike.offsetLeft - (region.clientWidth - strike.offsetWidth) / 2;
}
