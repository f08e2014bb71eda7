/* Parts of the model page that hold for a whole card: stated confidence, mask effects, decisions,
failures and cost.

kt.conduct.calibration(view, part, slot)
kt.conduct.masks(view, part, slot)
kt.conduct.steps(view, part)
    each gives a section, or null where the card has nothing of it */
"use strict";

(() => {
  const {el, format, known} = kt;
  const {right} = kt.table;
  const signed = {signed: true};
  const ORDERS = ["submitted", "filled", "partially_filled", "rejected"];
  const USAGE = [
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "tool_calls",
    "tool_calls_valid",
  ];

  function calibration({entry: {card}}, part, slot) {
    if (!card.calibration?.n) return null;
    const medians = Object.entries(kt.values.words.confidence)
      .filter(([name]) => card.metrics[name])
      .map(([name, title]) => {
        const {value, unit, reason} = card.metrics[name];
        return [`median episode: ${title}`, format.cell(value, unit, reason)];
      });
    const pooled = format.number(kt.stats.calibrationError(card.calibration), 3);
    const figures = [["all orders: calibration error (ECE)", pooled], ...medians];
    const chart = slot((place) => kt.charts.calibration(place, card.calibration));
    return part(
      "calibration",
      "Reliability of stated confidence",
      el("div.beside", chart, kt.facts(figures)),
    );
  }

  function masks({board, model}, part, slot) {
    const given = model.mask_effects || [];
    if (!given.length) {
      return part(
        "masks",
        "Mask effects",
        el(
          "p.quiet",
          "Mask effects need cards of this model and agent under several masks of one mode, on " +
            "the same windows and seeds.",
        ),
      );
    }
    const telling = ["system", "mode"].filter(
      (field) => new Set(given.map((row) => row[field])).size > 1,
    );
    const rows = given.map((row) => {
      const effect = kt.wordOf("effects", row.effect);
      return {
        ...row,
        name: [
          effect,
          ...telling.map((field) => (field === "mode" ? kt.words(row.mode || "") : row[field])),
        ]
          .filter(Boolean)
          .join(", "),
      };
    });
    const metrics = [...new Set(rows.map((row) => row.metric))];
    const titleOf = (metric) => board.metrics[metric]?.title || kt.words(metric);
    return part("masks", "Mask effects", [
      metrics.map((metric) =>
        effectsOf(
          rows.filter((row) => row.metric === metric),
          titleOf(metric),
          slot,
        ),
      ),
      el(
        "p.quiet",
        "Memory premium: what a model earns more when codes and dates are shown than when both " +
          "are hidden.",
      ),
    ]);
  }

  function effectsOf(rows, title, slot) {
    const told = rows.filter((row) => known(row.value));
    const heading = `What knowing stock and date is worth: ${title.toLowerCase()}`;
    return [
      told.length ? slot((place) => kt.charts.effects(place, told, heading)) : null,
      kt.table.of(`Mask effects: ${title}`, rows, [
        ["Effect", ({name}) => name],
        [right(title), ({value, reason}) => format.cell(value, "fraction", reason, signed)],
        [
          right("95 % interval"),
          ({low, high}) => (known(low) ? format.range(low, high, "fraction", signed) : format.NONE),
        ],
        [right("Windows"), ({n}) => format.count(n)],
      ]),
    ];
  }

  /**
   * Counts of a kind of `provenance` or `failures`, each by its label, in the order of cards'
   * words.
   */
  function kindCounts(group, values = {}) {
    const listed = Object.keys(kt.values.words[group]);
    const others = Object.keys(values).filter((name) => !listed.includes(name));
    return [...listed, ...others]
      .filter((name) => known(values[name]))
      .map((name) => [kt.kindLabel(group, name), format.count(values[name])]);
  }

  /** Pairs of a name and a count, in an order, of those that are there. */
  function counts(values, order = Object.keys(values || {}), prefix = "") {
    return order
      .filter((name) => known(values[name]))
      .map((name) => [`${prefix}${kt.words(name)}`, format.count(values[name])]);
  }

  const column = (title, pairs) =>
    el("div", el("h3", title), pairs.length ? kt.facts(pairs) : el("p.quiet", "None."));

  function costs({usage, cost}) {
    const {per_episode: episode, return_per_usd: worth, price} = cost;
    const asOf = price?.as_of ? ` (${price.as_of})` : "";
    return [
      ...counts(usage, USAGE),
      ["cost of the run", format.cell(cost.value, "usd", cost.reason)],
      ["cost of an episode", format.cell(episode?.value ?? null, "usd", episode?.reason)],
      ...(worth
        ? [
            [
              "return for a dollar",
              format.cell(worth.value, "fraction", worth.reason, {signed: true, digits: 3}),
            ],
          ]
        : []),
      ...(price
        ? [["price", `$${price.input} in, $${price.output} out a million tokens${asOf}`]]
        : []),
    ];
  }

  function steps({entry: {card}}, part) {
    const {decisions, failures, orders, coverage} = card;
    return part(
      "conduct",
      "Decisions, failures and cost",
      el(
        "div.columns",
        column("Steps", [
          ["planned", format.count(coverage.steps_planned)],
          ...kindCounts("provenance", decisions),
        ]),
        orders
          ? column("Orders", [
              ...counts(orders, ORDERS),
              ...counts(orders.rules, undefined, "rule: "),
            ])
          : null,
        column("Failures", kindCounts("failures", failures)),
        column("Tokens and cost", costs(card)),
      ),
    );
  }

  kt.conduct = {calibration, masks, steps};
})();
