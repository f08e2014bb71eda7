// One stock over the whole episode: its closes, and every order that the agent gave in it.

class StockBox {
  constructor(view) {
    this.view = view;
    this.box = byId("stock");
    byId("stock-close").addEventListener("click", () => this.box.close());
    this.box.addEventListener("click", (event) => {
      if (event.target === this.box) this.box.close(); // the backdrop
    });
  }

  open(code) {
    const {names, rows} = this.view;
    const ofDay = (row, day) => row.orders.filter(([ordered]) => ordered === code).map((order) => ({day, row, order}));
    const orders = rows.flatMap(ofDay);
    const handle = names.handles.get(code);
    const used = handle && handle !== code ? make("span.handle-used", {}, handle) : null;
    replace(byId("stock-title"), `${code} ${names.company(code)} `, used);
    replace(byId("stock-body"), this.plot(code, orders), this.table(orders));
    this.box.showModal();
    this.box.scrollTop = 0;
  }

  plot(code, orders) {
    const {closes, day: chosen, head} = this.view;
    const values = closes ? closes.of(code) : null;
    if (!values) return null;
    const place = (day) => closes.start + day + 1;
    const fills = orders.filter(({order}) => order[3] > 0)
      .map(({day, order}) => ({place: place(day), value: values[place(day)], side: order[1]}))
      .filter(({value}) => typeof value === "number");
    const plot = sparkline(values, {from: place(chosen) - 1, to: place(chosen), fills, width: 640, height: 180});
    if (!plot) return null;
    const [low, high] = ends(values.filter((value) => value !== null));
    const range = `${closes.days[0]} to ${closes.days[closes.days.length - 1]}`;
    return make("figure.stock-plot", {}, plot, make("figcaption.quiet", {},
      `Closes from ${range}, adjusted for splits and dividends: ${this.view.quote(low)} to ${this.view.quote(high)} ${head.currency}. `
      + "Triangles are fills, up for bought and down for sold; the shade begins after the chosen day's decision."));
  }

  table(orders) {
    if (orders.length === 0) return make("p.quiet", {}, "The agent gave no order in it.");
    const rows = orders.map(({day, row, order: [, side, status, shares, at]}) => make("tr", {},
      make("td", {}, make("a", {href: `#day=${day}`, click: () => this.box.close()}, `Day ${day}`)),
      [row.decided_on, side, (STATUS[status] || [status])[0]].map((word) => make("td", {}, word)),
      [shares ? quantity(shares) : UNKNOWN, shares ? price(at) : UNKNOWN].map((number) => make("td.n", {}, number))));
    const heads = ["day", "decided", "side", "outcome"].map((head) => make("th", {scope: "col"}, head));
    const figures = ["shares", "price"].map((head) => make("th.n", {scope: "col"}, head));
    return scroller("The agent's orders in this stock", make("table.grid", {}, make("caption", {}, count(orders.length, "order")),
      make("thead", {}, make("tr", {}, heads, figures)), make("tbody", {}, rows)));
  }
}
