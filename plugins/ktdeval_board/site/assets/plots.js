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
  const {figure, intervals, perRow, valueAxis} = kt.charts;
  const LINES = kt.values.words.lines;
  const factorTitle = (name) =>
    Object.hasOwn(LINES, name) ? LINES[name] : kt.wordOf("factors", name);

  function windows(element, rows, {title}) {
    const say = (value) => format.value(value, "fraction");
    const dots = rows.flatMap(({window, values}) =>
      values.filter(known).map((value) => ({window, value, say: say(value)})),
    );
    const middles = rows.map(({window, values, benchmark}) => {
      const value = kt.stats.median(values.filter(known));
      const seeds = format.list(values.map(say));
      return {window, value, benchmark, say: say(value), index: say(benchmark), seeds};
    });
    const hasIndex = rows.some((row) => known(row.benchmark));
    return figure(element, "windows", {
      title,
      description:
        `Each dot is a seed, the thick bar the median of a ` +
        `window${hasIndex ? ", the thin bar the benchmark" : ""}.`,
      rows: middles,
      dots,
      hasIndex,
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
    const dots = given.flatMap((episode) =>
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
    return figure(element, "exposures", {
      title: "Exposure to style factors",
      description:
        "Mean over days, in cross-sectional standard deviations: above 0 the holdings have more " +
        "of it than the market. A dot for each episode, the bar is the median.",
      rows: middles,
      dots,
      height: perRow(middles.length),
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
    return figure(element, "calibration", {
      title: "Stated confidence and outcome",
      description:
        `${kt.plural(given.n, "order")} with an outcome, by stated confidence; on the dashed ` +
        `line confidence is what comes true. Larger dots hold more orders.`,
      rows,
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
    return figure(element, "envelope", {
      title: "Share of random traders beaten",
      description:
        "Random traders trade on the same dates, as much and as many names. Chance alone gives " +
        "50 %; nine of ten of them lie in the grey.",
      rows,
      order,
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
    const navOf = (episode) => (gross ? episode.gross_nav : episode.nav);
    const path = (window, who, nav, kind) =>
      nav.map((value, at) => ({window, who, day: at, value: value - 1, kind}));
    const points = order.flatMap((window) => {
      const own = episodes.filter((episode) => episode.window === window);
      const index = own.find((episode) => episode.benchmark);
      return [
        ...own.flatMap((one) => path(window, `seed ${one.seed}`, navOf(one), "portfolio")),
        ...(index ? path(window, "benchmark", index.benchmark, "benchmark") : []),
      ];
    });
    const rows = episodes.map((one) => ({
      window: one.window,
      who: `seed ${one.seed}`,
      last: navOf(one).at(-1) - 1,
    }));
    return figure(element, "multiples", {
      title,
      description:
        "Each line is a seed, by trading days since the start; all windows to one scale.",
      rows,
      points,
      height: 50 + 140 * rowsIn(element.clientWidth || document.body.clientWidth),
      look: ({width}) => {
        const columns = columnsIn(width);
        return {columns, width: Math.floor((width - 50) / columns) - 14};
      },
    });
  }

  function holdings(element, step, title) {
    const held = step.holdings.reduce((total, [, weight]) => total + weight, 0);
    const rows = [
      ...step.holdings.map(([name, weight]) => ({name, value: weight, kind: "whole"})),
      {name: "cash", value: Math.max(0, 1 - held), kind: "part"},
    ];
    return figure(element, "holdings", {
      title,
      description: "Share of the portfolio's value.",
      rows: rows.map((row) => ({...row, say: format.percent(row.value)})),
      height: 17 * rows.length + 6,
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
    const parts = steps.flatMap((step, at) =>
      labels.map((name, place) => ({
        day: step.day,
        name,
        place,
        value: weights[at][place],
        say: format.percent(weights[at][place], 1),
      })),
    );
    return figure(element, "allocation", {
      title: "Allocation over time",
      description: `The ${TOP} names with the largest mean weight, the others, and cash.`,
      parts,
      labels,
      days: kt.charts.dayAxis(steps.map(({day}) => day)),
      look: ({colors, muted, rule, width}) => ({
        paints: [...colors.slice(0, TOP), muted, rule],
        columns: Math.max(2, Math.floor(width / 130)),
      }),
      table: {
        columns: [["Day", ""], ...labels.map((name) => [name, "fraction"])],
        rows: steps.map((step, at) => [step.day, ...weights[at]]),
      },
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
    const say = (value) => format.value(value, unit, {signed: true});
    const dots = rows.flatMap(({window, pairs}) =>
      pairs.map(({value, seed}) => ({window, value, who: String(seed), say: say(value)})),
    );
    const middles = rows.map(({window, value}) => ({
      window,
      value,
      sign: value < 0 ? "second" : "first",
      say: say(value),
    }));
    return figure(element, "differences", {
      title,
      description,
      unit,
      rows: middles,
      dots,
      axis: valueAxis(unit),
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
