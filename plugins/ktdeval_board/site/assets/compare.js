/* Two cards of one division head-to-head: the paired test over windows, equity, and the decisions
side by side.

Address: #a=ID&b=ID, and optionally metric=, window=, seed=; division= while cards are being chosen.
*/
"use strict";

(() => {
  const {el, format, known, plural} = kt;
  const {of: table, right} = kt.table;
  const LEVEL = 0.05;

  // -- who is compared

  async function loadSide(id, names) {
    if (!id) return null;
    const entry = await kt.load(`card/${id}`);
    const {card} = entry;
    return {
      id,
      entry,
      card,
      label: names.get(id)?.label || `${card.model.name}, ${card.agent.name}`,
    };
  }

  function pickers(board, cards) {
    const {choice} = kt.state;
    const inDivision = (division) =>
      cards
        .filter((card) => card.division === division)
        .map((card) => [card.card, card.label])
        .sort((one, other) => (one[1] < other[1] ? -1 : 1));
    const fields = {
      division: choice({
        label: "Division",
        name: "division",
        options: board.divisions.map(({id}) => [id, id]),
        also: {a: "", b: "", metric: "", window: "", seed: ""},
      }),
      a: choice({label: "First (A)", name: "a"}),
      b: choice({label: "Second (B)", name: "b"}),
    };
    let listed = null;
    const swap = kt.button(
      "Swap",
      () => kt.state.set({a: kt.state.get("b"), b: kt.state.get("a")}),
      {class: "small"},
    );
    return {
      element: el(
        "div.pickers",
        Object.values(fields).map((field) => field.element),
        swap,
      ),
      set(division, a, b) {
        if (listed !== division) {
          listed = division;
          fields.a.options([["", "choose a card"], ...inDivision(division)]);
          fields.b.options([["", "choose a card"], ...inDivision(division)]);
        }
        fields.division.set(division);
        fields.a.set(a || "");
        fields.b.set(b || "");
      },
    };
  }

  /** The two best cards of a division, by rank and then in the order of the board. */
  async function topTwo(division) {
    if (!division) return [];
    const {rows} = await kt.load(`division/${division}/all`);
    const place = ({rank}) => rank ?? Infinity;
    return rows
      .filter(({card}) => card)
      .sort((one, other) => place(one) - place(other) || 0)
      .slice(0, 2)
      .map(({card}) => card);
  }

  /** Why two cards can't be compared, in words; empty where they can. */
  function obstacles(first, second) {
    if (first.id === second.id) return ["Both are the same card."];
    const [one, other] = [first.entry.division, second.entry.division];
    if (!one || !other)
      return [
        `${one ? second.label : first.label} is of no division of this board: nothing is ` +
          `comparable to it.`,
      ];
    if (one === other) return [];
    return [
      `A is of the division ${one}, B of ${other}.`,
      "Figures of different tasks, masks, modes, windows or markets are not comparable.",
      ...(first.card.model.name === second.card.model.name
        ? ["What a mask is worth to one model is on its model page."]
        : []),
    ];
  }

  function side(view, at) {
    const {entry, card, label} = view.sides[at];
    const rank = entry.ranks.all;
    return el(
      "section.side",
      {"aria-label": `Card ${"AB"[at]}`},
      el("h2", el(`span.key.key-${at + 1}`, {"aria-hidden": "true"}), `${"AB"[at]}: ${label}`),
      el(
        "p",
        kt.tierChip(entry.verdict?.tier || "unchecked"),
        " ",
        entry.labels.map((name) => [kt.labelChip(name), " "]),
      ),
      kt.failedLine(card),
      kt.facts([
        ["Model", kt.modelLink(card.model.name, null, {card: entry.id})],
        ["Agent", card.agent.name],
        [
          "Rank",
          entry.ranked && rank
            ? kt.rankWords(rank)
            : `none: ${entry.why.join("; ") || "a baseline"}`,
        ],
        ["α-rank", entry.ranked && rank && known(rank.alpha_rank) ? kt.alphaRange(rank) : null],
        ["Tie group", entry.ranked && known(rank?.tie) ? format.tie(rank.tie) : null],
        ["Submitted", `${entry.submission.submitted_on} by ${entry.submission.submitter.name}`],
        ["Card", kt.cardLink(entry.id)],
      ]),
    );
  }

  // -- the test

  const divisionOf = (view) =>
    view.board.divisions.find((division) => division.id === view.sides[0].entry.division);
  const titleOf = (view, name) => view.board.metrics[name]?.title || kt.words(name);

  /** Figures that both cards have, in the order of the board's columns. */
  function metricNames(view) {
    const [left, right] = view.sides.map(({card}) => card.metrics || card.scores);
    const names = new Set([...(divisionOf(view)?.columns || []), ...Object.keys(left)]);
    return [...names].filter((name) => Object.hasOwn(left, name) && Object.hasOwn(right, name));
  }

  function metricOf(view) {
    const names = metricNames(view);
    const wanted = kt.state.get("metric");
    return names.includes(wanted)
      ? wanted
      : names.includes("total_return")
        ? "total_return"
        : names[0];
  }

  function verdict(view, {ranks}, better, title) {
    const by = title.toLowerCase();
    if (ranks.p === null) return `No p-value here: ${ranks.reason}. Run the command below.`;
    if (ranks.p > LEVEL || !ranks.effect) {
      return (
        `By ${by} A and B can't be told apart on these windows (p = ` +
        `${format.number(ranks.p, 3)}).`
      );
    }
    const isFirst = ranks.effect > 0 !== (better === "lower");
    const winner = isFirst ? `A, ${view.sides[0].label},` : `B, ${view.sides[1].label},`;
    const p = format.number(ranks.p, ranks.p < 0.001 ? 5 : 3);
    return `${winner} is ${better === "neither" ? "higher" : "better"} by ${by} (p = ${p}).`;
  }

  /** Whether so few windows could have shown anything at all. */
  function reach({ranks}) {
    if (!known(ranks.smallest) || ranks.smallest <= LEVEL || !ranks.nonzero) return null;
    const windows = plural(ranks.nonzero, "differing window");
    return (
      `${windows} can't reach p ${LEVEL} whatever the figures: the smallest p is ` +
      `${format.number(ranks.smallest, 4)}.`
    );
  }

  function seedNotes([a, b]) {
    const common = a.card.seeds.filter((seed) => b.card.seeds.includes(seed));
    const differ = a.card.seeds.join() !== b.card.seeds.join();
    return [
      differ && common.length
        ? `The cards have other seeds (A: ${format.list(a.card.seeds)}; B: ` +
          `${format.list(b.card.seeds)}); compared on those that both have: ${format.list(common)}.`
        : null,
      common.length ? null : "The cards have no common seed, so nothing can be paired.",
      common.length === 1
        ? "One seed: the randomness of decoding is neither averaged out nor measured."
        : null,
    ];
  }

  function notes(view, found, test) {
    const [a, b] = view.sides.map(({card}) => card);
    const worth = format.number(view.pairing.effective_windows, 1);
    return [
      reach(test),
      test.overlap
        ? `Windows share days: ${worth} effective windows; p and interval allow for it, and sign ` +
          `flips move them in ${plural(test.flips.blocks, "block")}.`
        : null,
      ...seedNotes(view.sides),
      ...Object.entries(found.leftOut).map(
        ([reason, count]) => `${plural(count, "episode")} left out: ${reason}.`,
      ),
      ...view.sides
        .filter(({entry}) => !entry.verdict)
        .map(({label}) => `The board has not checked the figures of ${label}.`),
      a.agent.name !== b.agent.name
        ? "The agents differ: the comparison mixes the effects of model and agent."
        : null,
      JSON.stringify(a.call) !== JSON.stringify(b.call) ? "The call parameters differ." : null,
      "Who looks at several metrics or many pairs finds differences by chance; ktdeval compare " +
        "corrects for all it is given.",
    ].filter(Boolean);
  }

  function testSection(view) {
    const options = metricNames(view).map((name) => [name, titleOf(view, name)]);
    view.metric = kt.state.choice({label: "Metric", name: "metric", options});
    const names = ["test", "equity", "drawdown", "days"];
    view.places = Object.fromEntries(names.map((name) => [name, el("div")]));
    return el(
      "section",
      el("h2", "Paired test over windows"),
      el("div.pickers", view.metric.element),
      view.places.test,
    );
  }

  function testFacts({ranks, shift, flips}, unit) {
    const quiet = (text) => el("span.quiet", ` ${text}`);
    const or = (value, shown, reason) =>
      known(value) ? shown() : el("span.none", `none: ${reason}`);
    const signed = {signed: true};
    const how = ranks.method === "exact" ? "exact" : "simulated, windows share days";
    return kt.facts([
      [
        "Windows",
        known(ranks.n) &&
          `${ranks.n}${ranks.nonzero === ranks.n ? "" : `, ${ranks.nonzero} of them differ`}`,
      ],
      [
        "Shift, A less B",
        [format.cell(shift.value, unit, shift.reason, signed), quiet("Hodges-Lehmann")],
      ],
      [
        `Interval${known(shift.confidence) ? `, ${format.percent(shift.confidence, 1)}` : ""}`,
        or(shift.low, () => format.range(shift.low, shift.high, unit, signed), shift.reason),
      ],
      ["Wilcoxon p", or(ranks.p, () => [format.number(ranks.p, 4), quiet(how)], ranks.reason)],
      ["Sign-flip p", or(flips.p, () => format.number(flips.p, 4), flips.reason)],
      [
        "Rank-biserial",
        or(
          ranks.effect,
          () => [format.number(ranks.effect, 2, true), quiet("−1 to 1")],
          "no window differs",
        ),
      ],
    ]);
  }

  function differencesTable(rows, unit, title) {
    const middle = (pairs, field) =>
      format.value(kt.stats.median(pairs.map((pair) => pair[field])), unit);
    return table(`${title} by window`, rows, [
      ["Window", ({window}) => window],
      [right("A"), ({pairs}) => middle(pairs, "first")],
      [right("B"), ({pairs}) => middle(pairs, "second")],
      [right("A less B"), ({value}) => format.value(value, unit, {signed: true})],
      [right("Seeds"), ({pairs}) => format.count(pairs.length)],
    ]);
  }

  function drawTest(view) {
    const name = metricOf(view);
    if (view.tested === name) return;
    view.tested = name;
    view.metric.set(name);
    const [a, b] = view.sides.map(({card}) => card);
    const {unit, better} = view.board.metrics[name] || a.metrics[name];
    const title = titleOf(view, name);
    const found = kt.stats.windowDifferences(a, b, name);
    const test = kt.stats.testOf(view.pairing, view.tests, view.sides[1].id, name);
    const chart = el("div");
    kt.replace(
      view.places.test,
      el("p.verdict", {role: "status"}, verdict(view, test, better, title)),
      testFacts(test, unit),
      kt.listed("ul.notes", notes(view, found, test)),
      chart,
      differencesTable(found.rows, unit, title),
      el(
        "p.quiet",
        "A pair is a window: the difference is the median over seeds of differences between " +
          "equal seeds, so it need not be that of the two medians. On your machine:",
      ),
      kt.command(
        `ktdeval compare ${view.sides.map(({entry}) => entry.path).join(" ")} --metric ${name}`,
      ),
    );
    const pairs = found.rows.flatMap((row) => row.pairs);
    if (pairs.length < 2) return; // the table has the one difference
    kt.charts.differences(chart, found.rows, {
      title: `${title}: A less B by window`,
      unit,
      description:
        `Bars are medians over seeds, dots single ` +
        `seeds.${better === "lower" ? " Lower is better." : ""}`,
    });
  }

  // -- all figures beside each other

  /** Cells of both cards, and the card whose value is ahead. */
  function figureCells(view, name) {
    const [left, right] = view.sides.map(({entry}) => kt.stats.shownFigures(entry)[name]);
    const unit = view.board.metrics[name]?.unit || left.unit;
    const range = (figure) => {
      const ends = kt.spread(figure);
      if (!ends || !known(ends.low)) return null;
      return el("span.between", format.range(ends.low, ends.high, unit));
    };
    const cell = (figure) => [format.cell(figure.value, unit, figure.reason), range(figure)];
    const differ =
      known(left.value) &&
      known(right.value) &&
      left.value !== right.value &&
      left.better !== "neither";
    const isFirst = left.value > right.value === (left.better === "higher");
    return {name, a: cell(left), b: cell(right), ahead: differ ? (isFirst ? "A" : "B") : ""};
  }

  function figuresSection(view) {
    const [{card}] = view.sides;
    const scoring = card.kind === "scoring";
    const defaults = divisionOf(view)?.default_columns || [];
    const isFirst = (name) =>
      (card.metrics || card.scores)[name].headline || defaults.includes(name);
    const names = metricNames(view);
    const columns = [
      ["Figure", ({name}) => titleOf(view, name)],
      [right("A"), ({a}) => a],
      [right("B"), ({b}) => b],
      [
        {text: "Ahead", title: "Compares the two values only; chance is not considered"},
        ({ahead}) => ahead,
      ],
    ];
    const tableOf = (caption, some) =>
      table(
        caption,
        some.map((name) => figureCells(view, name)),
        columns,
      );
    const further = names.filter((name) => !isFirst(name));
    const said = scoring
      ? "Scores are made of all answers together, so there is no paired test over windows. " +
        "Intervals are those of each card."
      : "Medians over episodes, below them the interquartile range, or the interval of the only " +
        "episode with a figure. “Ahead” compares the two values only; chance is not considered.";
    return el(
      "section",
      el("h2", scoring ? "Scores" : "All figures"),
      el("p.quiet", said),
      tableOf("Headline figures", names.filter(isFirst)),
      further.length ? kt.details("Further figures", tableOf("Further figures", further)) : null,
    );
  }

  // -- equity and decisions of one window

  /**
   * The episode of the address in both cards, and the episodes of the first that the second has,
   * too.
   */
  function episodePair([one, other]) {
    const twin = (episode) =>
      other.episodes.find(
        (second) => second.window === episode.window && second.seed === episode.seed,
      );
    const cells = one.episodes.filter(twin);
    const own = cells.filter(
      (episode) => episode.window === (kt.state.get("window") || cells[0].window),
    );
    const first =
      own.find((episode) => String(episode.seed) === kt.state.get("seed")) || own[0] || cells[0];
    return {cells, first, second: first && twin(first)};
  }

  function episodeSection(view) {
    const {choice} = kt.state;
    const {cells} = episodePair(view.series);
    const windows = new Set(cells.map(({window}) => window));
    const seeds = new Set(cells.map(({seed}) => String(seed)));
    view.window = choice({
      label: "Window",
      name: "window",
      options: [...windows].map((name) => [name, name]),
    });
    view.seed = choice({
      label: "Seed",
      name: "seed",
      options: [...seeds].map((seed) => [seed, `seed ${seed}`]),
    });
    return el(
      "section",
      el("h2", "One episode"),
      el("div.pickers", view.window.element, view.seed.element),
      view.places.equity,
      view.places.drawdown,
      el("h3", "Decisions side by side"),
      view.places.days,
    );
  }

  function drawEpisode(view) {
    const {first, second} = episodePair(view.series);
    if (!first) {
      kt.replace(view.places.equity, el("p.quiet", "The cards have no common window and seed."));
      return;
    }
    view.window.set(first.window);
    view.seed.set(String(first.seed));
    if (view.decisions) drawDays(view, first);
    if (view.drawn === first.id) return;
    view.drawn = first.id;
    const line = ({days, base_day}, nav, label, more) => ({label, days, base_day, nav, ...more});
    const lines = [first, second].map((episode, at) =>
      line(episode, episode.nav, `${"AB"[at]}: ${view.sides[at].label}`),
    );
    const index = first.benchmark
      ? [line(first, first.benchmark, "benchmark", {benchmark: true})]
      : [];
    const which = `${first.window}, seed ${first.seed}`;
    kt.charts.equity(view.places.equity, [...lines, ...index], {
      title: `Return in ${which}`,
      description: "With fees.",
      height: 260,
    });
    kt.charts.drawdown(view.places.drawdown, lines, {title: `Drawdown in ${which}`});
  }

  function drawDays(view, {window, seed}) {
    const place = view.places.days;
    if (place.dataset.shown === `${window} ${seed}`) return;
    place.dataset.shown = `${window} ${seed}`;
    const isIt = (episode) => episode.window === window && episode.seed === seed;
    kt.portfolio.beside(
      place,
      view.decisions.map((decisions) => decisions.episodes.find(isIt)?.steps || []),
    );
  }

  function loadDecisions(view) {
    const {days} = view.places;
    if (!view.sides.every(({entry}) => entry.has_decisions)) {
      const why =
        "At least one of the cards has no decisions by day: they are made when the board's check " +
        "executes its records.";
      kt.replace(days, el("p.quiet", why));
      return;
    }
    kt.replace(days, kt.loading("the decisions"));
    kt.charts.whenSeen(days, async () => {
      try {
        view.decisions = await Promise.all(view.sides.map(({id}) => kt.load(`decisions/${id}`)));
        drawEpisode(view);
      } catch (error) {
        kt.replace(days, el("p.trouble", error.message));
      }
    });
  }

  // -- the page

  async function showPair(view) {
    const refused = obstacles(...view.sides);
    const head = el("div.beside", side(view, 0), side(view, 1));
    if (refused.length) {
      const why = el("p", el("strong", "These cards can't be compared. "), refused.join(" "));
      return kt.replace(view.body, el("div.trouble", {role: "alert"}, why), head);
    }
    const [first] = view.sides;
    if (first.card.kind === "scoring") return kt.replace(view.body, head, figuresSection(view));
    view.pairing = await kt.load(`pairs/${first.entry.division}/all`);
    const isTested = view.sides.every(({id}) => view.pairing.cards.includes(id));
    view.tests = isTested ? await kt.load(`pairs/${first.entry.division}/${first.id}`) : null;
    const hasSeries = view.sides.every(({entry}) => entry.has_series);
    view.series = hasSeries
      ? await Promise.all(view.sides.map(({id}) => kt.load(`series/${id}`)))
      : null;
    const missing =
      "At least one of the cards has no daily series, so there is no equity to lay over each " +
      "other.";
    const test = testSection(view);
    kt.replace(
      view.body,
      head,
      kt.button("Print this page", () => kt.charts.print(), {class: "small on-screen"}),
      test,
      view.series ? episodeSection(view) : el("p.quiet", missing),
      figuresSection(view),
    );
    if (view.series) loadDecisions(view);
    return refresh(view);
  }

  function refresh(view) {
    if (!view.pairing) return;
    drawTest(view);
    if (view.series) drawEpisode(view);
  }

  kt.page(async (main) => {
    const [board, index] = await Promise.all([kt.load("board"), kt.load("cards-index")]);
    const cards = index.rows.map((row) =>
      Object.fromEntries(index.columns.map((column, at) => [column, row[at]])),
    );
    const names = new Map(cards.map((card) => [card.card, card]));
    const picked = pickers(board, cards);
    const place = el("div");
    kt.replace(
      main,
      el(
        "p.lead",
        "Two cards of one division, tested on the windows that both have traded, as ktdeval " +
          "compare tests them.",
      ),
      picked.element,
      place,
    );
    let view = null;
    const update = async () => {
      const [a, b] = [kt.state.get("a"), kt.state.get("b")];
      const division =
        names.get(a)?.division ||
        names.get(b)?.division ||
        kt.state.get("division") ||
        board.divisions[0]?.id;
      picked.set(division, a, b);
      if (!a && !b) {
        const [first, second] = await topTwo(division);
        // which draws them
        if (second && kt.state.get("a") === a) kt.state.set({a: first, b: second}, {replace: true});
        if (second) return;
      }
      if (!a || !b) {
        view = null;
        kt.replace(
          place,
          el(
            "p.empty",
            a || b ? "Choose the other card." : "There are no two cards to compare here.",
          ),
        );
        return;
      }
      if (view && view.ids === `${a} ${b}`) {
        refresh(view);
        return;
      }
      const own = {board, ids: `${a} ${b}`, body: el("div")};
      view = own;
      own.sides = await Promise.all([loadSide(a, names), loadSide(b, names)]);
      if (view !== own) return; // another pair was chosen meanwhile
      kt.replace(place, own.body);
      document.title = `${own.sides.map(({label}) => label).join(" against ")} · ${board.title}`;
      await showPair(own);
    };
    kt.state.onChange(() => update().catch(kt.fail));
    await update();
  });
})();
