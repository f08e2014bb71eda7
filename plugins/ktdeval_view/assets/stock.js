// One stock over the whole episode: price, position, decisions and signals, and every order that
// the agent gave in it.

class StockBox {
  constructor(view) {
    this.view = view;
    this.box = byId("stock");
    this.choice = byId("stock-choice");
    this.choice.addEventListener("change", () => this.open(this.choice.value));
    byId("stock-close").addEventListener("click", () => this.box.close());
    this.box.addEventListener("click", (event) => {
      if (event.target === this.box) this.box.close(); // the backdrop
    });
  }

  /** Stocks of which something is known, by code. */
  get codes() {
    const {closes, paths} = this.view;
    const known = [
      ...Object.keys(closes ? closes.packed : {}),
      ...Object.keys(paths.weights),
      ...Object.keys(paths.signals),
    ];
    return [...new Set(known)].sort();
  }

  /** Open the stock that was ordered most often. */
  openAny() {
    const times = (code) =>
      this.view.rows.filter((row) => row.orders.some(([ordered]) => ordered === code)).length;
    const [first] = this.codes
      .map((code) => [times(code), code])
      .sort(([one], [other]) => other - one);
    if (first) this.open(first[1]);
  }

  open(code) {
    const {names, rows} = this.view;
    const ofDay = (row, day) =>
      row.orders.filter(([ordered]) => ordered === code).map((order) => ({day, row, order}));
    const orders = rows.flatMap(ofDay);
    const handle = names.handles.get(code);
    const used = handle && handle !== code ? el("span.handle-used", {}, handle) : null;
    replace(byId("stock-title"), `${code} ${names.company(code)} `, used);
    replace(
      this.choice,
      this.codes.map((one) =>
        el("option", {value: one, selected: one === code}, `${one} ${names.company(one)}`),
      ),
    );
    if (!this.box.open) this.box.showModal(); // before it is drawn as wide as it is
    replace(byId("stock-body"), this.chart(code, orders), this.signals(code), this.table(orders));
    this.box.scrollTop = 0;
  }

  strips(code) {
    const {paths, rows} = this.view;
    const analysts = Object.hasOwn(paths.signals, code) ? paths.signals[code] : [];
    const signals = analysts.map((letters, place) => ({
      name: paths.analysts[place].replaceAll("_", " "),
      letters,
    }));
    return [{name: "decision", letters: decisionsOn(rows, code)}, ...signals];
  }

  chart(code, orders) {
    const {closes, day: chosen, head, paths, rows} = this.view;
    const values = closes ? closes.of(code) : null;
    const days = values ? closes.days : [rows[0].decided_on, ...rows.map((row) => row.filled_on)];
    const series = {
      values: values || [],
      days,
      start: values ? closes.start : 0,
      chosen,
      currency: head.currency,
      strips: this.strips(code),
      weights: Object.hasOwn(paths.weights, code) ? paths.weights[code] : rows.map(() => 0),
      orders: orders.map(({day, order}) => ({day, side: order[1], isFilled: order[3] > 0})),
    };
    const plot = new StockChart(
      series,
      Math.max(260, Math.floor(byId("stock-body").clientWidth)),
    ).draw();
    return el(
      "figure.stock-plot",
      {},
      plot,
      el(
        "figcaption.quiet",
        {},
        `Price: closes in ${head.currency}, adjusted for splits and dividends; triangles are ` +
          `orders at the close they were decided at, up for bought ` +
          "and down for sold, hollow where nothing was filled. Position: at the close of the day " +
          "after. Below, by the day of the decision: " +
          "up for Buy or Bullish, down for Sell or Bearish, a line for Hold or Neutral, a cross " +
          "where nothing valid was said. The shade is the chosen day.",
      ),
    );
  }

  /** The signals in numbers, beside the decisions. */
  signals(code) {
    const strips = this.strips(code);
    if (strips.length < 2) return null;
    const rows = strips.map(({name, letters}, place) =>
      el(
        "tr",
        {},
        el("th", {scope: "row"}, name),
        el("td", {}, countLetters(letters, place ? SIGNAL_NAMES : DECISION_NAMES)),
      ),
    );
    return scroller(
      "Decisions and signals",
      el("table.grid", {}, el("caption", {}, "Decisions and signals"), el("tbody", {}, rows)),
    );
  }

  table(orders) {
    if (orders.length === 0) return el("p.quiet", {}, "No valid submission has an order in it.");
    const rows = orders.map(({day, row, order: [, side, status, shares, at]}) => [
      el("td", {}, el("a", {href: `#day=${day}`, click: () => this.box.close()}, `Day ${day}`)),
      row.filled_on,
      side,
      (STATUS[status] || [status])[0],
      shares ? quantity(shares) : NONE,
      shares ? price(at) : NONE,
    ]);
    return wideTable({
      caption: count(orders.length, "order"),
      head: ["day", "date", "side", "outcome", numberHead("shares"), numberHead("price")],
      rows,
    });
  }
}
