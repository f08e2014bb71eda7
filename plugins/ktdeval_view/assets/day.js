// The chosen day: how it was decided, what was said, what was held afterwards.

const PROVENANCE = {
  model: "Decided by the model at its first submission.",
  model_after_retry: "Decided by the model after a retry: an earlier submission was not valid.",
  fallback: "Held by the engine: no submission was valid, so this is no decision of the model.",
  error: "Held by the engine: the model call failed, so this is no decision of the model.",
};

const FAILURES = {
  bad_json: "arguments that were no JSON",
  schema: "a submission that did not follow the schema",
  bad_arguments: "arguments that the tool does not take",
  unknown_asset: "a stock that does not exist",
  unknown_day: "a day that does not exist",
  unknown_tool: "a tool that does not exist",
  wrong_tool: "a tool at the wrong time",
  tool_budget: "a research call beyond the step's budget",
  no_submission: "a reply without a submission",
  empty_reply: "an empty reply",
  no_signal: "an analyst's answer without a readable signal",
  no_ratio: "an answer of risk control without position ratios",
  truncated: "a reply cut off at the longest length",
  refusal: "a refusal",
  content_filter: "a reply stopped by the content filter",
  model_timeout: "no reply in time",
  model_rate_limited: "too many requests",
  model_overloaded: "an overloaded provider",
  model_server: "an error of the provider",
  model_connection: "a broken connection",
  model_bad_response: "a response that could not be read",
  model_bad_request: "a request that was refused",
};

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
    replace(byId("day-when"), make("span.nb", {}, `decided at the close of ${decided}`), `${handle}, `,
      make("span.nb", {}, `${this.view.head.is_exact ? "filled on" : "filled at the open of"} ${filled}`));
    replace(byId("bar-day"), `Day ${day} · ${decided}`);
  }

  show(day, data) {
    const {names, texts, manner} = this.view;
    const talk = new Talk(names, texts, manner).show(day, data.talk);
    replace(byId("day-body"), this.summary(day, data.step),
      make("section", {id: "part-decision", "aria-label": "Decision"}, this.decision(day, data)),
      make("section", {id: "part-talk", "aria-label": "What was said"}, make("h3", {}, "What was said"), talk),
      make("section", {id: "part-portfolio", "aria-label": "Portfolio"}, this.portfolio(day, data.step)),
      data.memory ? make("section", {id: "part-memory", "aria-label": "Memory of the agent"}, this.memory.show(data.memory)) : null);
  }

  summary(day, step) {
    const {returns, benchmarkReturns, head} = this.view;
    const change = (value) => make(`span.${tone(value)}`, {}, percent(value));
    const facts = [
      ["NAV at the close", `${figure(step.nav, 0)} ${head.currency}`],
      ["that day", change(returns[day])],
      benchmarkReturns ? [head.benchmark.name, change(benchmarkReturns[day])] : null,
      ["cash", percent(partOf(step.cash, step.nav), 1, false)],
      ["tool calls", step.tool_calls ? `${step.tool_calls_valid} of ${step.tool_calls} valid` : "none"],
      ["submissions", whole(step.submissions)],
    ];
    const {input_tokens: read, output_tokens: written} = step;
    if (read + written) facts.push(["tokens", `${whole(read)} in, ${whole(written)} out`]);
    const shown = facts.filter(Boolean).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
    return make("dl.summary", {}, shown);
  }

  decision(day, data) {
    const {step} = data;
    const failed = Object.entries(step.failures).map(([kind, number]) => [kind, number, FAILURES[kind] || ""]);
    if (step.unmask_attempts) failed.push(["unmask attempts", step.unmask_attempts, "identities that the mask hides were offered"]);
    const chip = (kind, number) => make("span.chip.warn", {}, `${kind} × ${number}`);
    const chips = failed.map(([kind, number, words]) => make("li", {}, chip(kind, number), ` ${words}`));
    return [
      make("h3", {}, "Decision"),
      make(isHeld(step) ? "p.held" : "p", {}, PROVENANCE[step.provenance] || step.provenance),
      chips.length ? make("ul.failures", {}, chips) : null,
      step.overall_reason ? make("blockquote", {}, this.view.names.mark(step.overall_reason)) : null,
      step.orders.length ? this.orders.show(day, data) : make("p.quiet", {}, "No orders."),
    ];
  }

  portfolio(day, step) {
    return [make("h3", {}, `Portfolio at the close of ${step.filled_on}`), this.actions(step), this.charges(step), this.positions(day, step)];
  }

  actions(step) {
    if (!step.corporate_actions.length) return null;
    return make("ul.failures", {}, step.corporate_actions.map((action) => {
      const shares = `${quantity(action.shares_before)} shares became ${quantity(action.shares_after)}`;
      const name = stockName(this.view, action.code, this.view.names.handles.get(action.code));
      return make("li", {}, name, ` split or dividend: ${shares}, with ${figure(action.cash)} ${this.view.head.currency} in cash`);
    }));
  }

  /** What the venue did before the orders: interest on shorts, and positions closed for want of cash. */
  charges(step) {
    if (!(step.charges || []).length) return null;
    const {currency} = this.view.head;
    return make("ul.failures", {}, step.charges.map(({kind, code, shares, price: at, cash, fee}) => {
      const words = kind === "borrow" ? `interest on ${count(Math.abs(shares), "share")} sold short, ${price(at)} each: cash `
        : `margin call: ${shares > 0 ? "bought" : "sold"} ${count(Math.abs(shares), "share")} at ${price(at)}, cost ${figure(fee)}: cash `;
      return make("li", {}, stockName(this.view, code, this.view.names.handles.get(code)), ` ${words}${figure(cash, 2, true)} ${currency}`);
    }));
  }

  positions(day, step) {
    const largest = [...step.positions].sort((one, other) => other.value - one.value);
    const rows = largest.map((position) => this.position(day, step, position));
    const share = percent(partOf(step.cash, step.nav), 1, false);
    const cash = make("tr.total", {}, make("th", {scope: "row"}, "Cash"), make("td"), make("td"), make("td"),
      make("td.n", {}, figure(step.cash, 0)), make("td.n", {}, share), make("td"));
    const figures = ["shares", "locked", "price", `value, ${this.view.head.currency}`, "weight", "that day"];
    const heads = figures.map((head) => make("th.n", {scope: "col"}, head));
    return scroller("Positions", make("table.grid.positions", {},
      make("caption", {}, `${count(step.positions.length, "position")} and cash`),
      make("thead", {}, make("tr", {}, make("th", {scope: "col"}, "stock"), heads)), make("tbody", {}, rows, cash)));
  }

  position(day, step, {code, shares, locked, price: at, value}) {
    const {view} = this;
    const change = view.changeOf(code, day);
    const share = percent(partOf(value, step.nav), 1, false);
    const figures = [quantity(shares), locked ? quantity(locked) : "", price(at), figure(value, 0), share];
    return make("tr", {}, make("th", {scope: "row"}, stockName(view, code, view.names.handles.get(code))),
      figures.map((text) => make("td.n", {}, text)), make(`td.n.${tone(change)}`, {}, percent(change)));
  }
}
