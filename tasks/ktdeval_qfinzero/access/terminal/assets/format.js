// Money, amounts and moments as the page writes them: money with its currency, moments in the
// market's time with its zone.

const {known} = kt;
const {NONE} = kt.format;
const ZONE = document.body.dataset.zone || "UTC";
const MINUS = "\u2212";
const OPTION = /^O:([A-Z0-9.]+?)(\d\d)(\d\d)(\d\d)([CP])(\d{8})$/;
const moneyFormats = new Map();

/** Writes amounts of a currency: cents, and below a unit of it as many decimals as there are. */
function moneyFormat(currency, isSmall) {
  const key = `${currency} ${isSmall}`;
  if (!moneyFormats.has(key)) {
    const options = {minimumFractionDigits: 2, maximumFractionDigits: isSmall ? 4 : 2};
    let format;
    try {
      format = new Intl.NumberFormat("en-US", {style: "currency", currency, ...options});
    } catch {
      const plain = new Intl.NumberFormat("en-US", options); // a code that is not of ISO 4217
      format = {format: (value) => `${plain.format(value)} ${currency}`};
    }
    moneyFormats.set(key, format);
  }
  return moneyFormats.get(key);
}

/** An amount of money: "$1,234.50", "−$3.00". */
export function money(value, currency, {signed = false} = {}) {
  if (!known(value)) return NONE;
  const text = moneyFormat(currency, Math.abs(value) < 1).format(Math.abs(value));
  if (value < 0) return `${MINUS}${text}`;
  return signed && value > 0 ? `+${text}` : text;
}

/** A price without its currency, which the heading of its column names. */
export const price = (value) => kt.format.quantity(value, 2, 4);

/** A whole number with a minus sign of its own. */
export const amount = kt.format.count;

/** A large amount in few letters: "16.9M". */
export function short(value) {
  if (!known(value)) return NONE;
  return new Intl.NumberFormat("en-US", {notation: "compact", maximumFractionDigits: 1}).format(
    value,
  );
}

export const percent = (fraction, digits = 2) => kt.format.percent(fraction, digits, true);
export const decimal = (value, digits) => kt.format.number(value, digits);

/** Good or bad, for amounts that are won or lost. */
export function tone(value) {
  if (!known(value) || value === 0) return "";
  return value > 0 ? ".up" : ".down";
}

// -- moments

export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;

const clockFormat = new Intl.DateTimeFormat("en-US", {
  timeZone: ZONE,
  hourCycle: "h23",
  year: "numeric",
  month: "2-digit",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  weekday: "short",
  timeZoneName: "short",
});

function partsOf(moment) {
  const found = {};
  for (const {type, value} of clockFormat.formatToParts(new Date(moment))) found[type] = value;
  return found;
}

/** {day: "2025-02-18", time: "09:31", weekday: "Tue", zone: "EST"} in the market's time. */
export function marketTime(moment) {
  const {year, month, day, hour, minute, weekday, timeZoneName} = partsOf(moment);
  return {day: `${year}-${month}-${day}`, time: `${hour}:${minute}`, weekday, zone: timeZoneName};
}

/** "2025-02-18 09:31 EST". */
export function when(moment) {
  const {day, time, zone} = marketTime(moment);
  return `${day} ${time} ${zone}`;
}

/** "Tue 2025-02-18 09:31 EST". */
export const whenWithWeekday = (moment) => `${marketTime(moment).weekday} ${when(moment)}`;

/** A moment as the API takes it, without fractions of a second. */
export const isoMoment = (milliseconds) =>
  new Date(milliseconds).toISOString().replace(/\.\d+Z$/, "Z");

/** ISO day that lies some days after a day or a moment, or before it: its day in UTC. */
export const daysLater = (moment, days) =>
  new Date(Date.parse(moment) + days * DAY_MS).toISOString().slice(0, 10);

// -- instruments

/** What a right is called: "C" is a call. */
export const rightName = (right) => (right === "C" ? "call" : "put");

/** Parts of an option's OPRA symbol; null for any other text. */
export function optionParts(symbol) {
  const found = OPTION.exec(symbol);
  if (!found) return null;
  const [, underlying, year, month, day, right, strike] = found;
  return {underlying, expiry: `20${year}-${month}-${day}`, right, strike: Number(strike) / 1000};
}

/** The API's instrument of a symbol or an option's contract. */
export const instrumentOf = (symbol) =>
  symbol.startsWith("O:")
    ? {type: "OPTION", contract: symbol}
    : {type: "STOCK", symbol: symbol.toUpperCase()};

export const symbolOf = (instrument) => instrument.symbol || instrument.contract;

/** "AVLN", or "AVLN 2025-03-21 250.00 call". */
export function instrumentName(symbol) {
  const option = optionParts(symbol);
  if (!option) return symbol;
  const {underlying, expiry, strike, right} = option;
  return `${underlying} ${expiry} ${price(strike)} ${rightName(right)}`;
}

/** "BUY 10 AVLN LIMIT 250.00". */
export function orderText(order) {
  const prices = [order.stop_price, order.limit_price].filter(known).map(price);
  const name = instrumentName(symbolOf(order.instrument));
  return [order.side, amount(order.qty), name, order.order_type.replace("_", " "), ...prices].join(
    " ",
  );
}
