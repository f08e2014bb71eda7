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
    const range = isWhole(one) ? format.range(one.low, one.high, unit, {signed: true}) : format.NONE;
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

  function layers({systems, index, chance, unit}, {colors, ink, muted}) {
    const axis = {...kt.charts.valueAxis(unit), ...kt.charts.few, title: null, grid: true};
    const x = (field) => ({
      field,
      type: "quantitative",
      scale: {zero: false, padding: 8},
      axis: {...axis, domain: false},
    });
    const y = {
      field: "name",
      type: "nominal",
      sort: systems.map(({name}) => name),
      axis: {title: null, labelLimit: 210, grid: false, ticks: false, labelOverlap: false},
    };
    const hint = kt.charts.tooltip(["name", "System"], ["say", "Figure"], ["range", "Interval"]);
    const values = systems.map((one) => sayFigures(one, unit));
    const band = {
      data: {values: chance ? [chance] : []},
      mark: {type: "rect", color: muted, opacity: 0.16},
      encoding: {x: x("low"), x2: {field: "high"}},
    };
    const line = {
      data: {values: index ? [index] : []},
      mark: {type: "rule", color: ink, strokeDash: [4, 3], strokeWidth: 1.4},
      encoding: {x: x("value")},
    };
    const spans = {
      data: {values: values.filter(isWhole)},
      mark: {type: "rule", color: colors[0], strokeWidth: 2.5, tooltip: true},
      encoding: {y, x: x("low"), x2: {field: "high"}, tooltip: hint},
    };
    const points = {
      data: {values},
      mark: {type: "point", filled: true, opacity: 1, color: colors[0], size: 70, tooltip: true},
      encoding: {y, x: x("value"), tooltip: hint},
    };
    return [band, line, spans, points];
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
    const height = kt.charts.perRow(systems.length);
    const beside = [index, chance].filter(Boolean);
    return kt.charts.draw(
      element,
      (theme) => ({
        height,
        layer: layers({systems, index, chance, unit: metric.unit}, theme),
      }),
      {
        title: `${metric.title} of ${plural(ranked.length, "ranked system")}`,
        description: describe(systems, ranked.length, index, chance),
        height: height + 34,
        columns: [
          ["System", ""],
          [metric.title, metric.unit],
          ["Low", metric.unit],
          ["High", metric.unit],
          ["Interval", ""],
        ],
        rows: [...systems, ...beside].map(({name, value, low, high, kind}) => [
          name,
          value,
          low,
          high,
          kind,
        ]),
      },
    );
  }

  return standings;
})();
