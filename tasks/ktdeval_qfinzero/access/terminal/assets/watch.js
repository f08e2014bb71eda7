// Watchlist: last prices as of the clock, and the change since the close before.

import {during} from "./busy.js";
import {getDays} from "./calls.js";
import {daysLater, marketTime, percent, price, short, tone} from "./format.js";
import {arrowKeys, errorLine, liveTable, panel, row} from "./parts.js";
import {chooseSymbol, listedStock, on, page, tell} from "./state.js";

const {el, field} = kt;
const DAYS_BACK = 12;

export function watchPanel() {
  const error = errorLine();
  const table = liveTable(
    "Watchlist",
    [["Symbol"], ["Last", true], ["Change", true], ["Volume", true], ["Trade"]],
    "No stock is watched.",
  );
  const setStop = arrowKeys(table.element);
  const draw = () => {
    const session = page.active;
    table.rows(session ? session.watched.map((symbol) => watchedRow(session, symbol)) : []);
    setStop();
  };

  const update = async () => {
    const session = page.active;
    if (!session) return draw();
    draw();
    try {
      await readCloses(session);
      error.clear();
    } catch (problem) {
      error.show(problem);
    }
    if (session === page.active) draw();
  };
  on("market", () => during(update()));
  on("symbol", draw);
  return panel("watch", "Watchlist", table.element, addForm(error, update), error.element);
}

function watchedRow(session, symbol) {
  const quote = session.quotes.get(symbol);
  const {closes: [before, latest] = [], day = ""} = session.closes.get(symbol) || {};
  const last = quote?.close ?? latest;
  // a bar of a day that is over is compared with the day before it
  const isOfClosedDay = !quote || marketTime(quote.end_ts).day <= day;
  const base = isOfClosedDay ? before : latest;
  const change = base ? last / base - 1 : null;
  const listed = listedStock(symbol);
  const choose = kt.button(symbol, () => chooseSymbol(symbol), {
    class: "link",
    title: listed?.name,
    "aria-pressed": String(session.symbol === symbol),
    "data-key": `choose ${symbol}`,
    "data-column": "choose",
  });
  const trade = (side) =>
    kt.button(side === "BUY" ? "B" : "S", () => tell("ticket", {symbol, side, price: last}), {
      class: `tiny ${side === "BUY" ? "up" : "down"}`,
      "aria-label": `${side === "BUY" ? "Buy" : "Sell"} ${symbol}`,
      "data-key": `${side} ${symbol}`,
      "data-column": side,
    });
  const made = row(symbol, [
    choose,
    [".n", price(last)],
    [`.n${tone(change)}`, percent(change)],
    [".n", short(quote?.volume)],
    el("span.pair", {}, trade("BUY"), trade("SELL")),
  ]);
  if (session.symbol === symbol) made.classList.add("chosen");
  return made;
}

/** Closes of the last two complete days; read again in each hour, for a day ends within one. */
async function readCloses(session) {
  const hour = session.clock.slice(0, 13);
  const wanted = session.watched.filter((symbol) => session.closes.get(symbol)?.hour !== hour);
  if (!wanted.length) return;
  const today = session.clock.slice(0, 10);
  const bars = await getDays(session.workspace, {
    tickers: wanted.join(","),
    start: daysLater(today, -DAYS_BACK),
    end: today,
    fields: "close",
    adjust: "split",
  });
  for (const symbol of wanted) {
    const own = bars.filter((bar) => bar.ticker === symbol).slice(-2);
    const closes = own.map((bar) => bar.close);
    if (closes.length === 1) closes.unshift(null);
    session.closes.set(symbol, {hour, closes, day: own.at(-1)?.date});
  }
}

function addForm(error, update) {
  const input = el("input", {
    type: "text",
    list: "listed",
    maxlength: "20",
    autocomplete: "off",
    required: true,
  });
  const remove = kt.button(
    "Remove",
    () => {
      const session = page.active;
      session.watched = session.watched.filter((symbol) => symbol !== session.symbol);
      update();
    },
    {class: "small", "aria-label": "Remove the chosen stock from the watchlist"},
  );
  const add = (event) => {
    event.preventDefault();
    const symbol = input.value.trim().toUpperCase();
    const session = page.active;
    if (!listedStock(symbol)) return error.show(new Error(`no stock ${symbol} is listed`));
    error.clear();
    if (!session.watched.includes(symbol)) session.watched.push(symbol);
    input.value = "";
    chooseSymbol(symbol);
    return update();
  };
  return el(
    "form.row",
    {submit: add, "aria-label": "Watchlist"},
    field("Stock", input, ".short"),
    el("button.small", {type: "submit"}, "Watch"),
    remove,
  );
}
