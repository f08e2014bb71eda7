// Agent Market Arena: entrants over Buy & Hold of the asset, how far and how often they are ahead
// of it, and what they held day by day.
"use strict";

(() => {
  const {el, format, plural} = kt;

  function rulesOf({task_config: config, mask, rules}) {
    const venue = config?.venue_rules || {};
    return [
      mask,
      config?.exit ? "leaves positions in parts" : "",
      config?.hold === "flat" ? "HOLD has no position" : "HOLD keeps",
      !venue.short
        ? "long only"
        : config?.sell === "close"
          ? "SELL of a holding closes it"
          : "sells short",
      venue.fees ? `${format.number(venue.fees.buy_bps, 1).replace(/\.0$/, "")} bps a side` : "",
      `${rules} figures`,
    ]
      .filter(Boolean)
      .join(" · ");
  }

  // -- votes

  const SIDES = [
    ["long", "long"],
    ["none", "nothing"],
    ["short", "short"],
  ];

  const total = (cards, name, at) => cards.reduce((sum, {curve}) => sum + curve[name][at], 0);

  /**
   * Shares of the cards' seeds by day and agent: long, short or without a position, and orders that
   * were filled.
   */
  function tally(view) {
    return view.agents.flatMap((agent) => {
      const cards = view.cards.filter(({row}) => view.agentOf(row) === agent);
      const n = cards.reduce((sum, {curve}) => sum + curve.seeds, 0);
      return !n
        ? []
        : view.frame.days.slice(0, -1).map((day, at) => {
            const [long, short, buy, sell] = ["long", "short", "buy", "sell"].map((name) =>
              total(cards, name, at),
            );
            return {
              agent,
              day,
              at,
              n,
              long,
              short,
              none: n - long - short,
              net: (long - short) / n,
              buy,
              sell,
            };
          });
    });
  }

  function votes(element, view) {
    const cells = tally(view);
    const days = view.frame.days.slice(0, -1);
    const asset = view.frame.asset;
    const moves = (asset ? days : []).map((day, at) => {
      const move = asset[at + 1] / asset[at] - 1;
      return {day, move, told: format.percent(move, 2, true)};
    });
    const all = days.map((day, at) => {
      const own = cells.filter((one) => one.at === at);
      const sum = (name) => own.reduce((before, one) => before + one[name], 0);
      return {
        day,
        n: sum("n"),
        long: sum("long"),
        none: sum("none"),
        short: sum("short"),
        buy: sum("buy"),
        sell: sum("sell"),
      };
    });
    const agents = view.agents.filter((agent) => cells.some((one) => one.agent === agent));
    const shares = all.flatMap(({day, n, ...counts}) =>
      SIDES.map(([key, side], order) => {
        const share = counts[key] / n;
        return {day, side, order, share, told: format.percent(share, 0)};
      }),
    );
    kt.charts.figure(element, "votes", {
      title: "Votes by day: what entrants hold after their decision",
      description:
        `Top: share of ${plural(all[0].n, "card and seed", "cards and seeds")}. ` +
        "Rows: an agent's long less its short, blue to orange. " +
        (moves.length ? "Bottom: move of the price from that close to the next." : ""),
      height: 250 + 18 * agents.length,
      rows: all.map((one, at) => ({...one, move: moves[at]?.move})),
      tall: 18 * agents.length,
      cells,
      agents,
      shares,
      sides: SIDES.map(([, side]) => side),
      moves: moves.length ? moves : null,
      look({width}) {
        const labels = width < 600 ? 80 : 140;
        const every = Math.ceil(days.length / Math.max(2, (width - labels) / 85));
        const isTick = (_, at) => at % every === 0 && at < days.length - every / 2;
        const last = {title: null, labelAngle: 0, values: days.filter(isTick)};
        return {
          plot: width - labels - 16,
          last,
          middle: moves.length ? null : last,
          left: {minExtent: labels, maxExtent: labels, labelLimit: labels - 8, title: null},
        };
      },
    });
  }

  kt.arena({
    needs: "ama_gap_to_buy_and_hold",
    lead: "Agent Market Arena: a decision a day, BUY, SELL or HOLD, on one stock or coin.",
    facets: [
      ["Asset", ({task_config: config, task}) => (config?.assets || [task]).join(", ")],
      ["Rules and fees", rulesOf],
    ],
    reference: {name: "Buy & Hold", of: (frame) => frame.asset},
    figures: /^ama_/,
    sections: (view) => {
      const [days, gap, voted] = [el("div"), el("div"), el("div")];
      return [
        {
          title: "Ahead of Buy & Hold",
          element: el("div.beside", days, gap),
          words:
            "Bars: median over the cards of an agent; strokes: its cards. Figures of the cards, " +
            "after fees.",
          draw() {
            kt.arena.bars(days, view, "ama_days_above_buy_and_hold", {
              title: "Days above Buy & Hold",
              description: "Share of days.",
              axis: ".0%",
            });
            kt.arena.bars(gap, view, "ama_gap_to_buy_and_hold", {
              title: "Mean daily gap to Buy & Hold",
              description: "Return since the start, less that of Buy & Hold.",
              axis: "+.1%",
            });
          },
        },
        {
          title: "Votes",
          element: voted,
          words:
            "A decision is a position: BUY is long, SELL is short or, in long-only tasks, " +
            "nothing; where HOLD keeps, a position lasts until the " +
            "opposite decision and counts on each day. Records have no sentiment of the news, so " +
            "the move of the price stands beneath.",
          draw: () => votes(voted, view),
        },
      ];
    },
  });
})();
