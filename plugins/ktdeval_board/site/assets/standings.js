// Picture of a table. It shows the figures of the table's rows and no others.
//
// kt.standings.tests(data)
//     the tests of a table that have intervals
// kt.standings.means(element, rows, {test, place})
//     what the sentence above the table tests: each system's mean daily excess with its simultaneous
//     interval, over the band of as many random traders, beside the baselines. rows: those on show;
//     test: one of the table's, at that place
// kt.standings.figures(element, rows, {column, metric})
//     where nothing was tested, the figures of the table with their intervals, beside the index and
//     chance. rows: those on show, in order; column: place of the figure that is drawn; metric: of
//     it
"use strict";

kt.standings = (() => {
  const {format, known, plural} = kt;
  const MOST = 15; // systems of one picture

  /** A row's name, its value and its interval in one column of the table. */
  const figureOf = (row, column) => ({
    name: row.label,
    value: row.values[column],
    low: row.low[column],
    high: row.high[column],
    kind: row.interval[column],
  });

  const isWhole = (one) => known(one.low) && known(one.high);

  function sayFigures(one, unit) {
    const range = isWhole(one)
      ? format.range(one.low, one.high, unit, {signed: true})
      : format.NONE;
    return {...one, say: format.value(one.value, unit, {signed: true}), range};
  }

  /** What the picture says of its marks, in words that stand above it. */
  function describe(systems, all, index, chance) {
    const bounds = format.bounds(systems.map((one) => one.kind));
    const most = systems.length < all ? `The first ${systems.length} of ${all} ranked. ` : "";
    return [
      `${most}Point: the figure of the table; line: its ${bounds.toLowerCase()}.`,
      index ? `Dashed: ${index.name}.` : "",
      chance ? `Grey: ${chance.name}, ${chance.kind}.` : "",
    ]
      .filter(Boolean)
      .join(" ");
  }

  function figures(element, rows, {column, metric}) {
    const shown = (keep) =>
      rows
        .filter(keep)
        .map((row) => figureOf(row, column))
        .filter(({value}) => known(value));
    const ranked = shown((row) => row.ranked);
    element.hidden = !ranked.length || !kt.charts;
    if (element.hidden) return kt.replace(element);

    const systems = ranked.slice(0, MOST);
    const [index] = shown((row) => row.baseline === "benchmark");
    const [chance] = shown((row) => row.baseline === "random").filter(isWhole);
    const beside = [index, chance].filter(Boolean);
    const {title, unit} = metric;
    return kt.charts.figure(element, "standings", {
      title: `${title} of ${plural(ranked.length, "ranked system")}`,
      heading: title,
      description: describe(systems, ranked.length, index, chance),
      rows: [...systems, ...beside],
      systems: systems.map((one) => sayFigures(one, unit)),
      order: systems.map(({name}) => name),
      index: [index].filter(Boolean),
      chance: [chance].filter(Boolean),
      height: kt.charts.perRow(systems.length),
      axis: kt.charts.valueAxis(unit),
      unit,
    });
  }

  // -- what was tested

  const DECIMALS = 3; // of a mean daily return in per cent

  const tests = (data) => data.tests.filter(({reason}) => reason === null);

  /** A row's mean daily excess over the reference of one test; null if it has none. */
  function excessOf(row, place) {
    const own = row.excess[place];
    if (!own) return null;
    const [value, low, high] = own;
    const kind = row.baseline ? "baseline" : "system";
    const range = known(low)
      ? format.range(low, high, "fraction", {signed: true, digits: DECIMALS})
      : format.NONE;
    const say = format.percent(value, DECIMALS, true);
    return {name: row.label, value, low, high, kind, say, range};
  }

  const byMean = (one, other) => other.value - one.value;

  /** Which of the tested systems are drawn. */
  function selection(drawn, chosen, test, baselines) {
    const all = format.count(test.systems);
    const which = drawn < chosen ? `The best ${drawn} of` : "All";
    const whose = chosen < test.systems ? `${format.count(chosen)} chosen from ${all}` : all;
    const beside = baselines ? ` and all ${plural(baselines, "baseline")}` : "";
    return `${which} ${whose} ranked systems${beside}, `;
  }

  function describeMeans(test) {
    const level = format.percent(1 - test.level, 0);
    const grey = test.band
      ? `baselines, and the band that holds ${plural(test.systems, "random trader")}, with the ` +
        `best of them at its right end`
      : "baselines";
    return (
      `${plural(test.days, "day")}. Line: ${level} interval, simultaneous for all ` +
      `${format.count(test.systems)}. Grey: ${grey}.`
    );
  }

  function means(element, rows, {test, place}) {
    const all = rows.map((row) => excessOf(row, place)).filter(Boolean);
    const chosen = all.filter(({kind}) => kind === "system").sort(byMean);
    element.hidden = !chosen.length || !kt.charts;
    if (element.hidden) return kt.replace(element);

    const drawn = chosen.slice(0, MOST);
    const baselines = all.filter(({kind}) => kind === "baseline");
    const shown = [...drawn, ...baselines].sort(byMean);
    const [low, high] = test.band || [];
    return kt.charts.figure(element, "means", {
      title: `Mean daily return over ${test.reference}`,
      description:
        selection(drawn.length, chosen.length, test, baselines.length) + describeMeans(test),
      rows: shown,
      order: shown.map(({name}) => name),
      band: test.band ? [{low, high}] : [],
      height: kt.charts.perRow(shown.length),
    });
  }

  return {figures, means, tests};
})();
