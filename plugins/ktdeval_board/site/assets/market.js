// A market of the board: its benchmark over the windows, what kind of market each was, and how
// entrants did beside it.
"use strict";

(() => {
  const {el, replace, state, format, plural, section, known} = kt;
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
    if (!values.length) return replace(element, el("p", {}, "This market has no benchmark."));
    const windows = lanes(market.windows);
    const days = kt.charts.dayAxis(values.map(({day}) => day));
    const spans = windows.map((one) => ({
      ...one,
      first: Date.parse(one.first),
      last: Date.parse(one.last),
      at: 8 + 13 * one.lane,
    }));
    const height = 260;
    return kt.charts.draw(
      element,
      ({colors, muted, ink}) => ({
        height,
        layer: [
          {
            data: {values: spans},
            mark: {type: "rect", color: colors[0], opacity: 0.16, tooltip: null},
            encoding: {x: {...days, field: "first"}, x2: {field: "last"}},
          },
          {
            data: {values: spans},
            mark: {
              type: "text",
              align: "left",
              baseline: "top",
              dx: 2,
              fontSize: 10.5,
              color: muted,
              tooltip: null,
            },
            encoding: {
              x: {...days, field: "first"},
              y: {field: "at", type: "quantitative", scale: null, axis: null},
              text: {field: "name", type: "nominal"},
            },
          },
          {
            data: {values: values.map(({day, level}) => ({day: Date.parse(day), level}))},
            mark: {type: "line", strokeWidth: 1.6, color: ink},
            encoding: {
              x: days,
              y: {
                field: "level",
                type: "quantitative",
                scale: {zero: false, nice: true},
                axis: {title: null, format: ",.0f"},
              },
            },
          },
        ],
        resolve: {scale: {y: "independent"}},
      }),
      {
        title: `${market.snapshot.benchmark_name || "Benchmark"}, closing level`,
        description:
          `Shaded: ${plural(windows.length, "window")} of the board; where they ` +
          `overlap the shade is deeper.`,
        columns: [
          ["Day", ""],
          ["Level", "score"],
        ],
        rows: values.map(({day, level}) => [day, level]),
        height: height + 40,
      },
    );
  }

  const REGIME = {bull: "good", bear: "bad", volatile: "warn"};

  function regimes(market) {
    const rows = market.windows.map((one) => [
      one.name,
      one.first,
      one.last,
      String(one.days),
      kt.chip(one.regime, REGIME[one.regime] || ""),
      format.cell(one.total_return, "fraction", "no benchmark", {signed: true}),
      format.cell(one.volatility, "fraction", "no benchmark"),
      format.cell(one.sharpe, "ratio", "no benchmark"),
      format.cell(one.max_drawdown, "fraction", "no benchmark"),
    ]);
    return section(
      "Regimes",
      el(
        "p.quiet",
        {},
        market.regime_rule ? `By this rule: ${market.regime_rule}. ` : "",
        "Figures of the benchmark; volatility and Sharpe ratio are those of a year.",
      ),
      kt.table.plain({
        caption: "Windows of this market",
        rows,
        head: [
          "Window",
          "First day",
          "Last day",
          {text: "Days", n: true},
          "Regime",
          {text: "Return", n: true},
          {text: "Volatility", n: true},
          {text: "Sharpe ratio", n: true},
          {text: "Maximum drawdown", n: true},
        ],
      }),
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
    const windows = found.map(({window}) => window);
    const shown = found.filter(({median}) => median !== null);
    kt.charts.draw(
      element,
      ({colors, muted, ink, width}) => {
        const x = {
          field: "window",
          type: "nominal",
          sort: windows,
          axis: {title: null, labelAngle: width < 480 ? -90 : 0},
        };
        const y = (field) => ({
          field,
          type: "quantitative",
          axis: {...kt.charts.percentAxis({signed: true}), title: null},
        });
        return {
          height: 240,
          layer: [
            {
              data: {values: [{zero: 0}]},
              mark: {type: "rule", color: muted, strokeWidth: 0.8},
              encoding: {y: {field: "zero", type: "quantitative"}},
            },
            {
              data: {values: shown.map(({window, low, high}) => ({window, low, high}))},
              mark: {type: "bar", color: colors[0], opacity: 0.3, width: 22},
              encoding: {x, y: y("low"), y2: {field: "high"}},
            },
            {
              data: {values: shown.map(({window, median}) => ({window, median}))},
              mark: {type: "tick", color: colors[0], thickness: 3, width: 22},
              encoding: {x, y: y("median")},
            },
            {
              data: {
                values: found
                  .filter(({benchmark}) => known(benchmark))
                  .map(({window, benchmark}) => ({window, benchmark})),
              },
              mark: {
                type: "point",
                shape: "diamond",
                filled: true,
                size: 90,
                color: ink,
                opacity: 1,
              },
              encoding: {x, y: y("benchmark")},
            },
          ],
        };
      },
      {
        title: "Return by window: entrants and benchmark",
        height: 300,
        description:
          "Bars: the middle half of ranked entrants; line: their median; diamond: the benchmark, " +
          "bought and held.",
        columns: [
          ["Window", ""],
          ["Benchmark", "fraction"],
          ["Median", "fraction"],
          ["Lower quartile", "fraction"],
          ["Upper quartile", "fraction"],
        ],
        rows: found.map((one) => [one.window, one.benchmark, one.median, one.low, one.high]),
      },
    );
  }

  async function compare(division, element) {
    const scopes = division.scopes.slice(1);
    const tables = await Promise.all(
      scopes.map((scope) => kt.load(`division/${division.id}/${scope}`)),
    );
    const found = tables.map((table, place) => summary(division.windows[place], table));
    const chart = el("div", {});
    const percent = (value) => format.cell(value, "fraction", "not known", {signed: true});
    replace(
      element,
      chart,
      kt.table.plain({
        caption: "Ranked entrants and the benchmark by window",
        head: [
          "Window",
          {text: "Benchmark", n: true},
          {text: "Median entrant", n: true},
          {text: "Ahead of the benchmark", n: true},
          {text: "Best", n: true},
          "Best entrant",
        ],
        rows: found.map((one) => [
          one.window,
          percent(one.benchmark),
          percent(one.median),
          one.ahead === null ? "" : `${format.percent(one.ahead, 0)} of ${one.n}`,
          percent(one.bestValue),
          one.best ? kt.modelLink(one.best.model, one.best.label, {division: division.id}) : "",
        ]),
      }),
    );
    if (found.length > 1) comparisonChart(chart, found);
  }

  function comparison(divisions) {
    const division = divisions.find(({id}) => id === state.get("division")) || divisions[0];
    const choice = kt.controls.choice({
      label: "Task",
      options: divisions.map(({id, task, version}) => [
        id,
        `${kt.words(task)} · version ${version}`,
      ]),
      onChange: (id) => state.set({division: id}),
    });
    choice.set(division.id);
    const element = el("div", {});
    const load = () =>
      compare(division, element).catch((error) =>
        replace(element, el("p.trouble", {}, error.message)),
      );
    if (division.entrants > LOADED_UNASKED)
      replace(
        element,
        kt.button(`Compare ${plural(division.entrants, "entrant")}`, load, {class: "small"}),
      );
    else load();
    return section("Entrants beside the market", el("div.pickers", {}, choice.element), element);
  }

  // -- the page

  function facts(snapshot) {
    return kt.facts([
      ["Name", snapshot.name],
      ["Id", el("code", {}, `${snapshot.id.slice(0, 12)}…`)],
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
    const choice = kt.controls.choice({
      label: "Market",
      options: board.snapshots.map(({name}) => [name, name]),
      onChange: (name) => state.set({snapshot: name, division: ""}),
    });
    choice.set(snapshot.name);
    choice.element.hidden = board.snapshots.length < 2;
    const chart = el("div", {});
    replace(kt.byId("title"), `Market ${snapshot.name}`);
    replace(
      main,
      el("div.pickers", {}, choice.element),
      facts(snapshot),
      chart,
      market
        ? regimes(market)
        : el(
            "p.empty",
            {},
            "Its figures are shown once the check has executed a card of it again.",
          ),
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
