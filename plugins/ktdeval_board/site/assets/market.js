// A market of the board: its benchmark over the windows, what kind of market each was, and how
// entrants did beside it.
"use strict";

(() => {
  const {el, replace, state, format, plural, section, known} = kt;
  const {right} = kt.table;
  const LOADED_UNASKED = 300; // entrants; each window is a file of its own

  function levels(market) {
    return market.days
      .map((day, place) => ({day, level: market.benchmark[place]}))
      .filter(({level}) => level !== null);
  }

  /** The names of overlapping windows stand on lines of their own, so that each can be read. */
  function lanes(windows) {
    const ends = [];
    return windows.map((one) => {
      let lane = ends.findIndex((end) => end < one.first);
      if (lane < 0) lane = ends.length;
      ends[lane] = one.last;
      return {...one, lane};
    });
  }

  function benchmarkChart(element, market) {
    const values = levels(market);
    if (!values.length) return replace(element, el("p", "This market has no benchmark."));
    const windows = lanes(market.windows);
    const spans = windows.map(({name, first, last, lane}) => ({
      name,
      first: Date.parse(first),
      last: Date.parse(last),
      at: 8 + 13 * lane,
    }));
    return kt.charts.figure(element, "benchmark", {
      title: `${market.snapshot.benchmark_name || "Benchmark"}, closing level`,
      description:
        `Shaded: ${plural(windows.length, "window")} of the board; where they ` +
        `overlap the shade is deeper.`,
      rows: values.map(({day, level}) => ({date: day, day: Date.parse(day), level})),
      days: kt.charts.dayAxis(values.map(({day}) => day)),
      spans,
    });
  }

  const REGIME = {bull: "good", bear: "bad", volatile: "warn"};

  function regimes(market) {
    const figure = (name, unit, options) => (one) =>
      format.cell(one[name], unit, "no benchmark", options);
    return section(
      "Regimes",
      el(
        "p.quiet",
        market.regime_rule ? `By this rule: ${market.regime_rule}. ` : "",
        "Figures of the benchmark; volatility and Sharpe ratio are those of a year.",
      ),
      kt.table.of("Windows of this market", market.windows, [
        ["Window", (one) => one.name],
        ["First day", (one) => one.first],
        ["Last day", (one) => one.last],
        [right("Days"), (one) => String(one.days)],
        ["Regime", ({regime}) => kt.chip(regime, REGIME[regime] || "")],
        [right("Return"), figure("total_return", "fraction", {signed: true})],
        [right("Volatility"), figure("volatility", "fraction")],
        [right("Sharpe ratio"), figure("sharpe", "ratio")],
        [right("Maximum drawdown"), figure("max_drawdown", "fraction")],
      ]),
    );
  }

  // -- entrants beside the benchmark

  const quantile = (sorted, share) => {
    const at = (sorted.length - 1) * share;
    const low = Math.floor(at);
    return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (at - low);
  };

  function summary(window, table) {
    const place = table.columns.indexOf("total_return");
    const ranked = table.rows.filter(
      (row) => row.baseline === null && row.ranked && known(row.values[place]),
    );
    const market = table.rows.find((row) => row.baseline === "benchmark");
    const benchmark = market ? market.values[place] : null;
    const sorted = ranked.map((row) => row.values[place]).sort((one, other) => one - other);
    const best = ranked.reduce(
      (one, other) => (one === null || other.values[place] > one.values[place] ? other : one),
      null,
    );
    return {
      window: window.name,
      benchmark,
      best,
      n: sorted.length,
      bestValue: best ? best.values[place] : null,
      median: sorted.length ? quantile(sorted, 0.5) : null,
      low: sorted.length ? quantile(sorted, 0.25) : null,
      high: sorted.length ? quantile(sorted, 0.75) : null,
      ahead:
        sorted.length && known(benchmark)
          ? sorted.filter((value) => value > benchmark).length / sorted.length
          : null,
    };
  }

  function comparisonChart(element, found) {
    kt.charts.figure(element, "entrants", {
      title: "Return by window: entrants and benchmark",
      description:
        "Bars: the middle half of ranked entrants; line: their median; diamond: the benchmark, " +
        "bought and held.",
      rows: found.map(({window, benchmark, median, low, high}) => ({
        window,
        benchmark,
        median,
        low,
        high,
      })),
      look: ({width}) => ({angle: width < 480 ? -90 : 0}),
    });
  }

  async function compare(division, element) {
    const scopes = division.scopes.slice(1);
    const tables = await Promise.all(
      scopes.map((scope) => kt.load(`division/${division.id}/${scope}`)),
    );
    const found = tables.map((table, place) => summary(division.windows[place], table));
    const chart = el("div");
    const percent = (value) => format.cell(value, "fraction", "not known", {signed: true});
    replace(
      element,
      chart,
      kt.table.of("Ranked entrants and the benchmark by window", found, [
        ["Window", ({window}) => window],
        [right("Benchmark"), ({benchmark}) => percent(benchmark)],
        [right("Median entrant"), ({median}) => percent(median)],
        [
          right("Ahead of the benchmark"),
          ({ahead, n}) => (ahead === null ? "" : `${format.percent(ahead, 0)} of ${n}`),
        ],
        [right("Best"), ({bestValue}) => percent(bestValue)],
        [
          "Best entrant",
          ({best}) => best && kt.modelLink(best.model, best.label, {division: division.id}),
        ],
      ]),
    );
    if (found.length > 1) comparisonChart(chart, found);
  }

  function comparison(divisions) {
    const division = divisions.find(({id}) => id === state.get("division")) || divisions[0];
    const field = kt.taskField(divisions, division);
    const element = el("div");
    const load = () =>
      compare(division, element).catch((error) => replace(element, el("p.trouble", error.message)));
    if (division.entrants > LOADED_UNASKED)
      replace(
        element,
        kt.button(`Compare ${plural(division.entrants, "entrant")}`, load, {class: "small"}),
      );
    else load();
    return section("Entrants beside the market", el("div.pickers", field.element), element);
  }

  // -- the page

  function facts(snapshot) {
    return kt.facts([
      ["Name", snapshot.name],
      ["Id", el("code", `${snapshot.id.slice(0, 12)}…`)],
      ["Kind", snapshot.synthetic ? "synthetic: generated from a seed" : "recorded"],
      ["Source", snapshot.source],
      ["Benchmark", [snapshot.benchmark_name, snapshot.benchmark].filter(Boolean).join(" · ")],
      ["Assets", known(snapshot.assets) ? format.count(snapshot.assets) : ""],
      ["First day", snapshot.first_day],
      ["Last day", snapshot.last_day],
    ]);
  }

  async function hasMarket(snapshot, divisions) {
    if (snapshot.has_market !== undefined) return snapshot.has_market;
    const index = await kt.load("cards-index");
    const [of, tier] = [index.columns.indexOf("division"), index.columns.indexOf("tier")];
    const ids = new Set(divisions.map(({id}) => id));
    return index.rows.some(
      (row) => ids.has(row[of]) && (row[tier] === "re-executed" || row[tier] === "re-run"),
    );
  }

  async function show(board, main) {
    const snapshot =
      board.snapshots.find(({name}) => name === state.get("snapshot")) || board.snapshots[0];
    const divisions = board.divisions.filter(
      (one) => one.snapshot === snapshot.name && one.kind === "trading",
    );
    const market = (await hasMarket(snapshot, divisions))
      ? await kt.load(`market/${snapshot.name}`)
      : null;
    const choice = state.choice({
      label: "Market",
      name: "snapshot",
      options: board.snapshots.map(({name}) => [name, name]),
      value: snapshot.name,
      also: {division: ""},
    });
    choice.element.hidden = board.snapshots.length < 2;
    const chart = el("div");
    replace(kt.byId("title"), `Market ${snapshot.name}`);
    replace(
      main,
      el("div.pickers", choice.element),
      facts(snapshot),
      chart,
      market
        ? regimes(market)
        : el("p.empty", "Its figures are shown once the check has executed a card of it again."),
      divisions.length ? comparison(divisions) : null,
    );
    if (market) benchmarkChart(chart, market);
  }

  kt.page(async (main) => {
    const board = await kt.load("board");
    state.onChange(() => show(board, main).catch(kt.fail));
    await show(board, main);
  });
})();
