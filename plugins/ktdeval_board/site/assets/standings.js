// Picture of a table: each ranked system with its interval, beside the index and chance. It shows
// the figures of the table's rows and no others.
//
// kt.standings(element, rows, {column, metric})
//     rows: those on show, in order; column: place of the figure that is drawn; metric: of it
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

  function standings(element, rows, {column, metric}) {
    const figures = (keep) =>
      rows
        .filter(keep)
        .map((row) => figureOf(row, column))
        .filter(({value}) => known(value));
    const ranked = figures((row) => row.ranked);
    element.hidden = !ranked.length || !kt.charts;
    if (element.hidden) return kt.replace(element);

    const systems = ranked.slice(0, MOST);
    const [index] = figures((row) => row.baseline === "benchmark");
    const [chance] = figures((row) => row.baseline === "random").filter(isWhole);
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

  return standings;
})();
