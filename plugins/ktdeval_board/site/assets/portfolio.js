/* The portfolio of an episode by day: what was held and ordered, and why, in the model's words.
Part of the model page.

kt.portfolio.section(view, part)
    the section; the data `decisions/<id>` are large and are loaded when it comes into view
kt.portfolio.refresh(view)
    follows window=, seed= and day= of the address
kt.portfolio.orders(step)
    a list of a day's orders
kt.portfolio.overlap(one, other)
    share of two portfolios in common
kt.portfolio.beside(place, [steps, steps])
    the days on which the orders of two agents differ, side by side */
"use strict";

(() => {
  const {el, format, plural} = kt;
  const decider = (step) => kt.kindLabel("provenance", step.by);
  const FIRST_DAYS = 15;
  const STATUS = {
    filled: ["", "filled"],
    partially_filled: ["warn", "partly filled"],
    rejected: ["bad", "rejected"],
  };

  /** A number of shares or coins, or a small price, with all its digits. */
  const exact = (figure) =>
    Number.isInteger(figure)
      ? format.count(figure)
      : figure.toLocaleString("en-US", {maximumSignificantDigits: 6});

  /** That a day has no order, which is a decision only if the first submission was valid. */
  const withoutOrder = (step) => (step.by === "model" ? "no order" : "no valid order");

  function orders(step) {
    const words = withoutOrder(step);
    const none = el("p.quiet", `${words[0].toUpperCase()}${words.slice(1)}.`);
    return kt.listed("ul.orders", step.orders.map(orderItem)) || none;
  }

  function orderItem(order) {
    const side = el("span", {class: order.side === "BUY" ? "buy" : "sell"}, order.side);
    const code = el("strong", order.code);
    const reason = order.reason ? el("q.reason", order.reason) : null;
    return [side, " ", code, " ", order.asked, ", ", fillOf(order), outcome(order), reason];
  }

  function fillOf({filled, price}) {
    if (!filled) return "nothing filled";
    return `${exact(filled)} at ${price < 1 ? exact(price) : format.number(price)}`;
  }

  /** Why an order was not filled whole; null where it was. */
  function outcome({status, rule}) {
    if (status === "filled") return null;
    const [kind, word] = STATUS[status] || ["", status];
    if (!rule) return [" ", kt.chip(word, kind)];
    const ruleWords = kt.words(rule);
    return [" ", kt.chip(word, kind, `rule: ${ruleWords}`), ` ${ruleWords}`];
  }

  const gross = (holdings) => holdings.reduce((total, [, weight]) => total + Math.abs(weight), 0);

  /**
   * Sum over names of the smaller weight, cash included: 1 is the same portfolio. Shorts have their
   * size, in common with shorts alone.
   */
  function overlap(one, other) {
    const cash = (holdings) => Math.max(0, 1 - gross(holdings));
    const weights = new Map(other);
    const common = (weight, beside) =>
      weight * beside > 0 ? Math.min(Math.abs(weight), Math.abs(beside)) : 0;
    const shared = one.reduce(
      (total, [code, weight]) => total + common(weight, weights.get(code) || 0),
      0,
    );
    return (shared + Math.min(cash(one), cash(other))) / Math.max(1, gross(one), gross(other));
  }

  const hhi = (holdings) => {
    const total = gross(holdings);
    return total > 0 ? holdings.reduce((sum, [, weight]) => sum + (weight / total) ** 2, 0) : null;
  };

  function section(view, part) {
    if (!view.entry.has_decisions) {
      return part(
        "portfolio",
        "Portfolio",
        el(
          "p.quiet",
          "No holdings by day: they are made when the board's check executes the records again.",
        ),
      );
    }
    const place = el("div", kt.loading("the decisions"));
    view.portfolio = {place, decisions: null, shown: null};
    const load = async () => {
      try {
        view.portfolio.decisions = await kt.load(`decisions/${view.entry.id}`);
        build(view);
        refresh(view);
      } catch (error) {
        kt.replace(place, el("p.trouble", error.message));
      }
    };
    kt.charts.whenSeen(place, load);
    return part("portfolio", "Portfolio", place);
  }

  function build(view) {
    const own = view.portfolio;
    own.episode = kt.controls.choice({
      label: "Episode",
      options: own.decisions.episodes.map((episode, at) => [
        String(at),
        `${episode.window}, seed ${episode.seed}`,
      ]),
      onChange: (at) => {
        const {window, seed} = own.decisions.episodes[Number(at)];
        kt.state.set({window, seed: String(seed), day: ""});
      },
    });
    own.day = kt.state.choice({label: "Day", name: "day"});
    own.slider = el("input.days-slider", {
      type: "range",
      min: "0",
      step: "1",
      "aria-label": "Day of the episode",
      input: () => kt.state.set({day: own.steps[Number(own.slider.value)].day}, {replace: true}),
    });
    own.walk = (by) => {
      const at = Math.max(0, Math.min(own.steps.length - 1, Number(own.slider.value) + by));
      kt.state.set({day: own.steps[at].day});
    };
    const names = ["day", "holdings", "allocation", "concentration"];
    own.places = Object.fromEntries(names.map((name) => [name, el("div")]));
    kt.replace(
      own.place,
      el(
        "div.pickers",
        own.episode.element,
        own.day.element,
        el(
          "div.pair",
          kt.button("Day before", () => own.walk(-1), {class: "small"}),
          kt.button("Day after", () => own.walk(1), {class: "small"}),
        ),
      ),
      own.slider,
      el("div.beside", el("div", own.places.holdings), el("div", own.places.day)),
      own.places.allocation,
      own.places.concentration,
    );
  }

  function refresh(view) {
    const own = view.portfolio;
    if (!own?.decisions || !own.episode) return;
    const {episodes} = own.decisions;
    const window = kt.state.get("window") || episodes[0].window;
    const seed = kt.state.get("seed");
    const episode =
      episodes.find((one) => one.window === window && String(one.seed) === seed) ||
      episodes.find((one) => one.window === window) ||
      episodes[0];
    if (own.shown !== episode) newEpisode(own, episode);
    const at = Math.max(
      0,
      episode.steps.findIndex((step) => step.day === kt.state.get("day")),
    );
    const chosen = kt.state.get("day") ? at : episode.steps.length - 1;
    showDay(own, episode, chosen);
  }

  function newEpisode(own, episode) {
    own.shown = episode;
    own.steps = episode.steps;
    own.episode.set(String(own.decisions.episodes.indexOf(episode)));
    own.day.options(
      episode.steps.map((step) => [
        step.day,
        `${step.day}${step.orders.length ? `: ${plural(step.orders.length, "order")}` : ""}`,
      ]),
    );
    own.slider.max = String(episode.steps.length - 1);
    kt.charts.allocation(own.places.allocation, episode.steps);
    const line = (label, value) => ({
      label,
      points: episode.steps.map((step) => [step.day, value(step)]),
    });
    kt.charts.lines(
      own.places.concentration,
      [
        line("concentration (HHI of the holdings)", (step) => hhi(step.holdings)),
        line("invested", (step) => step.holdings.reduce((total, [, weight]) => total + weight, 0)),
      ],
      {
        title: "Concentration over time",
        description:
          "The Herfindahl-Hirschman index is 1 over the number of names where their weights are " +
          "equal; invested is the share not held in cash.",
        height: 150,
        say: (value) => format.percent(value, 1),
      },
    );
  }

  function showDay(own, episode, at) {
    const step = episode.steps[at];
    own.day.set(step.day);
    own.slider.value = String(at);
    own.slider.setAttribute("aria-valuetext", step.day);
    kt.charts.holdings(own.places.holdings, step, `Holdings at the close of ${step.day}`);
    kt.replace(
      own.places.day,
      el("h3", `${step.day} (decided after the close of ${step.decided_on})`),
      el("p.quiet", decider(step)),
      step.why ? el("blockquote.why-text", step.why) : null,
      orders(step),
    );
  }

  // -- two agents

  const ordered = (step) =>
    JSON.stringify(step.orders.map((order) => [order.code, order.side, order.asked]).sort());

  function beside(place, [one, other]) {
    const later = new Map(other.map((step) => [step.day, step]));
    const both = one
      .filter((step) => later.has(step.day))
      .map((step) => [step, later.get(step.day)]);
    const differing = both.filter(([first, second]) => ordered(first) !== ordered(second));
    const shared = both.reduce(
      (total, [first, second]) => total + overlap(first.holdings, second.holdings),
      0,
    );
    const common = shared / (both.length || 1);
    const list = el("div");
    const more = el("p");
    const show = (count) => {
      kt.replace(list, differing.slice(0, count).map(dayBeside));
      kt.replace(
        more,
        differing.length > count
          ? kt.button(`Show all ${differing.length} days`, () => show(differing.length), {
              class: "small",
            })
          : null,
      );
    };
    kt.replace(
      place,
      el(
        "p",
        `The orders differ on ${differing.length} of ${plural(both.length, "day")}. On average ` +
          `${format.percent(common, 0)} of the two portfolios are the same (names by weight, ` +
          `cash included).`,
      ),
      list,
      more,
    );
    show(FIRST_DAYS);
  }

  function dayBeside(pair) {
    const count = (step) =>
      step.orders.length ? plural(step.orders.length, "order") : withoutOrder(step);
    const share = format.percent(overlap(pair[0].holdings, pair[1].holdings), 0);
    const body = el("div.beside");
    const about = ` A ${count(pair[0])}, B ${count(pair[1])}; ${share} of the portfolios in common`;
    const fold = kt.details([pair[0].day, el("span.quiet", about)], body);
    fold.addEventListener("toggle", () => {
      if (!fold.open || body.firstChild) return;
      kt.replace(
        body,
        pair.map((step, at) =>
          el(
            "div",
            el("h4", `${"AB"[at]}: ${decider(step)}`),
            step.why ? el("blockquote.why-text", step.why) : null,
            orders(step),
          ),
        ),
      );
    });
    return fold;
  }

  kt.portfolio = {section, refresh, orders, overlap, beside};
})();
