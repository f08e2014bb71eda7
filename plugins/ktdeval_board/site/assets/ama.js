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
    const sides = [
      ["long", "long"],
      ["none", "nothing"],
      ["short", "short"],
    ];
    const days = view.frame.days.slice(0, -1);
    const moves = view.frame.asset
      ? days.map((day, at) => ({day, move: view.frame.asset[at + 1] / view.frame.asset[at] - 1}))
      : [];
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
    kt.charts.draw(
      element,
      ({colors, rule, muted, ink, width}) => {
        const labels = width < 600 ? 80 : 140;
        const every = Math.ceil(days.length / Math.max(2, (width - labels) / 85));
        const x = (isLast) => ({
          field: "day",
          type: "ordinal",
          scale: {domain: days, paddingInner: 0.12},
          axis: isLast
            ? {
                title: null,
                labelAngle: 0,
                values: days.filter((day, at) => at % every === 0 && at < days.length - every / 2),
              }
            : null,
        });
        const left = {minExtent: labels, maxExtent: labels, labelLimit: labels - 8, title: null};
        const tips = (pairs) =>
          pairs.map(([field, title, form]) => ({
            field,
            title,
            type: form ? "quantitative" : "nominal",
            format: form,
          }));
        const spread = all.flatMap((one) =>
          sides.map(([key, side], order) => ({day: one.day, side, order, share: one[key] / one.n})),
        );
        return {
          spacing: 10,
          resolve: {scale: {color: "independent"}},
          vconcat: [
            {
              width: width - labels - 16,
              height: 110,
              data: {values: spread},
              mark: {type: "bar"},
              encoding: {
                x: x(false),
                y: {
                  field: "share",
                  type: "quantitative",
                  scale: {domain: [0, 1]},
                  axis: {...left, format: ".0%"},
                },
                order: {field: "order", type: "quantitative"},
                color: {
                  field: "side",
                  type: "nominal",
                  legend: {symbolType: "square"},
                  scale: {
                    domain: sides.map(([, side]) => side),
                    range: [colors[0], rule, colors[1]],
                  },
                },
                tooltip: tips([
                  ["day", "Day"],
                  ["side", "After the decision"],
                  ["share", "Share", ".0%"],
                ]),
              },
            },
            {
              width: width - labels - 16,
              height: 18 * agents.length,
              data: {values: cells},
              mark: {type: "rect"},
              encoding: {
                x: x(!moves.length),
                y: {
                  field: "agent",
                  type: "nominal",
                  sort: agents,
                  axis: {...left, labelColor: ink},
                },
                color: {
                  field: "net",
                  type: "quantitative",
                  legend: null,
                  scale: {
                    domain: [-1, 0, 1],
                    range: [colors[1], rule, colors[0]],
                    interpolate: "rgb",
                  },
                },
                tooltip: tips([
                  ["agent", "Agent"],
                  ["day", "Day"],
                  ["long", "Long"],
                  ["none", "No position"],
                  ["short", "Short"],
                ]),
              },
            },
            ...(moves.length
              ? [
                  {
                    width: width - labels - 16,
                    height: 80,
                    data: {values: moves},
                    mark: {type: "bar"},
                    encoding: {
                      x: x(true),
                      y: {field: "move", type: "quantitative", axis: {...left, ...kt.charts.percentAxis({signed: true})}},
                      color: {condition: {test: "datum.move < 0", value: colors[1]}, value: muted},
                      tooltip: tips([
                        ["day", "From the close of"],
                        ["move", "Price to the next close", "+.2%"],
                      ]),
                    },
                  },
                ]
              : []),
          ],
        };
      },
      {
        title: "Votes by day: what entrants hold after their decision",
        description:
          `Top: share of ${plural(all[0].n, "card and seed", "cards and seeds")}. ` +
          "Rows: an agent's long less its short, blue to orange. " +
          (moves.length ? "Bottom: move of the price from that close to the next." : ""),
        height: 250 + 18 * agents.length,
        columns: [
          ["Day", ""],
          ["Long", "count"],
          ["No position", "count"],
          ["Short", "count"],
          ["Orders to buy", "count"],
          ["Orders to sell", "count"],
          ["Price to the next close", "fraction"],
        ],
        rows: all.map((one, at) => [
          one.day,
          one.long,
          one.none,
          one.short,
          one.buy,
          one.sell,
          moves[at]?.move ?? null,
        ]),
      },
    );
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
      const [days, gap, voted] = [el("div", {}), el("div", {}), el("div", {})];
      return [
        {
          title: "Ahead of Buy & Hold",
          element: el("div.beside", {}, days, gap),
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
