/* A card's result in sentences, each made of the card's own figures: to read, to print, to quote.

kt.report(entry, board, series)
    <article>; `entry` is the data `card/<id>`, `series` those of `series/<id>` or null
kt.afterWords(windows, cutoff), kt.windowsAfter
    how many windows are later than the training data, in a sentence; their number
kt.ordinal(3)
    3rd
kt.sidesWords(card)
    trading days of each window before, across and after the cutoff that the card records; or null
kt.cutoffSentence(cutoff, source)
    `kt.cutoffWord` in a sentence
kt.isCutoffDay(cutoff)
    whether it is a day
kt.cutoffOf(window, cutoff)
    how a window lies to the end of a model's training data: {word, kind, text}
kt.maskWords(mask), kt.modeWords(mode)
    what they mean, in a few words */
"use strict";

(() => {
  const {el, format, plural, known} = kt;
  const WORDS = kt.values.words;
  const look = (table, name) => (Object.hasOwn(table, name) ? table[name] : "");
  const maskWords = (mask) => look(WORDS.masks, mask);
  const modeWords = (mode) => look(WORDS.modes, mode);
  const percent = (value) => format.percent(value, 2, true);

  const isDay = kt.isCutoffDay;

  /* The end of training data in a sentence, with its source. */
  function cutoffSentence(cutoff, source) {
    const from = source ? ` (${source})` : "";
    if (cutoff === "none") return `Nothing was trained${from}.`;
    return isDay(cutoff)
      ? `The model's training data end on ${cutoff}${from}.`
      : `The end of the model's training data is not known${from}.`;
  }

  function cutoffOf(window, cutoff) {
    if (cutoff === "none")
      return {
        word: "nothing trained",
        kind: "",
        text: "Nothing was trained: there are no training data.",
      };
    if (!isDay(cutoff))
      return {
        word: "not known",
        kind: "",
        text: "The end of the model's training data is not known.",
      };
    if (window.first > cutoff)
      return {
        word: "after",
        kind: "good",
        text: `All of the window is later than the training data, which end on ${cutoff}.`,
      };
    if (window.last <= cutoff)
      return {
        word: "before",
        kind: "warn",
        text: `The model may have seen this window: its training data end on ${cutoff}.`,
      };
    return {
      word: "inside",
      kind: "warn",
      text: `The training data end on ${cutoff}, within the window.`,
    };
  }

  const windowsAfter = (windows, cutoff) =>
    windows.filter((window) => cutoffOf(window, cutoff).word === "after").length;

  function afterWords(windows, cutoff) {
    const after = windowsAfter(windows, cutoff);
    if (after === windows.length)
      return after === 1 ? "The window is later." : `All ${after} windows are later.`;
    return after
      ? `${after} of ${plural(windows.length, "window")} ${after === 1 ? "is" : "are"} wholly ` +
          `later.`
      : `None of the ${plural(windows.length, "window")} is wholly later.`;
  }

  function sidesWords({knowledge_cutoff: cutoff}) {
    const days = Object.entries(cutoff?.windows || {});
    return days.length
      ? `${days
          .map(
            ([name, {before, across, after}]) =>
              `${name}: ${before} before, ${across} across, ${after} after`,
          )
          .join("; ")} (${cutoff.date})`
      : null;
  }

  const metric = (card, name) => card.metrics?.[name] || {value: null};
  const middleHalf = (entry, unit) => {
    const ends = kt.spread(entry);
    if (!ends || !known(ends.low)) return "";
    const what = ends.kind === "interquartile" ? "middle half of episodes" : "interval";
    return ` (${what} ${format.range(ends.low, ends.high, unit)})`;
  };

  function what({card}) {
    const task = [maskWords(card.task.mask), modeWords(card.task.mode)].filter(Boolean).join("; ");
    const spans = card.windows || [];
    const windows = spans.map((window) => window.name);
    const named = windows.length > 4 ? `${windows[0]} to ${windows.at(-1)}` : format.list(windows);
    const days = spans.map((window) => window.first).sort()[0];
    const last = spans
      .map((window) => window.last)
      .sort()
      .at(-1);
    const about = card.kind === "scoring" ? "answered the questions of" : "traded";
    const generated = card.snapshot?.synthetic ? ", which is generated and not real" : "";
    return [
      `${card.model.name} with the agent ${card.agent.name} ${about} the task ${card.task.name}, ` +
        `version ${card.task.version}${task ? ` (${task})` : ""}, ` +
        (windows.length
          ? `over ${plural(windows.length, "window")} (${named}, ${days} to ${last}) `
          : "") +
        `with ${plural(card.seeds.length, "seed")}: ` +
        `${plural(card.coverage.episodes_finished, "episode")}.`,
      ...(card.snapshot
        ? [
            `The market is ` +
              `${card.snapshot.name}${generated} ` +
              `(snapshot ${format.short(card.snapshot.id)}…).`,
          ]
        : []),
    ];
  }

  function ordinal(n) {
    const last = n % 100;
    return `${n}${last > 10 && last < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] || "th"}`;
  }

  function standing(entry) {
    const rank = entry.ranks?.all;
    if (!entry.ranked || !rank || rank.rank === null) {
      return [entry.why.length ? `It has no rank: ${entry.why.join("; ")}.` : "It has no rank."];
    }
    const alpha = known(rank.alpha_rank)
      ? ` By selection alpha it is ` +
        `${rank.alpha_tied_with ? kt.alphaRange(rank) : ordinal(rank.alpha_rank)}` +
        `${kt.alphaRange(rank) === kt.rankRange(rank) ? ", too" : ""}.`
      : "";
    const tie = known(rank.tie)
      ? ` It is in tie group ${format.tie(rank.tie)}: entrants of one group can't be distinguished ` +
        `by their daily returns.`
      : "";
    const place = rank.tied_with
      ? `It is ${kt.rankWords(rank)}.`
      : `It is ranked ${ordinal(rank.rank)} of ${rank.of}.`;
    return [`${place}${alpha}${tie}`];
  }

  /** Windows won against buying the benchmark, by the median over seeds. */
  function against(card) {
    const reference = card.reference?.benchmark_buy_and_hold || {};
    const windows = card.windows.filter((window) =>
      known(reference[window.name]?.metrics.total_return.value),
    );
    const excess = windows
      .map((window) => {
        const values = card.episodes
          .filter((episode) => episode.window === window.name)
          .map((episode) => episode.metrics.total_return?.value)
          .filter(known);
        return kt.stats.median(values) === null
          ? null
          : kt.stats.median(values) - reference[window.name].metrics.total_return.value;
      })
      .filter(known);
    if (!excess.length) return [];
    // null: the data hold no dividends
    const growthOf = (one) => one.metrics.information_ratio?.detail?.dividend_growth;
    const lacks = card.episodes
      .filter((one) => known(growthOf(one)))
      .map((one) => (growthOf(one) * one.steps) / 252);
    return [
      `It did better than buying and holding the benchmark in ` +
        `${excess.filter((value) => value > 0).length} of ` +
        `${plural(excess.length, "window")}; ` +
        `the median difference is ${percent(kt.stats.median(excess))}.` +
        (lacks.length
          ? ` A price index lacks dividends: ${percent(kt.stats.median(lacks))} an episode by ` +
            `the members' factors.`
          : ""),
    ];
  }

  function result(entry) {
    const {card} = entry;
    const total = metric(card, "total_return");
    const lines = [
      `The median total return of an episode is ` +
        `${percent(total.value)}${middleHalf(total, "fraction")}, after fees.`,
      ...against(card),
    ];
    const fall = metric(card, "max_drawdown");
    const sharpe = kt.stats.shownFigure(entry, "sharpe", metric(card, "sharpe"));
    if (known(sharpe.value))
      lines.push(
        `The median Sharpe ratio is ` +
          `${format.number(sharpe.value)}${middleHalf(sharpe, "ratio")}, the median of the ` +
          `largest falls ${format.percent(fall.value)}.`,
      );
    return lines;
  }

  function luck(series) {
    const ranks = (series?.episodes || [])
      .map((episode) => episode.envelope)
      .filter((envelope) => envelope && known(envelope.rank));
    if (!ranks.length) return [];
    const best = ranks.filter(
      (envelope) => known(envelope.p_value) && envelope.p_value <= 0.05,
    ).length;
    const worst = ranks.filter((envelope) => envelope.rank <= 0.05).length;
    return [
      `It beats ${format.percent(kt.stats.median(ranks.map((envelope) => envelope.rank)), 0)} of ` +
        `random traders of the same dates, turnover and number of names ` +
        `(median over episodes; chance gives 50 %). In ${best} of ` +
        `${plural(ranks.length, "episode")} it is among their best twentieth, in ${worst} among ` +
        `their worst; chance alone puts about ${format.number(ranks.length * 0.05, 1)} in each.`,
    ];
  }

  function sources({card}) {
    if (!card.attribution?.value)
      return card.attribution ? [`The return is not split: ${card.attribution.reason}.`] : [];
    // Medians over episodes do not add up; the parts of one episode do.
    const split = card.episodes.filter((one) => known(one.metrics.selection_alpha?.value));
    const episode =
      split[kt.stats.nearestToMedian(split.map((one) => one.metrics.total_return.value))];
    const value = (name) => episode.metrics.selection_alpha.detail.linked[name];
    const part = (name) => percent(episode.metrics[name].value);
    const lines = episode.metrics.selection_alpha.detail.linked;
    const styles = Object.keys(lines).filter(
      (name) =>
        !["common", "industry", "selection", "timing", "fees", "rounding"].includes(name) &&
        known(value(name)),
    );
    styles.sort((one, other) => Math.abs(value(other)) - Math.abs(value(one)));
    const largest = styles
      .slice(0, 2)
      .map((name) => `${kt.charts.factorTitle(name)} ${percent(value(name))}`);
    return [
      `Of the ${part("total_return")} of one episode (${episode.window}, seed ${episode.seed}: ` +
        (split.length > 1
          ? "the nearest to the median return), "
          : "the only one with an attribution), ") +
        `${percent(value("common"))} is the market's, ` +
        (episode.metrics.industry_return
          ? `${part("industry_return")} comes from industries, `
          : "") +
        `${part("style_return")} from style factors` +
        `${largest.length ? ` (largest: ${largest.join(", ")})` : ""}, ` +
        `${percent(value("selection"))} from the choice of stocks, ` +
        `and ${part("trading_effect")} from the timing of fills and fees.`,
    ];
  }

  function confidence({card}) {
    const given = card.calibration;
    if (!given || !given.n) return [];
    const bins = given.bins.filter((bin) => bin.n);
    const mean = (field) => bins.reduce((total, bin) => total + bin.n * bin[field], 0) / given.n;
    return [
      `Its ${plural(given.n, "order")} with an outcome were placed with a mean confidence of ` +
        `${format.number(mean("mean_confidence"))}; ${format.percent(mean("accuracy"), 1)} came ` +
        `out right, and their calibration error is ` +
        `${format.number(kt.stats.calibrationError(given), 3)}.`,
    ];
  }

  function scores({card}) {
    const headline = (card.score_order || []).filter(
      (name) => card.scores[name].headline && known(card.scores[name].value),
    );
    return headline.map((name) => {
      const {value, unit, interval, baseline} = card.scores[name];
      const range =
        interval && known(interval.low)
          ? ` (${format.range(interval.low, interval.high, unit)})`
          : "";
      const chance = known(baseline) ? `; chance gives ${format.value(baseline, unit)}` : "";
      return `${kt.words(name)}: ${format.value(value, unit)}${range}${chance}.`;
    });
  }

  function conduct({card}) {
    const {coverage, orders, usage} = card;
    const decided = coverage.steps_planned ? coverage.steps_decided / coverage.steps_planned : null;
    const others = decided < 1 ? "; at the others the engine held" : "";
    const lines = [
      orders
        ? `The model decided ${format.percent(decided, 1)} of ` +
          `${plural(coverage.steps_planned, "step")}${others}.`
        : `The model answered ${format.percent(decided, 1)} of ` +
          `${plural(coverage.steps_planned, "question")}.`,
    ];
    if (orders) {
      const rejected = orders.submitted ? orders.rejected / orders.submitted : 0;
      lines.push(
        `Of ${plural(orders.submitted, "order")} ${format.count(orders.rejected)} ` +
          `(${format.percent(rejected, 1)}) were rejected by trading rules.`,
      );
    }
    const failed = kt.failedWords(card);
    if (failed) lines.unshift(`Failures and repairs: ${failed}.`);
    if (usage.input_tokens)
      lines.push(
        `It read ${format.count(usage.input_tokens)} and wrote ` +
          `${format.count(usage.output_tokens)} tokens.`,
      );
    const cost = card.cost.per_episode;
    if (known(cost?.value) && cost.value > 0)
      lines.push(
        `An episode costs ${format.value(cost.value, "usd")} (median) at the price of ` +
          `${card.cost.price.as_of}.`,
      );
    return lines;
  }

  function memory({card, submission}) {
    const {cutoff_date: cutoff, cutoff_source: source} = submission.model || {};
    const said = cutoffSentence(cutoff, source);
    if (!isDay(cutoff) || !card.windows) return [said];
    const rest = kt.windowsAfter(card.windows, cutoff) < card.windows.length;
    return [
      `${said} ${kt.afterWords(card.windows, cutoff)}` +
        (rest && card.task.mask === "bright"
          ? " In the others it may remember the market, which nothing hides."
          : ""),
    ];
  }

  function trust({card, verdict, errata, labels, submission}) {
    const tier = verdict ? verdict.tier : "unchecked";
    const lines = [`Tier: ${tier}. ${kt.values.words.tiers[tier]?.meaning || ""}`];
    (verdict?.notes || []).forEach((note) => lines.push(`Note of the check: ${note}`));
    if (labels.length) lines.push(`Labels: ${labels.map(kt.labelText).join(", ")}.`);
    if (submission.attempts) {
      const {runs, note} = submission.attempts;
      const where = card.windows ? "these windows" : "this task";
      const noteWords = note ? ` (${note})` : "";
      lines.push(
        `The submitter states ${plural(runs, "run")} of this model and agent on ` +
          `${where}${noteWords}.`,
      );
    }
    (errata || []).forEach((erratum) =>
      lines.push(`Erratum of ${erratum.date} (${erratum.effect}): ${erratum.what}`),
    );
    return lines;
  }

  function report(entry, board, series) {
    const {card} = entry;
    const trading = card.kind !== "scoring";
    const parts = [
      ["What was run", what(entry)],
      ["Standing", standing(entry)],
      ["Result", trading ? result(entry) : scores(entry)],
      ["Against chance", trading ? luck(series) : []],
      ["Where the return comes from", trading ? sources(entry) : []],
      ["Confidence", trading ? confidence(entry) : []],
      ["Conduct and cost", conduct(entry)],
      ["Memory", memory(entry)],
      ["Trust", trust(entry)],
    ];
    return el(
      "article.report",
      el("h3", `${card.model.name}, ${card.agent.name}: ${card.task.name}`),
      parts
        .filter(([, lines]) => lines.length)
        .map(([title, lines]) =>
          el(
            "section",
            el("h4", title),
            lines.map((line) => el("p", line)),
          ),
        ),
      el(
        "p.quiet",
        `From the board “${board.title}”, card ${entry.id}. ${
          trading ? "Medians are over episodes; nothing" : "Nothing"
        } here is advice to trade.`,
      ),
    );
  }

  Object.assign(kt, {
    report,
    ordinal,
    cutoffOf,
    cutoffSentence,
    sidesWords,
    windowsAfter,
    afterWords,
    maskWords,
    modeWords,
  });
})();
