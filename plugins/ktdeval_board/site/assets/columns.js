// Columns of the board: what stands in them, what they sort by, what a CSV of them holds. A column
// is {key, title, unit, hint, n, className, sorts, better, value(row), cell(row), csv}, where csv
// is [[name, (row) => value], …].
//
// kt.columns.lead(facts)
//     the columns that are always there: pick, rank, model
// kt.columns.alpha(facts)
//     the column of the α-rank in a list, which is empty where no card has one
// kt.columns.metric(name, place, metric, view)
//     one of a metric; view: {intervals: "bars" | "numbers" | "off", rows, scale(place, make)},
//     where scale makes once what a column's rows have in common
// kt.columns.INFO
//     further columns that the reader may choose: [{key, title, …}]
"use strict";

kt.columns = (() => {
  const {el, format, known} = kt;
  const [BAR, DOT] = [64, 2.5]; // width of a bar and radius of its dot, in pixels as in style.css
  const KINDS = kt.values.words.baselines;
  const SHORT = kt.values.words.short_labels;
  function kindOf(baseline, isScoring) {
    if (isScoring && baseline === "benchmark") return KINDS.chance;
    if (Object.hasOwn(KINDS, baseline)) return KINDS[baseline];
    return [kt.words(baseline), "A baseline; always shown."];
  }

  // -- marks beside a name

  function kindChip(baseline, isScoring) {
    const [name, words] = kindOf(baseline, isScoring);
    return kt.chip(name, "base", words);
  }

  function labelMark(label) {
    if (!Object.hasOwn(SHORT, label)) return kt.labelChip(label);
    const {tone, meaning} = kt.values.words.labels[label];
    const words = kt.labelText(label);
    return kt.chip(
      [el("span", {"aria-hidden": "true"}, SHORT[label]), el("span.unseen", words)],
      tone,
      `${words}: ${meaning}`,
    );
  }

  function marks(row, facts) {
    const labels = row.labels.filter((label) => !facts.shared.has(label));
    return [
      row.baseline ? kindChip(row.baseline, facts.isScoring) : kt.tierChip(row.tier),
      ...labels.map(labelMark),
      facts.errata.has(row.card) ? kt.chip("erratum", "warn", facts.errata.get(row.card)) : null,
    ];
  }

  function modelCell(row, facts) {
    const name = row.card
      ? kt.modelLink(row.model, row.label, {division: facts.division})
      : row.label;
    const about = row.card ? [row.agent, row.strategy, row.settings] : [];
    const words = [...about, ...marks(row, facts)]
      .filter(Boolean)
      .flatMap((one, place) => (place ? [" · ", one] : [one]));
    const why =
      row.ranked || row.baseline ? null : el("div.why", `Not ranked: ${row.why.join("; ")}`);
    const fresh =
      row.fresh && !row.baseline
        ? el("div.about", `Days after training: ${freshWords(row.fresh)}`)
        : null;
    const card = row.card ? el("span.to-card", kt.cardLink(row.card, "card")) : null;
    return el(
      "th.model",
      {scope: "row"},
      el("div.name", name, card),
      el("div.about", words),
      fresh,
      why,
    );
  }

  /** Days later than the training data, of all days, and the selection that they would show. */
  function freshWords(fresh) {
    if (!fresh) return null;
    const days = `${format.count(fresh.days)} of ${format.count(fresh.of_days)}`;
    return fresh.detectable === null
      ? days
      : `${days}; would show a selection of ${format.percent(fresh.detectable, 1)}`;
  }

  // -- ranks

  function rankCell(row, facts) {
    if (row.rank === null)
      return el(
        "td.rank.n",
        el(
          "span.none",
          row.baseline ? "" : "–",
          el("span.unseen", row.baseline ? "baseline" : "not ranked"),
        ),
      );
    const tie =
      row.tie === null
        ? null
        : el(
            "span.tie",
            {title: `Tie group ${format.tie(row.tie)}: ${facts.tieWords}`},
            el("span.unseen", " tie group "),
            format.tie(row.tie),
          );
    if (!row.tied_with) {
      const untested = facts.isTested && row.tie === null;
      return el("td.rank.n", row.rank, tie, untested ? el("span.tied-word", "not tested") : null);
    }
    const title = `${kt.tieWords(row)}; place ${row.rank} by the figure`;
    return el("td.rank.n.tied", {title}, kt.rankRange(row), tie);
  }

  function alphaCell(row, facts) {
    if (row.alpha_rank === null)
      return el(
        "td.alpha.n",
        row.baseline || !row.ranked
          ? ""
          : kt.format.cell(null, "", "selection alpha is not defined"),
      );
    const above = facts.noAlpha.filter((rank) => rank < row.shared_rank).length;
    // Where one of the two ranks was not tested for ties, their difference says nothing.
    const isTested = row.tie !== null && row.alpha_tie !== null;
    const gain = isTested ? row.shared_rank - above - row.shared_alpha_rank : 0;
    const same = isTested ? "the same as by return" : "not compared with that by return";
    const words =
      gain === 0
        ? same
        : `${kt.plural(Math.abs(gain), "place")} ${gain > 0 ? "better" : "worse"} than by return`;
    const mark = gain === 0 ? "" : `${gain > 0 ? "▲" : "▼"}${Math.abs(gain)}`;
    const tie =
      row.alpha_tie === null ? "" : `; tie group ${format.tie(row.alpha_tie)} by selection`;
    return el(
      `td.alpha.n${row.alpha_tied_with ? ".tied" : ""}`,
      {title: `${words}${tie}`},
      kt.alphaRange(row),
      el(`span.shift${gain > 0 ? ".up" : gain < 0 ? ".down" : ""}`, {"aria-hidden": "true"}, mark),
      el("span.unseen", ` ${words}`),
    );
  }

  function lead(facts) {
    return [
      {
        key: "pick",
        title: "Pick to compare",
        hidden: true,
        className: "pick",
        cell: facts.pickCell,
      },
      {
        key: "rank",
        title: "#",
        n: true,
        className: "rank",
        sorts: true,
        better: "lower",
        hint:
          "Rank within this division; letters are tie groups, whose entrants may have any rank of " +
          "the group. Baselines stand at their place without a rank.",
        value: (row) => facts.order.get(row),
        cell: (row) => rankCell(row, facts),
        csv: [
          ["rank_from", (row) => row.shared_rank],
          ["rank_to", (row) => row.worst_rank],
          ["place_by_figure", (row) => row.rank],
          ["tie_group", (row) => (row.tie === null ? null : format.tie(row.tie))],
        ],
      },
      {
        key: "model",
        title: "Model",
        className: "model",
        sorts: true,
        better: "lower",
        hint: "Name of the model; below it the agent, its strategy and settings",
        value: (row) => row.label,
        cell: (row) => modelCell(row, facts),
      },
    ];
  }

  /** Column of the rank by selection alpha; none where no card has one. */
  function alpha(facts) {
    const alphaAt = facts.alphaAt;
    return [
      facts.hasAlpha
        ? {
            key: "alpha_rank",
            title: "α-rank",
            n: true,
            className: "alpha",
            sorts: true,
            better: "lower",
            hint:
              "Rank by selection alpha, the part of the return that market, industries and " +
              "styles don't explain; with the places it differs from the rank by return among " +
              "those that have both",
            value: (row) => (row.ranked || row.baseline ? -(row.values[alphaAt] ?? NaN) : null),
            cell: (row) => alphaCell(row, facts),
            csv: [
              ["alpha_rank", (row) => row.alpha_rank],
              [
                "alpha_tie_group",
                (row) => (row.alpha_tie === null ? null : format.tie(row.alpha_tie)),
              ],
            ],
          }
        : null,
    ].filter(Boolean);
  }

  // -- metrics

  /**
   * Ends of a column's bars: without the outermost 2 % on either side, so that one wild row does
   * not press all others flat.
   */
  function span(rows, place) {
    const ends = Float64Array.from(
      rows.flatMap((row) => [row.low[place], row.high[place], row.values[place]]).filter(known),
    ).sort();
    if (!ends.length) return null;
    const cut = Math.floor(ends.length * 0.02);
    const [low, high] = [ends[cut], ends[ends.length - 1 - cut]];
    return high > low ? {low, high} : null;
  }

  /**
   * One element whose background is the bar: a drawing of its own in each cell would make long
   * tables slow.
   */
  function bar(row, place, ends) {
    const [value, low, high] = [row.values[place], row.low[place], row.high[place]];
    if (!ends || !known(value)) return null;
    const x = (at) =>
      DOT + Math.min(1, Math.max(0, (at - ends.low) / (ends.high - ends.low))) * (BAR - 2 * DOT);
    const drawn = el("span.bar", {"aria-hidden": "true"});
    const set = (name, length) => drawn.style.setProperty(`--${name}`, `${length.toFixed(1)}px`);
    set("at", x(value));
    if (known(low) && known(high)) {
      set("low", x(low));
      set("wide", x(high) - x(low));
    }
    if (ends.low < 0 && ends.high > 0) set("zero", x(0));
    return drawn;
  }

  function rangeWords(row, place, unit) {
    if (!known(row.low[place]) || !known(row.high[place])) return "";
    return (
      `${row.interval[place] || "interval"}: ` +
      `${format.range(row.low[place], row.high[place], unit)}`
    );
  }

  function metricCell(row, place, metric, view) {
    const value = row.values[place];
    const words = [
      rangeWords(row, place, metric.unit),
      known(value) && row.n[place] ? `n = ${row.n[place]}` : "",
    ]
      .filter(Boolean)
      .join("; ");
    const options = {signed: view.signed, bare: true};
    const lead = el(
      "span.figure",
      format.cell(
        value,
        metric.unit,
        row.reasons[metric.name] || (row.card ? "not defined" : "not defined for this row"),
        options,
      ),
    );
    let below = null;
    if (view.intervals === "bars") below = bar(row, place, view.ends);
    else if (view.intervals === "numbers" && known(row.low[place]) && known(row.high[place])) {
      below = el(
        "span.between",
        format.range(row.low[place], row.high[place], metric.unit, {bare: true}),
      );
    }
    return el("td.n.metric", {title: words || null}, lead, below);
  }

  const ARROWS = {
    higher: "higher is better",
    lower: "lower is better",
    neither: "no better direction",
  };

  function metric(name, place, facts, view) {
    const about = {...facts, name};
    const {ends, signed} = view.scale(place, () => ({
      ends: span(view.rows, place),
      signed:
        format.hasSign(facts.unit) &&
        view.rows.some((row) => known(row.values[place]) && row.values[place] < 0),
    }));
    return {
      key: name,
      title: facts.title,
      unit: format.unit(facts.unit),
      n: true,
      sorts: true,
      better: facts.better,
      className: "metric",
      hint: `${facts.description || facts.title} (${ARROWS[facts.better] || facts.better})`,
      value: (row) => row.values[place],
      cell: (row) => metricCell(row, place, about, {intervals: view.intervals, ends, signed}),
      csv: [
        [name, (row) => row.values[place]],
        [`${name}_low`, (row) => row.low[place]],
        [`${name}_high`, (row) => row.high[place]],
      ],
    };
  }

  const VALUES = {
    evidence: (row) => row.evidence?.kind,
    cutoff: (row) => (row.cutoff ? kt.cutoffWord(row.cutoff) : null),
    fresh: (row) => freshWords(row.fresh),
  };

  function info([key, [title, hint]]) {
    const n = key === "attempts";
    const value = VALUES[key] || ((row) => row[key]);
    return {
      key,
      title,
      hint,
      n,
      sorts: true,
      better: n ? "higher" : "lower",
      value,
      cell: (row) => el(n ? "td.n" : "td.info", value(row) ?? ""),
      csv: [[key, value]],
    };
  }

  const INFO = Object.entries(kt.values.words.columns).map(info);

  const csvLead = [
    ["system", (row) => row.label],
    ["model", (row) => row.model],
    ["agent", (row) => row.agent],
    ["strategy", (row) => row.strategy],
    ["settings", (row) => row.settings],
    ["kind", (row) => row.baseline || "entrant"],
    ["tier", (row) => row.tier],
    ["labels", (row) => row.labels.join("; ")],
    ["ranked", (row) => row.ranked],
    ["why_unranked", (row) => row.why.join("; ")],
    ["registration", (row) => row.registration],
    ["evidence", (row) => row.evidence?.kind],
    ["question", (row) => row.evidence?.question],
    ["answer", (row) => row.evidence?.answer],
    ["card", (row) => row.card],
  ];

  return {lead, alpha, metric, INFO, csvLead, kindOf, kindChip, labelMark};
})();
