// Candles of the chosen stock with volume and moving averages. Bars come from the API as of the
// clock, and the averages are computed from these bars alone.

import {oncePerTurn} from "./busy.js";
import {getDays, getMinutes} from "./calls.js";
import {daysLater, marketTime, price, short} from "./format.js";
import {errorLine, panel, switches} from "./parts.js";
import {listedStock, on, page} from "./state.js";

const {el} = kt;
const FRAMES = [
  ["1m", "1 min"],
  ["5m", "5 min"],
  ["15m", "15 min"],
  ["30m", "30 min"],
  ["60m", "1 hour"],
  ["1d", "1 day"],
];
const AVERAGES = [20, 50];
const READ = 170; // bars, of which the first fifty only lead the averages in
const SHOWN_WIDE = 120;
const SHOWN_NARROW = 60;
const NARROW = 560;
const TRADED_MINUTES = 240; // of a day, at least
const HEIGHT = 360;

export function chartPanel() {
  const error = errorLine();
  const place = el("div", {});
  const frames = switches("frame", "Time frame", FRAMES, (frame) => {
    if (!page.active) return;
    page.active.frame = frame;
    update();
  });
  let asked = 0;
  const update = oncePerTurn(async () => {
    const session = page.active;
    if (!session?.symbol) return;
    frames.set(session.frame);
    const mine = (asked += 1);
    try {
      const bars = await readBars(session, session.symbol, session.frame);
      if (mine !== asked || session !== page.active) return;
      error.clear();
      drawChart(place, session, bars);
    } catch (problem) {
      if (mine === asked) error.show(problem);
    }
  });
  on("symbol", update);
  on("market", update);
  return panel("chart", "Chart", frames.element, error.element, place);
}

// -- bars

/** Bars up to the clock: those known already, and what came since the last of them. */
async function readBars(session, symbol, frame) {
  const name = `${symbol} ${frame}`;
  const before = session.bars.get(name) || [];
  const start = before.length ? before.at(-1).key : firstMoment(session.clock, frame);
  const query = {
    tickers: symbol,
    start,
    end: session.clock.slice(0, 10),
    adjust: "split",
  };
  const answer =
    frame === "1d"
      ? await getDays(session.workspace, query)
      : await getMinutes(session.workspace, {...query, interval: frame});
  const fresh = answer.map((bar) => ({...bar, key: bar.date || bar.window_start}));
  const first = fresh.length ? fresh[0].key : "~";
  const bars = [...before.filter((bar) => bar.key < first), ...fresh].slice(-READ);
  session.bars.set(name, bars);
  return bars;
}

/** A day early enough for as many bars as are read. */
function firstMoment(clock, frame) {
  const minutes = Number.parseInt(frame, 10);
  const tradingDays = frame === "1d" ? READ : Math.ceil((READ * minutes) / TRADED_MINUTES) + 1;
  const days = Math.ceil(tradingDays * 1.5) + 4;
  return daysLater(clock, -days);
}

/** Mean of the last `count` closes at each bar; null where there are fewer. */
function movingAverage(closes, count) {
  let sum = 0;
  return closes.map((close, at) => {
    sum += close - (at >= count ? closes[at - count] : 0);
    return at >= count - 1 ? sum / count : null;
  });
}

// -- drawing

const nameOf = (bar, frame) => {
  if (frame === "1d") return bar.key;
  const {day, time} = marketTime(bar.key);
  return `${day} ${time}`;
};

/** Fills of the chosen stock, each on the bar that it was filled in. */
function fillsOf(session, bars, shown) {
  const first = bars.length - shown.length;
  const placeOf = (trade) => {
    if (session.frame === "1d") {
      const day = marketTime(trade.ts).day;
      return bars.findLastIndex((bar) => bar.key <= day);
    }
    const moment = Date.parse(trade.ts); // the end of the minute that it was filled in
    return bars.findLastIndex((bar) => Date.parse(bar.key) < moment);
  };
  const own = session.trades.filter((trade) => trade.instrument.symbol === session.symbol);
  return own.flatMap((trade) => {
    const row = shown[placeOf(trade) - first];
    if (!row) return [];
    const side = trade.side === "BUY" ? "bought" : "sold";
    return [{when: row.when, price: trade.price, side}];
  });
}

function rowsOf(bars, frame) {
  const closes = bars.map((bar) => bar.close);
  const averages = AVERAGES.map((count) => movingAverage(closes, count));
  return bars.map((bar, at) => ({
    when: nameOf(bar, frame),
    open: bar.open,
    high: bar.high,
    low: bar.low,
    close: bar.close,
    volume: bar.volume,
    rises: bar.close >= bar.open,
    ...Object.fromEntries(AVERAGES.map((count, place) => [`ma${count}`, averages[place][at]])),
  }));
}

function drawChart(place, session, bars) {
  const frame = session.frame;
  const rows = rowsOf(bars, frame);
  const isNarrow = place.clientWidth > 0 && place.clientWidth < NARROW;
  const shown = rows.slice(isNarrow ? -SHOWN_NARROW : -SHOWN_WIDE);
  if (!shown.length) {
    kt.replace(place, el("p.empty", {}, `${session.symbol} has no bars up to the clock.`));
    return;
  }
  const last = shown.at(-1);
  const listed = listedStock(session.symbol);
  const focused = focusedTool(place);
  const fills = fillsOf(session, bars, shown);
  kt.charts.candles(place, shown, {
    fills,
    averages: AVERAGES,
    isDaily: frame === "1d",
    title: `${session.symbol} ${listed?.name || ""} · ${session.currency}`,
    description: descriptionOf(session, last),
    height: HEIGHT,
    columns: [
      ["Bar", ""],
      ["Open", ""],
      ["High", ""],
      ["Low", ""],
      ["Close", ""],
      ["Volume", ""],
      ...AVERAGES.map((count) => [`Average ${count}`, ""]),
    ],
    rows: [...shown]
      .reverse()
      .map((row) => [
        row.when,
        ...[row.open, row.high, row.low, row.close].map(price),
        short(row.volume),
        ...AVERAGES.map((count) => price(row[`ma${count}`])),
      ]),
  });
  if (focused >= 0) place.querySelectorAll("button")[focused]?.focus();
}

/** How far the bars reach, and how to read them. */
function descriptionOf(session, last) {
  const zone = session.frame === "1d" ? "" : ` ${marketTime(session.clock).zone}`;
  const reach = `${session.frame} bars to ${last.when}${zone}`;
  return `${reach} · close ${price(last.close)} · hollow candles rise, triangles are fills`;
}

/** Which button of the chart has the focus, for it is drawn anew; -1: none. */
const focusedTool = (place) =>
  [...place.querySelectorAll("button")].indexOf(document.activeElement);
