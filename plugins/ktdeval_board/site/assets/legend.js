// What stands below the board's table: the meaning of marks and columns, and what must be known of
// the division.
//
// kt.legend(columns, data, metrics)
//     two folds
// kt.legend.notes(division, data)
//     a list, or null
"use strict";

kt.legend = (() => {
  const {el} = kt;

  function legend(columns, data, allMetrics) {
    const terms = (pairs) =>
      el(
        "dl.terms",
        pairs.map(([term, words]) => el("div", el("dt", term), el("dd", words))),
      );
    const shownLabels = [...new Set(data.rows.flatMap((row) => row.labels))];
    const metrics = columns
      .filter(({key}) => Object.hasOwn(allMetrics, key))
      .map(({key}) => [key, allMetrics[key]]);
    const {hasAlpha, isScoring, tieWords} = data.facts;
    const kinds = [...new Set(data.rows.map((row) => row.baseline))].filter(Boolean);
    return [
      kt.details(
        "What the marks mean",
        terms([
          ...(data.rows.some((row) => row.tie !== null)
            ? [
                [
                  "letters, 1–5",
                  `Tie groups: ${tieWords} Group A is that of the best. Its members may have any ` +
                    `rank of the group, and rows stay in the order of the figure. Of many ` +
                    `entrants only the best by rank are tested, so the level holds among them.`,
                ],
              ]
            : []),
          ...(hasAlpha
            ? [
                [
                  "α-rank",
                  "Rank by selection alpha; the arrow says how many places it differs from the " +
                    "rank by return among those that have both.",
                ],
              ]
            : []),
          ...Object.entries(kt.values.words.tiers).map(([name, {meaning}]) => [
            kt.tierChip(name),
            meaning,
          ]),
          ...shownLabels.map((name) => [
            kt.columns.labelMark(name),
            kt.values.words.labels[name]?.meaning || "",
          ]),
          ...kinds.map((kind) => [
            kt.columns.kindChip(kind, isScoring),
            kt.columns.kindOf(kind, isScoring)[1],
          ]),
        ]),
      ),
      kt.details(
        "What the columns mean",
        terms(
          metrics.map(([, metric]) => [
            metric.title,
            [
              metric.description ? `${metric.description.replace(/\.$/, "")}. ` : "",
              el("code", metric.formula),
              metric.source ? el("span.quiet", ` ${metric.source}`) : null,
            ],
          ]),
        ),
      ),
    ];
  }

  legend.notes = (division, data) => {
    const said = [
      ...division.notes,
      ...data.notes,
      ...(data.ties?.return?.reason ? [`No tie groups: ${data.ties.return.reason}`] : []),
    ];
    const missing = (data.missing_baselines || []).map((one) =>
      typeof one === "string" ? one : one.model || JSON.stringify(one),
    );
    if (missing.length) said.push(`Baselines are missing: ${missing.join(", ")}`);
    return said.length
      ? el(
          "ul.notes",
          [...new Set(said)].map((one) => el("li", one)),
        )
      : null;
  };

  return legend;
})();
