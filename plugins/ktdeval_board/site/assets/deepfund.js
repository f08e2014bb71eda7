// DeepFund: ranking, funds over the market's index, what portfolios hold, and agents side by side.
"use strict";

(() => {
  const {el, format, known, plural, state} = kt;
  const FIGURES = /^(total_return|max_drawdown|turnover|hhi|df_)/;
  const LAB = [
    "total_return",
    "df_sharpe",
    "max_drawdown",
    "df_win_rate",
    "df_effectiveness",
    "turnover",
    "parse_failure_rate",
    "abstention_rate",
  ];

  const ofAgent = (view, agent) => view.cards.filter(({row}) => view.agentOf(row) === agent);
  const agentsOf = (view) => view.agents.filter((agent) => ofAgent(view, agent).length);

  /** Sum of counts by name. */
  function added(counts) {
    const sums = {};
    for (const one of counts)
      for (const [name, n] of Object.entries(one)) sums[name] = (sums[name] || 0) + n;
    return sums;
  }

  // -- portfolios

  function holdings(element, view) {
    const cells = agentsOf(view).flatMap((agent) => {
      const cards = ofAgent(view, agent);
      const sums = added(cards.map(({curve}) => curve.held));
      const held = Object.entries(sums).map(([asset, sum]) => ({
        agent,
        asset,
        weight: sum / cards.length,
      }));
      return [
        ...held,
        {agent, asset: "cash", weight: 1 - held.reduce((sum, {weight}) => sum + weight, 0)},
      ];
    });
    const assets = [...new Set(cells.map(({asset}) => asset).filter((asset) => asset !== "cash"))]
      .sort(kt.table.compare)
      .concat("cash");
    kt.charts.figure(element, "weights", {
      title: "Mean weights by agent",
      description: "Share of the NAV at the close, over days, cards and seeds.",
      rows: cells.map((one) => ({...one, shown: format.percent(one.weight, 1)})),
      assets,
      ends: [0, Math.max(...cells.map(({weight}) => weight), 0.01)],
      height: 28 * agentsOf(view).length,
      look: ({width}) => ({labels: width < 420 ? 80 : 150}),
    });
  }

  function portfolio(element, view) {
    const chosen = view.cards.find(({row}) => row.card === state.get("card")) || view.cards[0];
    const field = state.choice({
      label: "Portfolio of",
      name: "card",
      options: view.cards.map(({row}) => [row.card, row.label]),
      value: chosen.row.card,
      also: {day: "", seed: ""},
    });
    const own = {entry: {id: chosen.row.card, has_decisions: true}};
    kt.replace(
      element,
      el("div.pickers", field.element),
      kt.portfolio.section(own, (id, title, ...parts) => el("div", parts)),
    );
    return own;
  }

  // -- agents side by side

  /** Shares of counts in rows; kinds: [[name of the count, title, colour of a theme], …]. */
  function shares(element, rows, kinds, {title, description}) {
    const named = rows
      .map((row) => ({
        ...row,
        total: kinds.reduce((sum, [kind]) => sum + (row.counts[kind] || 0), 0),
      }))
      .filter(({total}) => total);
    const parts = named.flatMap(({name, counts, total}) =>
      kinds.map(([kind, word], order) => {
        const n = counts[kind] || 0;
        return {name, kind: word, order, n, share: n / total};
      }),
    );
    const words = kinds.map(([, word]) => word);
    kt.charts.figure(element, "shares", {
      title,
      description,
      parts,
      kinds: words,
      names: named.map(({name}) => name),
      height: 26 * named.length,
      look: (theme) => ({
        labels: theme.width < 420 ? 110 : 220,
        columns: theme.width < 420 ? 2 : 4,
        paints: kinds.map(([, , paint]) => paint(theme)),
      }),
      table: {
        columns: [["", ""], ...words.map((word) => [word, "count"])],
        rows: named.map(({name, counts}) => [name, ...kinds.map(([kind]) => counts[kind] || 0)]),
      },
    });
  }

  const [BLUE, GREY, ORANGE, DARK] = [
    ({colors}) => colors[0],
    ({rule}) => rule,
    ({colors}) => colors[1],
    ({muted}) => muted,
  ];

  function decisions(element, view) {
    const assets = view.division.task_config?.assets?.length || 0;
    const rows = agentsOf(view).map((agent) => {
      const cards = ofAgent(view, agent);
      const counts = added(cards.map(({curve}) => curve.orders));
      const all =
        cards.reduce((sum, {curve}) => sum + curve.seeds, 0) *
        (view.frame.days.length - 1) *
        assets;
      return {
        name: agent,
        counts: {
          ...counts,
          hold: Math.max(0, all - Object.values(counts).reduce((sum, n) => sum + n, 0)),
        },
      };
    });
    shares(
      element,
      rows,
      [
        ["BUY", "buy", BLUE],
        ["hold", "hold", GREY],
        ["SELL", "sell", ORANGE],
        ["unfilled", "not filled", DARK],
      ],
      {
        title: "Decisions",
        description:
          "Of each asset on each day: a filled order, an order of which nothing was filled, or " +
          "none (hold).",
      },
    );
  }

  function signals(element, view) {
    const rows = agentsOf(view).flatMap((agent) => {
      const roles = new Map();
      for (const {curve} of ofAgent(view, agent)) {
        for (const [role, counts] of Object.entries(curve.signals))
          roles.set(role, [...(roles.get(role) || []), counts]);
      }
      return [...roles].map(([role, counts]) => ({
        name: `${agent} · ${role}`,
        counts: added(counts),
      }));
    });
    if (!rows.length) {
      return kt.replace(
        element,
        el(
          "p.empty",
          "No signals: no agent here is a team whose analysts give signals (deepfund and " +
            "hedge_fund are).",
        ),
      );
    }
    return shares(
      element,
      rows,
      [
        ["Bullish", "Bullish", BLUE],
        ["Neutral", "Neutral", GREY],
        ["Bearish", "Bearish", ORANGE],
        ["no_signal", "none to read", DARK],
      ],
      {title: "Signals", description: "Of each analyst on each asset shown on each day."},
    );
  }

  function lab(view) {
    const names = LAB.filter(
      (name) => view.table.columns.includes(name) && Object.hasOwn(view.board.metrics, name),
    );
    const agents = [...new Set(view.rows.filter((row) => row.card).map(view.agentOf))];
    const {of: table, right} = kt.table;
    const rowsOf = (agent) => view.rows.filter((row) => row.card && view.agentOf(row) === agent);
    const median = (agent, name) =>
      view.median(
        rowsOf(agent)
          .map((row) => view.figure(row, name))
          .filter(known),
      );
    const figureColumn = (name) => {
      const {title, unit, description} = view.board.metrics[name];
      const cell = (agent) => format.cell(median(agent, name), unit, "not defined", {bare: true});
      return [right([title, " ", format.unit(unit)], description), cell];
    };
    return table("Agents: medians over their cards", agents, [
      ["Agent", (agent) => agent],
      [right("Cards"), (agent) => String(rowsOf(agent).length)],
      [right("Models"), (agent) => String(new Set(rowsOf(agent).map(({model}) => model)).size)],
      ...names.map(figureColumn),
    ]);
  }

  let open = null;
  state.onChange(() => open && kt.portfolio.refresh(open));
  kt.arena({
    needs: "df_effectiveness",
    lead: "DeepFund: a fund of a few stocks, long only, a decision on each of them a day.",
    facets: [
      ["Fund", ({task_config: config, task}) => (config?.assets || [task]).join(", ")],
      ["Rules", ({mask, rules}) => `${mask} · ${rules} figures`],
    ],
    reference: {name: "the index", of: (frame) => frame.benchmark},
    figures: FIGURES,
    sections: (view) => {
      const [alpha, beta, mean, own, made, told] = Array.from({length: 6}, () => el("div"));
      const market = kt.address.market(view.division.snapshot);
      return [
        {
          title: "Market comparison",
          element: el("div.beside", alpha, beta),
          words: view.frame.benchmark
            ? [
                "Bars: median over the cards of an agent; strokes: its cards. ",
                el("a", {href: market}, "The index by window"),
              ]
            : "The market has no index, so funds have no alpha or beta.",
          draw() {
            if (!view.frame.benchmark) return;
            kt.arena.bars(alpha, view, "df_alpha", {
              title: "Alpha",
              description: "A year.",
              axis: "+.0%",
            });
            kt.arena.bars(beta, view, "df_beta", {
              title: "Beta",
              description: "Against the index.",
              axis: ".1f",
              unit: "ratio",
            });
          },
        },
        {
          title: "Portfolio analysis",
          element: el("div", mean, own),
          words: "Holdings, allocation and orders of one card by day, with the model's reasons.",
          draw() {
            holdings(mean, view);
            open = portfolio(own, view);
          },
        },
        {
          title: "Agent lab",
          element: el("div", lab(view), el("div.beside", made, told)),
          words: [
            `${plural(agentsOf(view).length, "agent")} side by side. `,
            el("a", {href: kt.address.task(view.division.id)}, "Run an agent of your own"),
          ],
          draw() {
            decisions(made, view);
            signals(told, view);
          },
        },
      ];
    },
  });
})();
