/* Charts of figures with their intervals, and what charts of rows share; added to kt.charts.

kt.charts.intervals(element, rows, {title, description, unit, heads, bars})
    horizontal marks with intervals, in order: [{name, value, low, high, kind}]. An interval that is
    null is not drawn. heads: of the name, the value and the interval; `bars` from 0 instead of
    points, where `kind` is "whole" or "part"
kt.charts.valueAxis(unit)
    labels of an axis of a unit's values
kt.charts.perRow(rows)
    height of so many rows in pixels */
"use strict";

(() => {
  const {format, known} = kt;
  const valueAxis = (unit) =>
    unit === "fraction"
      ? kt.charts.percentAxis({signed: true})
      : {format: "~g", labelExpr: "datum.value === 0 ? '0' : datum.label"};
  const perRow = (rows) => rows * (rows > 14 ? 21 : 26) + 6;

  /** Horizontal marks with intervals. rows: [{name, value, low, high, kind}], in order. */
  function intervals(element, rows, {title, description, unit = "fraction", heads, bars = false}) {
    const [name, value, interval] = heads;
    const values = rows.map((row) => ({
      ...row,
      say: format.value(row.value, unit, {signed: true}),
      range: known(row.low)
        ? format.range(row.low, row.high, unit, {signed: true})
        : kt.format.NONE,
    }));
    return kt.charts.figure(element, "intervals", {
      title,
      description,
      rows: values,
      height: perRow(rows.length),
      axis: valueAxis(unit),
      unit,
      name,
      value,
      interval,
      bars,
      points: !bars,
      thickness: bars ? 1.2 : 2.5,
      look: ({colors, ink}) => ({stroke: bars ? ink : colors[0]}),
    });
  }

  Object.assign(kt.charts, {intervals, perRow, valueAxis});
})();
