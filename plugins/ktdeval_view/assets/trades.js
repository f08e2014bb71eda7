// Every trade of the episode in one table, to be narrowed and saved as CSV.

const TRADE_KINDS = [
  ["filled", "trades", (trade) => trade.shares > 0],
  ["all", "all orders", () => true],
  ["rejected", "rejected orders", (trade) => trade.status === "rejected"],
];
const TRADE_COLUMNS = ["day", "date", "stock", "company", "handle", "side", "outcome", "shares"];

class TradeBox {
  constructor(view) {
    this.view = view;
    this.box = byId("trades");
    const all = view.rows.flatMap((row, day) =>
      [...(row.carried || []), ...row.orders].map((order) => this.trade(day, row, order)),
    );
    this.kinds = TRADE_KINDS.map(([key, label, test]) => [key, label, all.filter(test)]);
    replace(
      byId("trade-kind"),
      this.kinds.map(([value, label, trades]) =>
        el("option", {value}, `${label} (${whole(trades.length)})`),
      ),
    );
    byId("trade-kind").addEventListener("change", () => this.show());
    byId("trade-search").addEventListener("input", () => this.show());
    byId("trade-csv").addEventListener("click", () => this.save());
    byId("trade-close").addEventListener("click", () => this.box.close());
  }

  trade(day, row, [code, side, status, shares, at, value, cost]) {
    const {names} = this.view;
    const handle = names.handles.get(code) || "";
    return {day, date: row.filled_on, code, handle, side, status, shares, at, value, cost};
  }

  open() {
    this.show();
    this.box.showModal();
  }

  /** Trades of the chosen kind that have each word in stock, company, handle, side or date. */
  get shown() {
    const words = typedWords("trade-search");
    const [, , trades] = this.kinds.find(([key]) => key === byId("trade-kind").value);
    return trades.filter(({code, handle, side, date}) => {
      const text = `${code} ${this.view.names.company(code)} ${handle} ${side} ${date}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }

  show() {
    const trades = this.shown;
    replace(byId("trade-matches"), count(trades.length, "row"));
    const {currency} = this.view.head;
    const figures = ["shares", "price", `value, ${currency}`, `cost, ${currency}`];
    const head = ["day", "date", "stock", "side", "outcome"];
    const rows = trades.map((trade) => this.row(trade));
    replace(
      byId("trade-list"),
      kt.table.plain({
        caption: "Trades",
        head: [...head, ...figures.map(numberHead)],
        rows,
      }),
    );
  }

  row({day, date, code, handle, side, status, shares, at, value, cost}) {
    const figures = [quantity(shares), price(at), figure(value), figure(cost)];
    return [
      el("a", {href: `#day=${day}`, click: () => this.box.close()}, `Day ${day}`),
      date,
      el("span", {}, `${code} ${this.view.names.company(code)} `, handle === code ? null : handle),
      side,
      (STATUS[status] || [status])[0],
      ...figures.map((text) => (shares ? text : NONE)),
    ];
  }

  save() {
    const {currency, label: name} = this.view.head;
    const head = [...TRADE_COLUMNS, "price", `value_${currency}`, `cost_${currency}`];
    const rows = this.shown.map((one) => [
      one.day,
      one.date,
      one.code,
      this.view.names.company(one.code),
      one.handle,
      one.side,
      one.status,
      ...[one.shares, one.at, one.value, one.cost].map((number) => (one.shares ? number : null)),
    ]);
    const file = `trades-${name.replace(/[^A-Za-z0-9_-]+/g, "-")}.csv`;
    kt.download(file, kt.table.csv([head, ...rows]), "text/csv");
  }
}
