// The chosen day: how it was decided, what was said, what was held afterwards.

class DayPanel {
  constructor(view) {
    this.view = view;
    this.orders = new Orders(view);
    this.memory = new MemoryPanel(view);
  }

  heading(day) {
    const {names, rows} = this.view;
    const {decided_on: decided, filled_on: filled} = rows[day];
    const handle = names.days.length ? ` (day_+${day} to the model)` : "";
    replace(byId("day-title"), `Day ${day}`);
    replace(
      byId("day-when"),
      el("strong.nb", {}, filled),
      ": ",
      el("span.nb", {}, `decided at the close of ${decided}`),
      `${handle}, `,
      el("span.nb", {}, `filled ${this.view.head.is_exact ? "" : "at the open "}on ${filled}`),
    );
    replace(byId("bar-day"), `Day ${day} · ${filled}`);
  }

  show(day, data) {
    const {names, texts, manner} = this.view;
    const talk = new Talk(names, texts, manner).show(day, data.talk);
    replace(
      byId("day-body"),
      this.summary(day, data.step),
      el("section", {id: "part-decision", "aria-label": "Decision"}, this.decision(day, data)),
      el(
        "section",
        {id: "part-talk", "aria-label": "What was said"},
        el("h3", {}, "What was said"),
        talk,
      ),
      el(
        "section",
        {id: "part-portfolio", "aria-label": "Portfolio"},
        this.portfolio(day, data.step),
      ),
      data.memory
        ? el(
            "section",
            {id: "part-memory", "aria-label": "Memory of the agent"},
            this.memory.show(data.memory),
          )
        : null,
    );
  }

  summary(day, step) {
    const {returns, benchmarkReturns, head} = this.view;
    const change = (value) => el(`span.${tone(value)}`, {}, percent(value));
    const facts = [
      ["NAV at the close", `${figure(step.nav, 0)} ${head.currency}`],
      ["that day", change(returns[day])],
      benchmarkReturns ? [head.benchmark.name, change(benchmarkReturns[day])] : null,
      ["cash", percent(partOf(step.cash, step.nav), 1, false)],
      [
        "tool calls",
        step.tool_calls ? `${step.tool_calls_valid} of ${step.tool_calls} valid` : "none",
      ],
      ["submissions", whole(step.submissions)],
    ];
    const {input_tokens: read, output_tokens: written} = step;
    if (read + written) facts.push(["tokens", `${whole(read)} in, ${whole(written)} out`]);
    const shown = facts
      .filter(Boolean)
      .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
    return el("dl.summary", {}, shown);
  }

  decision(day, data) {
    const {step} = data;
    const reason = step.overall_reason;
    return [
      el("h3", {}, "Decision"),
      this.decider(step),
      this.failures(step),
      reason ? el("blockquote", {}, this.view.names.mark(reason)) : null,
      step.orders.length ? this.orders.show(day, data) : this.noOrders(step),
    ];
  }

  /** That a step has no orders, which is a decision only if nothing failed. */
  noOrders(step) {
    const words = withoutOrders(step);
    return el("p.quiet", {}, `${words[0].toUpperCase()}${words.slice(1)}.`);
  }

  /** Who decided the step, in the words of cards. */
  decider({provenance}) {
    const label = kt.kindLabel("provenance", provenance);
    const sentence = `${label[0].toUpperCase()}${label.slice(1)}.`;
    const meaning = kt.kindMeaning("provenance", provenance);
    return el(isHeld({provenance}) ? "p.held" : "p", {}, `${sentence} ${meaning}`.trim());
  }

  /** What failed in the step, by kind; null where nothing did. */
  failures(step) {
    const items = [];
    const add = (label, number, meaning) => {
      const chip = el("span.chip.warn", {}, `${label} × ${number}`);
      items.push(el("li", {}, chip, ` ${meaning}`));
    };
    for (const [kind, number] of Object.entries(step.failures)) {
      add(kt.kindLabel("failures", kind), number, kt.kindMeaning("failures", kind));
    }
    if (step.unmask_attempts) {
      add("unmask attempts", step.unmask_attempts, "identities that the mask hides were offered");
    }
    return items.length ? el("ul.failures", {}, items) : null;
  }

  portfolio(day, step) {
    return [
      el("h3", {}, `Portfolio at the close of ${step.filled_on}`),
      this.actions(step),
      this.charges(step),
      this.carried(step),
      this.positions(day, step),
    ];
  }

  actions(step) {
    if (!step.corporate_actions.length) return null;
    const items = step.corporate_actions.map((action) => this.action(action));
    return el("ul.failures", {}, items);
  }

  action({code, shares_before: before, shares_after: after, cash}) {
    const shares = `${quantity(before)} shares became ${quantity(after)}`;
    const paid = `${figure(cash)} ${this.view.head.currency} in cash`;
    return el("li", {}, this.stock(code), ` split or dividend: ${shares}, with ${paid}`);
  }

  stock(code) {
    return stockName(this.view, code, this.view.names.handles.get(code));
  }

  /**
   * What the venue did before the orders: interest on shorts, and positions closed for want of
   * cash.
   */
  charges(step) {
    if (!(step.charges || []).length) return null;
    const items = step.charges.map((charge) => this.charge(charge));
    return el("ul.failures", {}, items);
  }

  charge({kind, code, shares, price: at, cash, fee}) {
    const size = count(Math.abs(shares), "share");
    const side = shares > 0 ? "bought" : "sold";
    const words =
      kind === "borrow"
        ? `interest on ${size} sold short, ${price(at)} each`
        : `margin call: ${side} ${size} at ${price(at)}, cost ${figure(fee)}`;
    const change = `${figure(cash, 2, true)} ${this.view.head.currency}`;
    return el("li", {}, this.stock(code), ` ${words}: cash ${change}`);
  }

  /** Orders of earlier days that worked on the day, and rests that go on; null where none did. */
  carried(step) {
    const {carried = [], working = []} = step;
    if (carried.length + working.length === 0) return null;
    const items = carried.map((order) => this.carriedOrder(order));
    for (const {code, side, shares} of working) {
      const rest = ` works on: ${side} ${count(shares, "share")}`;
      items.push(el("li", {}, this.stock(code), rest));
    }
    return el("ul.failures", {}, items);
  }

  carriedOrder({code, side, filled_shares: filled, price: at, status, rule}) {
    const outcome = filled ? `${count(filled, "share")} at ${price(at)}` : "nothing filled";
    const words = ` order of an earlier day: ${side}, ${outcome} (${rule || status})`;
    return el("li", {}, this.stock(code), words);
  }

  positions(day, step) {
    const largest = [...step.positions].sort((one, other) => other.value - one.value);
    const rows = largest.map((position) => this.position(day, step, position));
    const share = percent(partOf(step.cash, step.nav), 1, false);
    const figures = ["", "", "", figure(step.cash, 0), share, ""];
    const cash = el(
      "tr.total",
      {},
      el("th", {scope: "row"}, "Cash"),
      figures.map((text) => el("td.n", {}, text)),
    );
    const value = `value, ${this.view.head.currency}`;
    const heads = ["shares", "locked", "price", value, "weight", "that day"];
    return wideTable({
      kind: "positions",
      caption: `${count(step.positions.length, "position")} and cash`,
      head: ["stock", ...heads.map(numberHead)],
      rows: [...rows, cash],
    });
  }

  position(day, step, {code, shares, locked, price: at, value}) {
    const {view} = this;
    const change = view.changeOf(code, day);
    const share = percent(partOf(value, step.nav), 1, false);
    const figures = [
      quantity(shares),
      locked ? quantity(locked) : "",
      price(at),
      figure(value, 0),
      share,
    ];
    return el(
      "tr",
      {},
      el("th", {scope: "row"}, stockName(view, code, view.names.handles.get(code))),
      figures.map((text) => el("td.n", {}, text)),
      el(`td.n.${tone(change)}`, {}, percent(change)),
    );
  }
}
