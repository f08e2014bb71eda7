/* Charts of one card or of two, in terms of kt.charts.draw (charts.js); loaded by the pages that
show them.

kt.charts.windows(element, rows, {title, unit, lower})
    rows: [{window, values: [by seed], benchmark}]
kt.charts.attribution(element, episode)
    cumulated lines of the data `series/<id>` that add up to the return
kt.charts.factors(element, card)
    every line of the attribution with its interquartile range over episodes
kt.charts.exposures(element, episodes)
    mean exposure to each style factor, a mark for each episode
kt.charts.calibration(element, calibration)
    reliability diagram with the Wilson intervals of kt.charts.wilson(share, n)
kt.charts.envelope(element, episodes)
    share of random traders that each episode beats
kt.charts.effects(element, rows, title)
    mask effects with their intervals
kt.charts.multiples(element, episodes, {title, gross})
    all windows at a glance
kt.charts.holdings(element, day)
    weights at the close of one day
kt.charts.allocation(element, steps)
    weights over time: the largest names, the others, cash
kt.charts.differences(element, rows, unit)
    differences by window, each seed a mark */
"use strict";

(() => {
  const {format, known} = kt;
  const {few, intervals, perRow, tooltip, valueAxis: axis} = kt.charts;
  const FACTORS = {
    MOM_12_1: "momentum, 12 less 1 month",
    RV_60: "volatility, 60 days",
    ILLIQ: "illiquidity (Amihud)",
    REV_ON: "overnight return",
    MOM_ID: "intraday momentum",
    SKEW: "negative skewness",
    CORR_PV: "volume-return correlation",
    HIGH_52W: "nearness to 52-week high",
    CV_VOL: "variation of traded amount",
  };
  const LINES = {
    common: "market (common)",
    industry: "industries",
    selection: "selection",
    timing: "timing of fills",
    fees: "fees",
    rounding: "rounding of money",
  };
  const factorTitle = (name) =>
    Object.hasOwn(FACTORS, name)
      ? FACTORS[name]
      : Object.hasOwn(LINES, name)
        ? LINES[name]
        : kt.words(name);
  const quiet = {title: null};

  function windows(element, rows, {title, description, unit = "fraction", height = 210}) {
    const order = rows.map((row) => row.window);
    const seeds = rows.flatMap((row) =>
      row.values
        .filter(known)
        .map((value) => ({window: row.window, value, say: format.value(value, unit)})),
    );
    const middles = rows
      .map((row) => ({
        window: row.window,
        value: kt.stats.median(row.values.filter(known)),
        benchmark: row.benchmark,
      }))
      .map((row) => ({
        ...row,
        say: format.value(row.value, unit),
        index: format.value(row.benchmark, unit),
      }));
    const hasIndex = rows.some((row) => known(row.benchmark));
    const x = {
      field: "window",
      type: "nominal",
      sort: order,
      axis: {...quiet, labelAngle: 0, labelOverlap: true},
    };
    const y = (field) => ({
      field,
      type: "quantitative",
      scale: {zero: unit === "fraction", padding: 8},
      axis: {...axis(unit), title: null},
    });
    const spec = ({colors, muted, ink}) => ({
      height,
      layer: [
        {
          data: {values: [{zero: 0}]},
          mark: {type: "rule", color: muted, strokeWidth: unit === "fraction" ? 0.8 : 0},
          encoding: {y: {...y("zero")}},
        },
        {
          data: {values: middles.filter((row) => known(row.benchmark))},
          mark: {type: "tick", color: muted, thickness: 2, width: {band: 0.7}, tooltip: true},
          encoding: {
            x,
            y: y("benchmark"),
            tooltip: tooltip(["window", "Window"], ["index", "Benchmark"]),
          },
        },
        {
          data: {values: seeds},
          mark: {type: "point", color: colors[0], opacity: 0.55, size: 40, tooltip: true},
          encoding: {x, y: y("value"), tooltip: tooltip(["window", "Window"], ["say", "One seed"])},
        },
        {
          data: {values: middles.filter((row) => known(row.value))},
          mark: {type: "tick", color: ink, thickness: 3, width: {band: 0.45}, tooltip: true},
          encoding: {
            x,
            y: y("value"),
            tooltip: tooltip(
              ["window", "Window"],
              ["say", "Median over seeds"],
              ["index", "Benchmark"],
            ),
          },
        },
      ],
    });
    return kt.charts.draw(element, spec, {
      title,
      description:
        description ||
        `Each dot is a seed, the thick bar the median of a ` +
          `window${hasIndex ? ", the thin bar the benchmark" : ""}.`,
      height: height + 40,
      columns: [
        ["Window", ""],
        ["Median", unit],
        ...(hasIndex ? [["Benchmark", unit]] : []),
        ["Seeds", ""],
      ],
      rows: middles.map((row, at) => [
        row.window,
        row.value,
        ...(hasIndex ? [row.benchmark ?? null] : []),
        format.list(rows[at].values.map((value) => format.value(value, unit))),
      ]),
    });
  }

  function attribution(element, episode, options = {}) {
    const days = [episode.base_day, ...episode.days];
    const line = (label, values, more) => ({
      label,
      ...more,
      points: days.map((day, at) => [day, at ? values[at - 1] : 0]),
    });
    const total = episode.nav.map((value) => value - 1);
    return kt.charts.lines(
      element,
      [
        line("total return", total.slice(1), {thick: true}),
        line("market (common)", episode.common),
        ...(episode.industry ? [line("industries", episode.industry)] : []),
        line("style factors", episode.style),
        line("selection", episode.selection),
        line("trading (timing, fees)", episode.trading),
      ],
      {
        title: "Where the return comes from",
        description:
          "Contributions since the start, linked so that the parts add up to the total return " +
          "each day.",
        signed: true,
        zero: 0,
        ...options,
      },
    );
  }

  function factors(element, card) {
    const given = card.attribution.value.lines;
    const [, ...last] = Object.keys(LINES);
    const names = [
      "common",
      ...Object.keys(given).filter((name) => !Object.hasOwn(LINES, name)),
      ...last,
    ].filter((name) => given[name]);
    const rows = names
      .filter((name) => known(given[name].value))
      .map((name) => ({
        name: factorTitle(name),
        value: given[name].value,
        low: kt.spread(given[name])?.low,
        high: kt.spread(given[name])?.high,
        kind: Object.hasOwn(LINES, name) ? "whole" : "part",
      }));
    const bounds = format.bounds(names.map((name) => kt.spread(given[name])?.kind));
    return intervals(element, rows, {
      title: "All lines of the attribution",
      bars: true,
      heads: ["Line", "Contribution", bounds],
      description:
        `Median over episodes, with the ${bounds.toLowerCase()}; style factors in a colour of ` +
        `their own. Medians of ` +
        "lines need not add up; those of one episode do.",
    });
  }

  function exposures(element, episodes) {
    const given = episodes.filter((episode) => episode.exposures);
    const names = [...new Set(given.flatMap((episode) => Object.keys(episode.exposures)))];
    const marks = given.flatMap((episode) =>
      names
        .filter((name) => known(episode.exposures[name]))
        .map((name) => ({
          name: factorTitle(name),
          value: episode.exposures[name],
          episode: `${episode.window}, seed ${episode.seed}`,
          say: format.number(episode.exposures[name], 2, true),
        })),
    );
    const middles = names
      .map((name) => ({
        name: factorTitle(name),
        value: kt.stats.median(given.map((episode) => episode.exposures[name]).filter(known)),
      }))
      .filter((row) => known(row.value))
      .sort((one, other) => other.value - one.value);
    const order = middles.map((row) => row.name);
    const y = {
      field: "name",
      type: "nominal",
      sort: order,
      axis: {...quiet, labelLimit: 210, minExtent: 0, labelOverlap: false},
    };
    const x = {
      field: "value",
      type: "quantitative",
      axis: {...axis("ratio"), ...few, title: null, grid: true, domain: false},
    };
    const spec = ({colors, ink, muted}) => ({
      height: perRow(order.length),
      layer: [
        {data: {values: [{value: 0}]}, mark: {type: "rule", color: muted}, encoding: {x}},
        {
          data: {values: marks},
          mark: {type: "point", color: colors[0], opacity: 0.45, size: 32, tooltip: true},
          encoding: {
            x,
            y,
            tooltip: tooltip(["name", "Factor"], ["episode", "Episode"], ["say", "Mean exposure"]),
          },
        },
        {
          data: {values: middles},
          mark: {type: "tick", color: ink, thickness: 3, height: {band: 0.6}},
          encoding: {x, y},
        },
      ],
    });
    return kt.charts.draw(element, spec, {
      title: "Exposure to style factors",
      description:
        "Mean over days, in cross-sectional standard deviations: above 0 the holdings have more " +
        "of it than the market. A dot for each episode, the bar is the median.",
      height: 34 + perRow(order.length),
      columns: [
        ["Factor", ""],
        ["Median exposure", "ratio"],
      ],
      rows: middles.map((row) => [row.name, row.value]),
    });
  }

  /** Wilson's 95 % interval of a share of n (1927). */
  function wilson(share, n) {
    const z = 1.959963984540054;
    const middle = share + (z * z) / (2 * n);
    const half = z * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n));
    return [
      Math.max(0, (middle - half) / (1 + (z * z) / n)),
      Math.min(1, (middle + half) / (1 + (z * z) / n)),
    ];
  }

  function calibration(element, given) {
    const rows = given.bins
      .filter((bin) => bin.n)
      .map((bin) => {
        const [low, high] = wilson(bin.accuracy, bin.n);
        return {
          x: bin.mean_confidence,
          y: bin.accuracy,
          n: bin.n,
          low,
          high,
          say: format.number(bin.mean_confidence, 3),
          right: format.percent(bin.accuracy, 1),
          range: format.range(low, high, "fraction", {digits: 1}),
          count: format.count(bin.n),
        };
      });
    const scale = {domain: [0, 1]};
    const hint = tooltip(
      ["say", "Stated confidence"],
      ["right", "Came out right"],
      ["range", "95 % interval"],
      ["count", "Orders"],
    );
    const y = (field) => ({
      field,
      type: "quantitative",
      scale,
      axis: {title: "share that came out right", format: ".0%", tickCount: 5},
    });
    const x = {
      field: "x",
      type: "quantitative",
      scale,
      axis: {title: "stated confidence", tickCount: 5, grid: true, format: ".1f"},
    };
    const spec = ({colors, muted}) => ({
      height: 260,
      layer: [
        {
          data: {
            values: [
              {x: 0, y: 0},
              {x: 1, y: 1},
            ],
          },
          mark: {type: "line", color: muted, strokeDash: [3, 3], strokeWidth: 1.2},
          encoding: {x, y: y("y")},
        },
        {
          data: {values: rows},
          mark: {type: "rule", color: colors[0], strokeWidth: 1.5},
          encoding: {x, y: y("low"), y2: {field: "high"}},
        },
        {
          data: {values: rows},
          mark: {type: "point", color: colors[0], opacity: 0.9, tooltip: true},
          encoding: {
            x,
            y: y("y"),
            size: {
              field: "n",
              type: "quantitative",
              legend: null,
              scale: {domainMin: 0, range: [20, 420]},
            },
            tooltip: hint,
          },
        },
      ],
    });
    return kt.charts.draw(element, spec, {
      title: "Stated confidence and outcome",
      description:
        `${kt.plural(given.n, "order")} with an outcome, by stated confidence; on the dashed ` +
        `line confidence is what comes true. Larger dots hold more orders.`,
      height: 310,
      columns: [
        ["Stated confidence", "score"],
        ["Came out right", "fraction"],
        ["Low", "fraction"],
        ["High", "fraction"],
        ["Orders", "count"],
      ],
      rows: rows.map((row) => [row.x, row.y, row.low, row.high, row.n]),
    });
  }

  function envelope(element, episodes, order) {
    const rows = episodes
      .filter((episode) => episode.envelope && known(episode.envelope.rank))
      .map((episode) => ({
        window: episode.window,
        value: episode.envelope.rank,
        seed: episode.seed,
        p: episode.envelope.p_value,
        say: format.percent(episode.envelope.rank, 1),
        chance: format.number(episode.envelope.p_value, 3),
        of: format.count(episode.envelope.paths),
        who: `seed ${episode.seed}`,
      }));
    const x = {
      field: "window",
      type: "nominal",
      sort: order,
      axis: {...quiet, labelAngle: 0, labelOverlap: true},
    };
    const y = {
      field: "value",
      type: "quantitative",
      scale: {domain: [0, 1]},
      axis: {title: null, format: ".0%", tickCount: 5},
    };
    const spec = ({colors, muted}) => ({
      height: 170,
      layer: [
        {
          data: {values: [{value: 0.05, high: 0.95}]},
          mark: {type: "rect", color: muted, opacity: 0.13},
          encoding: {y, y2: {field: "high"}},
        },
        {
          data: {values: [{value: 0.5}]},
          mark: {type: "rule", color: muted, strokeDash: [3, 3]},
          encoding: {y},
        },
        {
          data: {values: rows},
          mark: {type: "point", color: colors[0], size: 55, opacity: 0.75, tooltip: true},
          encoding: {
            x,
            y,
            tooltip: tooltip(
              ["window", "Window"],
              ["who", "Episode"],
              ["say", "Beats"],
              ["of", "Random traders"],
              ["chance", "p, no better than chance"],
            ),
          },
        },
      ],
    });
    return kt.charts.draw(element, spec, {
      title: "Share of random traders beaten",
      description:
        "Random traders trade on the same dates, as much and as many names. Chance alone gives " +
        "50 %; nine of ten of them lie in the grey.",
      height: 210,
      columns: [
        ["Window", ""],
        ["Seed", "count"],
        ["Beats", "fraction"],
        ["p", "probability"],
      ],
      rows: rows.map((row) => [row.window, row.seed, row.value, row.p]),
    });
  }

  const effects = (element, rows, title) =>
    intervals(element, rows, {
      title,
      heads: ["Effect", "Difference", "95 % interval"],
      description:
        "Differences between masks, taken within each window and averaged; t interval over " +
        "windows, widened where they share days.",
    });

  /**
   * All episodes at a glance: a small plot for each window, its seeds and the benchmark over the
   * days since the start.
   */
  function multiples(element, episodes, {title, gross = false}) {
    const order = [...new Set(episodes.map((episode) => episode.window))];
    const columnsIn = (width) => {
      const room = width < 600 ? 170 : 215;
      return Math.max(1, Math.min(order.length, Math.floor(width / room)));
    };
    const rowsIn = (width) => Math.ceil(order.length / columnsIn(width));
    const path = (window, who, nav, kind) =>
      nav.map((value, at) => ({window, who, day: at, value: value - 1, kind}));
    const values = order.flatMap((window) => {
      const own = episodes.filter((episode) => episode.window === window);
      const index = own.find((episode) => episode.benchmark);
      return [
        ...own.flatMap((episode) =>
          path(
            window,
            `seed ${episode.seed}`,
            gross ? episode.gross_nav : episode.nav,
            "portfolio",
          ),
        ),
        ...(index ? path(window, "benchmark", index.benchmark, "benchmark") : []),
      ];
    });
    const spec = ({colors, muted, rule, width}) => {
      const columns = columnsIn(width);
      return {
        data: {values},
        columns,
        spacing: {row: 14, column: 12},
        facet: {field: "window", type: "nominal", sort: order, header: {labelPadding: 2}},
        spec: {
          width: Math.floor((width - 50) / columns) - 14,
          height: 92,
          layer: [
            {mark: {type: "rule", color: rule}, encoding: {y: {datum: 0}}},
            {
              mark: {type: "line", strokeWidth: 1.4},
              encoding: {
                x: {
                  field: "day",
                  type: "quantitative",
                  axis: {title: null, tickCount: 3, domain: false, ticks: false},
                },
                y: {
                  field: "value",
                  type: "quantitative",
                  axis: {...axis("fraction"), title: null, tickCount: 3},
                },
                detail: {field: "who"},
                color: {
                  field: "kind",
                  type: "nominal",
                  scale: {domain: ["portfolio", "benchmark"], range: [colors[0], muted]},
                  legend: {orient: "top"},
                },
                strokeDash: {
                  field: "kind",
                  type: "nominal",
                  scale: {
                    domain: ["portfolio", "benchmark"],
                    range: [
                      [1, 0],
                      [2, 2.5],
                    ],
                  },
                },
              },
            },
          ],
        },
        resolve: {scale: {x: "independent"}},
      };
    };
    return kt.charts.draw(element, spec, {
      title,
      description:
        "Each line is a seed, by trading days since the start; all windows to one scale.",
      height: 50 + 140 * rowsIn(element.clientWidth || document.body.clientWidth),
      columns: [
        ["Window", ""],
        ["Episode", ""],
        ["Last", "fraction"],
      ],
      rows: episodes.map((episode) => [
        episode.window,
        `seed ${episode.seed}`,
        (gross ? episode.gross_nav : episode.nav).at(-1) - 1,
      ]),
    });
  }

  function holdings(element, step, title) {
    const held = step.holdings.reduce((total, [, weight]) => total + weight, 0);
    const rows = [
      ...step.holdings.map(([name, weight]) => ({name, value: weight, kind: "whole"})),
      {name: "cash", value: Math.max(0, 1 - held), kind: "part"},
    ];
    const order = rows.map((row) => row.name);
    const hint = tooltip(["name", "Name"], ["say", "Share of the portfolio"]);
    const values = rows.map((row) => ({...row, say: format.percent(row.value)}));
    const spec = ({colors, muted}) => ({
      height: 17 * rows.length + 6,
      data: {values},
      mark: {type: "bar", tooltip: true},
      encoding: {
        y: {
          field: "name",
          type: "nominal",
          sort: order,
          axis: {...quiet, labelLimit: 160, minExtent: 0, labelOverlap: false},
        },
        x: {
          field: "value",
          type: "quantitative",
          axis: {
            ...kt.charts.percentAxis(),
            title: null,
            grid: true,
            domain: false,
            tickCount: 5,
          },
        },
        tooltip: hint,
        color: {
          field: "kind",
          type: "nominal",
          legend: null,
          scale: {domain: ["whole", "part"], range: [colors[0], muted]},
        },
      },
    });
    return kt.charts.draw(element, spec, {
      title,
      description: "Share of the portfolio's value.",
      height: 40 + 17 * rows.length,
      columns: [
        ["Name", ""],
        ["Weight", "fraction"],
      ],
      rows: rows.map((row) => [row.name, row.value]),
    });
  }

  function allocation(element, steps) {
    const TOP = 7;
    if (steps.some((step) => step.holdings.some(([, weight]) => weight < 0)))
      return sides(element, steps);
    const sums = new Map();
    steps.forEach((step) =>
      step.holdings.forEach(([code, weight]) => sums.set(code, (sums.get(code) || 0) + weight)),
    );
    const top = [...sums]
      .sort((one, other) => other[1] - one[1])
      .slice(0, TOP)
      .map(([code]) => code);
    const labels = [...top, "other names", "cash"];
    const weights = steps.map((step) => {
      const held = new Map(step.holdings);
      const named = top.map((code) => held.get(code) || 0);
      const all = step.holdings.reduce((total, [, weight]) => total + weight, 0);
      return [
        ...named,
        Math.max(0, all - named.reduce((total, weight) => total + weight, 0)),
        Math.max(0, 1 - all),
      ];
    });
    const values = steps.flatMap((step, at) =>
      labels.map((name, place) => ({
        day: step.day,
        name,
        place,
        value: weights[at][place],
        say: format.percent(weights[at][place], 1),
      })),
    );
    const spec = ({colors, muted, rule, width}) => ({
      height: 230,
      data: {values, format: {parse: {day: "utc:'%Y-%m-%d'"}}},
      mark: {type: "area", interpolate: "step-after", tooltip: true, stroke: null},
      encoding: {
        x: kt.charts.dayAxis(steps.map(({day}) => day)),
        y: {
          field: "value",
          type: "quantitative",
          stack: "zero",
          scale: {domain: [0, 1], clamp: true},
          axis: {title: null, format: ".0%"},
        },
        order: {field: "place", type: "quantitative"},
        color: {
          field: "name",
          type: "nominal",
          scale: {domain: labels, range: [...colors.slice(0, TOP), muted, rule]},
          legend: {
            symbolType: "square",
            symbolSize: 90,
            symbolStrokeWidth: 0,
            columns: Math.max(2, Math.floor(width / 130)),
          },
        },
        tooltip: tooltip(["name", "Name"]),
      },
    });
    return kt.charts.draw(element, spec, {
      title: "Allocation over time",
      description: `The ${TOP} names with the largest mean weight, the others, and cash.`,
      height: 290,
      columns: [["Day", ""], ...labels.map((name) => [name, "fraction"])],
      rows: steps.map((step, at) => [step.day, ...weights[at]]),
    });
  }

  /** Allocation of an account with shorts, whose parts do not stack up to the whole. */
  function sides(element, steps) {
    const sum = (step, keep) =>
      step.holdings.reduce((total, [, weight]) => total + (keep(weight) ? weight : 0), 0);
    const line = (label, value) => ({label, points: steps.map((step) => [step.day, value(step)])});
    return kt.charts.lines(
      element,
      [
        line("held", (step) => sum(step, (weight) => weight > 0)),
        line("sold short", (step) => sum(step, (weight) => weight < 0)),
        line("net", (step) => sum(step, () => true)),
      ],
      {
        title: "Allocation over time",
        description:
          "Shares of the NAV: what is held, what is sold short (below zero), and both together.",
        height: 230,
        say: (value) => format.percent(value, 1),
      },
    );
  }

  function differences(element, rows, {title, description, unit}) {
    const order = rows.map((row) => row.window);
    const seeds = rows.flatMap((row) =>
      row.pairs.map((pair) => ({
        window: row.window,
        value: pair.value,
        who: String(pair.seed),
        say: format.value(pair.value, unit, {signed: true}),
      })),
    );
    const middles = rows.map((row) => ({
      window: row.window,
      value: row.value,
      sign: row.value < 0 ? "second" : "first",
      say: format.value(row.value, unit, {signed: true}),
    }));
    const x = {
      field: "window",
      type: "nominal",
      sort: order,
      axis: {...quiet, labelAngle: 0, labelOverlap: true},
    };
    const y = {field: "value", type: "quantitative", axis: {...axis(unit), title: null}};
    const spec = ({colors, ink, muted}) => ({
      height: 200,
      layer: [
        {
          data: {values: middles},
          mark: {type: "bar", width: {band: 0.55}, opacity: 0.75, tooltip: true},
          encoding: {
            x,
            y,
            tooltip: tooltip(["window", "Window"], ["say", "Median difference"]),
            color: {
              field: "sign",
              type: "nominal",
              legend: null,
              scale: {domain: ["first", "second"], range: [colors[0], colors[1]]},
            },
          },
        },
        {
          data: {values: seeds},
          mark: {type: "point", color: ink, size: 22, opacity: 0.7, tooltip: true},
          encoding: {
            x,
            y,
            tooltip: tooltip(["window", "Window"], ["who", "Seed"], ["say", "Difference"]),
          },
        },
        {data: {values: [{value: 0}]}, mark: {type: "rule", color: muted}, encoding: {y}},
      ],
    });
    return kt.charts.draw(element, spec, {
      title,
      description,
      height: 240,
      columns: [
        ["Window", ""],
        ["Difference", unit],
      ],
      rows: rows.map((row) => [row.window, row.value]),
    });
  }

  Object.assign(kt.charts, {
    windows,
    attribution,
    factors,
    exposures,
    calibration,
    envelope,
    effects,
    holdings,
    allocation,
    multiples,
    differences,
    wilson,
    factorTitle,
  });
})();
