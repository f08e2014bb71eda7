/* Charts of figures with their intervals, and what charts of rows share; added to kt.charts.

kt.charts.intervals(element, rows, {title, description, unit, heads, bars})
    horizontal marks with intervals, in order: [{name, value, low, high, kind}]. An interval that is
    null is not drawn. heads: of the name, the value and the interval; `bars` from 0 instead of
    points, where `kind` is "whole" or "part"
kt.charts.valueAxis(unit), kt.charts.few
    labels of an axis of a unit's values; how many where the axis is narrow
kt.charts.perRow(rows)
    height of so many rows in pixels
kt.charts.tooltip([field, title], …)
    what is shown of the mark under the pointer */
"use strict";

(() => {
  const {format, known} = kt;
  const valueAxis = (unit) =>
    unit === "fraction"
      ? kt.charts.percentAxis({signed: true})
      : {format: "~g", labelExpr: "datum.value === 0 ? '0' : datum.label"};
  const few = {tickCount: {expr: "max(3, width / 90)"}};
  const perRow = (rows) => rows * (rows > 14 ? 21 : 26) + 6;
  const tooltip = (...fields) => fields.map(([field, title]) => ({field, title, type: "nominal"}));

  /** Horizontal marks with intervals. rows: [{name, value, low, high, kind}], in order. */
  function intervals(element, rows, {title, description, unit = "fraction", heads, bars = false}) {
    const order = rows.map((row) => row.name);
    const values = rows.map((row) => ({
      ...row,
      say: format.value(row.value, unit, {signed: true}),
      range: known(row.low)
        ? format.range(row.low, row.high, unit, {signed: true})
        : kt.format.NONE,
    }));
    const hint = tooltip(["name", heads[0]], ["say", heads[1]], ["range", heads[2]]);
    const y = {
      field: "name",
      type: "nominal",
      sort: order,
      axis: {
        title: null,
        labelLimit: 210,
        grid: false,
        minExtent: 0,
        ticks: false,
        labelOverlap: false,
      },
    };
    const x = (field) => ({
      field,
      type: "quantitative",
      axis: {...valueAxis(unit), ...few, title: null, grid: true, domain: false},
    });
    const spec = ({colors, ink, muted}) => ({
      height: perRow(rows.length),
      layer: [
        {data: {values: [{zero: 0}]}, mark: {type: "rule", color: muted}, encoding: {x: x("zero")}},
        ...(bars
          ? [
              {
                data: {values},
                mark: {type: "bar", height: {band: 0.62}, opacity: 0.85, tooltip: true},
                encoding: {
                  y,
                  x: x("value"),
                  tooltip: hint,
                  color: {
                    field: "kind",
                    type: "nominal",
                    legend: null,
                    scale: {domain: ["whole", "part"], range: [colors[0], colors[5]]},
                  },
                },
              },
            ]
          : []),
        {
          data: {values: values.filter((row) => known(row.low))},
          mark: {
            type: "rule",
            color: bars ? ink : colors[0],
            strokeWidth: bars ? 1.2 : 2.5,
            tooltip: true,
          },
          encoding: {y, x: x("low"), x2: {field: "high"}, tooltip: hint},
        },
        ...(bars
          ? []
          : [
              {
                data: {values},
                mark: {type: "point", color: colors[0], size: 75, tooltip: true},
                encoding: {y, x: x("value"), tooltip: hint},
              },
            ]),
      ],
    });
    return kt.charts.draw(element, spec, {
      title,
      description,
      height: 34 + perRow(rows.length),
      columns: [
        [heads[0], ""],
        [heads[1], unit],
        ["Low", unit],
        ["High", unit],
      ],
      rows: rows.map((row) => [row.name, row.value, row.low ?? null, row.high ?? null]),
    });
  }

  Object.assign(kt.charts, {few, intervals, perRow, tooltip, valueAxis});
})();
