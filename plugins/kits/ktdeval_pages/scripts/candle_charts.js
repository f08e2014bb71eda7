/* Candles of bars with their volume, averages and fills; added to kt.charts.

kt.charts.candles(element, rows, {fills, averages, isDaily, height, ...})
    rows: [{when, open, high, low, close, volume, rises, ma20, …}], the last of which has a line at
        its close; a `ma` that is null is a gap
    fills: [{when, price, side}], side is "bought" or "sold"; averages: the counts of the `ma`s
    isDaily: whether `when` is a day; else its year is left out
    the others as of kt.charts.draw */
"use strict";

(() => {
  /** Bars whose moments are named on the axis. */
  function ticksOf(rows, width) {
    const most = Math.max(2, Math.floor(width / 95));
    const every = Math.ceil(rows.length / most);
    return rows.filter((_, at) => at % every === Math.floor(every / 2)).map((row) => row.when);
  }

  function candleSpec(rows, {fills, averages, isDaily, height}) {
    return ({good, bad, paper, ink, muted, rule, colors, width}) => {
      const x = {
        field: "when",
        type: "ordinal",
        sort: null,
        scale: {paddingInner: 0.25, paddingOuter: 0.1},
        axis: {
          title: null,
          labelAngle: 0,
          values: ticksOf(rows, width),
          labelExpr: isDaily ? "datum.label" : "slice(datum.label, 5)",
          ticks: true,
        },
      };
      const y = {
        type: "quantitative",
        scale: {zero: false, padding: 8},
        axis: {title: null, orient: "right", format: ",.2f"},
      };
      const paint = {condition: {test: "datum.rises", value: good}, value: bad};
      const series = {field: "series", type: "nominal"};
      const domain = averages.map(seriesOf);
      const line = {
        data: {values: averagesOf(rows, averages)},
        mark: {type: "line", strokeWidth: 1.5},
        encoding: {
          x,
          y: {...y, field: "value"},
          color: {...series, scale: {domain, range: [colors[0], colors[3]]}},
          strokeDash: {
            ...series,
            scale: {
              domain,
              range: [
                [1, 0],
                [5, 3],
              ],
            },
          },
        },
      };
      const top = Math.max(1, ...rows.map((row) => row.volume || 0));
      return {
        height,
        data: {values: rows},
        resolve: {scale: {y: "independent"}},
        layer: [
          {
            mark: {type: "bar", opacity: 0.28, color: muted},
            encoding: {
              x,
              y: {
                field: "volume",
                type: "quantitative",
                scale: {domain: [0, 4.5 * top]},
                axis: null,
              },
            },
          },
          {
            layer: [
              {
                mark: {type: "rule", strokeWidth: 1},
                encoding: {x, y: {...y, field: "low"}, y2: {field: "high"}, color: paint},
              },
              {
                mark: {type: "bar", strokeWidth: 1.2},
                encoding: {
                  x,
                  y: {...y, field: "open"},
                  y2: {field: "close"},
                  stroke: paint,
                  fill: {condition: {test: "datum.rises", value: paper}, value: bad},
                },
              },
              line,
              {
                data: {values: fills},
                mark: {type: "point", filled: true, size: 90, stroke: ink, strokeWidth: 1},
                encoding: {
                  x,
                  y: {...y, field: "price"},
                  shape: {
                    field: "side",
                    type: "nominal",
                    legend: null,
                    scale: {domain: ["bought", "sold"], range: ["triangle-up", "triangle-down"]},
                  },
                  fill: {condition: {test: "datum.side === 'bought'", value: good}, value: bad},
                },
              },
              {
                mark: {type: "rule", strokeDash: [3, 3], color: muted},
                data: {values: [rows.at(-1)]},
                encoding: {y: {...y, field: "close"}},
              },
              {
                mark: {type: "bar", color: rule, tooltip: true},
                encoding: {
                  x,
                  opacity: {value: 0.001},
                  tooltip: [
                    {field: "when", title: "Bar", type: "nominal"},
                    ...["open", "high", "low", "close"].map((name) => ({
                      field: name,
                      title: name,
                      type: "quantitative",
                      format: ",.2f",
                    })),
                    {field: "volume", title: "volume", type: "quantitative", format: ",.0f"},
                  ],
                },
              },
            ],
          },
        ],
      };
    };
  }

  const seriesOf = (count) => `average of ${count}`;

  const averagesOf = (rows, averages) =>
    averages.flatMap((count) =>
      rows.map((row) => ({
        when: row.when,
        series: seriesOf(count),
        value: row[`ma${count}`],
      })),
    );

  function candles(element, rows, {fills = [], averages = [], isDaily, height, ...options}) {
    const spec = candleSpec(rows, {fills, averages, isDaily, height});
    return kt.charts.draw(element, spec, {...options, height});
  }

  Object.assign(kt.charts, {candles});
})();
