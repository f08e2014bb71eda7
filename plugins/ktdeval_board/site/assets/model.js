/* The page of a model: who it is, how it stands, and one of its cards in charts.

Address: #model=NAME, and optionally card=ID (or agent= and division=), window=, seed=,
fees=without, day= (see portfolio.js). */
"use strict";

(() => {
  const {el, format, known, plural} = kt;
  const {of: table, right} = kt.table;
  const TRADING_COLUMNS = [
    ["total_return", "Return"],
    ["excess", "Excess"],
    ["selection_alpha", "α (selection)"],
    ["sharpe", "Sharpe"],
    ["max_drawdown", "Drawdown"],
    ["cost_usd", "Cost"],
  ];

  // -- which card

  /** The cards of the model with their rows in the tables of their divisions. */
  async function loadCards(model, board) {
    const tables = new Map(
      await Promise.all(
        [...new Set(model.cards.map((card) => card.division))]
          .filter(Boolean)
          .map(async (id) => [id, await kt.load(`division/${id}/all`)]),
      ),
    );
    const order = board.divisions.map((division) => division.id);
    return model.cards
      .map((card) => {
        const table = tables.get(card.division);
        const row = table?.rows.find((one) => one.card === card.card) || null;
        return {
          ...card,
          row,
          table,
          division: card.division,
          info: board.divisions.find((one) => one.id === card.division) || null,
        };
      })
      .sort(
        (one, other) =>
          order.indexOf(one.division) - order.indexOf(other.division) ||
          (one.agent < other.agent ? -1 : one.agent > other.agent ? 1 : 0),
      );
  }

  function chosenCard(cards) {
    const {get} = kt.state;
    const fits = (card) =>
      (!get("agent") || card.agent === get("agent")) &&
      (!get("division") || card.division === get("division"));
    return (
      cards.find((card) => card.card === get("card")) ||
      cards.find((card) => fits(card) && card.row?.ranked) ||
      cards.find(fits) ||
      cards.find((card) => card.row?.ranked) ||
      cards[0]
    );
  }

  const figure = (card, name, board) => {
    const at = card.table ? card.table.columns.indexOf(name) : -1;
    const metric = board.metrics[name];
    if (at < 0 || !card.row) return kt.format.NONE;
    return format.cell(card.row.values[at], metric?.unit, card.row.reasons?.[name], {
      signed: ["total_return", "excess", "selection_alpha"].includes(name),
    });
  };

  function cardsTable(cards, board, chosen) {
    const columns = TRADING_COLUMNS.filter(([name]) =>
      cards.some((card) => card.table?.columns.includes(name)),
    );
    const scores = columns.length
      ? []
      : [
          ...new Set(cards.flatMap((card) => (card.table ? card.table.columns.slice(0, 3) : []))),
        ].map((name) => [name, board.metrics[name]?.title || kt.words(name)]);
    const shown = [...columns, ...scores];
    // Systems of one model differ in parameters, such as doses of a memory.
    const systems = new Set(cards.map(({row}) => row?.label).filter(Boolean));
    const system = ["System", ({row}) => row?.label || format.NONE];
    const isRanked = ({row}) => row?.ranked;
    return table(
      "Cards of this model",
      cards,
      [
        ["Division", (card) => divisionCell(card, card === chosen)],
        ...(systems.size > 1 ? [system] : []),
        ["Agent", ({agent, row}) => [agent, row?.settings ? small(` ${row.settings}`) : null]],
        [right("Rank"), (card) => (isRanked(card) ? kt.rankRange(card.row) : noRank(card))],
        [
          right("α-rank", "Rank by selection alpha"),
          (card) =>
            isRanked(card) && known(card.row.alpha_rank) ? kt.alphaRange(card.row) : format.NONE,
        ],
        ...shown.map(([name, text]) => [right(text), (card) => figure(card, name, board)]),
        ["Tier", tierCell],
        ["Card", ({card}) => kt.cardLink(card)],
      ],
      {chosen: cards.indexOf(chosen)},
    );
  }

  const small = (text) => el("span.quiet.small-text", text);

  function divisionCell({card, division, info, mask, mode}, isChosen) {
    const href = kt.state.link("model.html", {model: kt.state.get("model"), card});
    const link = el(
      "a",
      {href, "aria-current": isChosen ? "true" : null},
      division || "no division",
    );
    const about = [mask, mode].filter(Boolean).map(kt.words).join(" · ");
    return el("span.wide-cell", link, " ", info ? small(about) : null);
  }

  function noRank({row}) {
    const why = row ? row.why.join("; ") || "a baseline is not ranked" : "in no table";
    return el("span.none", {title: why}, format.NONE);
  }

  function tierCell({tier, withdrawn}) {
    const why = "Taken out of the tables by the board's maintainers";
    return [kt.tierChip(tier), withdrawn ? [" ", kt.chip("withdrawn", "bad", why)] : null];
  }

  // -- who it is

  function facts(board, model) {
    const known_ = board.models.find((one) => one.name === model.name) || {};
    return kt.facts([
      ["Submitted by", known_.submitter],
      ["Agents", format.list(known_.agents || [...new Set(model.cards.map((card) => card.agent))])],
      [
        "Training data end",
        format.list([...new Set(model.cards.map((card) => kt.cutoffWord(card.cutoff)))].sort()),
      ],
      [
        "Weights",
        known_.open_weights === true ? "open" : known_.open_weights === false ? "closed" : null,
      ],
      ["Cards", format.count(model.cards.length)],
    ]);
  }

  function head(view) {
    const {entry, chosen} = view;
    const row = chosen.row;
    const parts = [
      kt.tierChip(chosen.tier),
      ...entry.labels.map((label) => kt.labelChip(label)),
      row?.baseline ? kt.chip(`baseline: ${row.baseline}`, "base") : null,
    ];
    const {name} = entry.card.model;
    const lead = [
      row && row.label !== name ? row.label : null,
      entry.ranked && entry.ranks.all ? `Rank: ${kt.rankWords(entry.ranks.all)}` : "Not ranked",
      entry.ranked && known(entry.ranks.all?.alpha_rank)
        ? `α-rank ${kt.alphaRange(entry.ranks.all)}`
        : null,
      `${entry.card.agent.name}`,
      row?.settings,
      `submitted ${entry.submission.submitted_on} by ${entry.submission.submitter.name}`,
    ]
      .filter(Boolean)
      .join(" · ");
    const why = entry.why.length
      ? el("p.trouble", el("strong", "Why it has no rank: "), entry.why.join("; "), ".")
      : null;
    const erratum = ({date, effect, what}) => [
      el("strong", `Erratum, ${date} (${effect}): `),
      what,
    ];
    const errata = kt.listed("ul.errata", entry.errata.map(erratum));
    return [
      el("h2", chosen.division || entry.card.task.name),
      el(
        "p",
        parts.flatMap((part) => (part ? [part, " "] : [])),
      ),
      kt.failedLine(entry.card),
      el(
        "p.quiet",
        lead,
        " · ",
        kt.cardLink(entry.id, "result card"),
        chosen.division ? [" · ", el("a", {href: kt.address.task(chosen.division)}, "task")] : null,
        " · ",
        el("a", {href: kt.state.link("compare.html", {a: entry.id})}, "compare with another"),
      ),
      why,
      errata,
    ];
  }

  // -- windows and the end of training data

  const inWindow = (episodes, window) =>
    (episodes || []).filter((episode) => episode.window === window.name);
  const figuresIn = (card, window, name) =>
    inWindow(card.episodes, window)
      .map((episode) => episode.metrics[name]?.value)
      .filter(known);
  const indexIn = (card, window) =>
    card.reference?.benchmark_buy_and_hold?.[window.name]?.metrics.total_return.value ?? null;

  /** Columns of what a card did in each window, medians over seeds. */
  function figureColumns({entry: {card}, series}) {
    const own = (window, name) => kt.stats.median(figuresIn(card, window, name));
    const cell = (of, reason, options) => (window) =>
      format.cell(of(window), "fraction", reason, options);
    const index = (window) => indexIn(card, window);
    const total = (window) => own(window, "total_return");
    const selection = (window) => own(window, "selection_alpha");
    const difference = (window) =>
      known(total(window)) && known(index(window)) ? total(window) - index(window) : null;
    const beaten = (window) => {
      const ranks = inWindow(series?.episodes, window).map(({envelope}) => envelope?.rank);
      return format.percent(kt.stats.median(ranks.filter(known)), 0);
    };
    const signed = {signed: true};
    return [
      [right("Return"), cell(total, "no figure", signed)],
      [right("Benchmark"), cell(index, "no benchmark", signed)],
      [right("Difference"), cell(difference, "no benchmark", signed)],
      [right("Selection"), cell(selection, "not attributed", signed)],
      [right("Drawdown"), cell((window) => own(window, "max_drawdown"), "no figure")],
      [
        right(
          "Beats random",
          "Share of random traders with the same dates and turnover that it beats",
        ),
        beaten,
      ],
    ];
  }

  function windowsSection(view) {
    const {
      entry: {card, submission},
    } = view;
    const {cutoff_date: cutoff, cutoff_source: source} = submission.model;
    const trading = card.kind !== "scoring";
    if (!card.windows) return null;
    const toTraining = {
      text: "To training data",
      title: "Where the window lies to the end of the model's training data",
    };
    const side = (window) => {
      const {word, kind, text} = kt.cutoffOf(window, cutoff);
      return kt.chip(word, kind, text);
    };
    const columns = [
      ["Window", ({name}) => name],
      ["First day", ({first}) => el("span.nb", first)],
      ["Last day", ({last}) => el("span.nb", last)],
      [right("Days"), ({days}) => format.count(days)],
      [toTraining, side],
      ...(trading ? figureColumns(view) : []),
    ];
    const after = kt.isCutoffDay(cutoff) ? ` ${kt.afterWords(card.windows, cutoff)}` : "";
    const said = kt.cutoffSentence(cutoff, source) + after;
    const marks = () =>
      card.windows.map((window) => ({
        window: window.name,
        values: figuresIn(card, window, "total_return"),
        benchmark: indexIn(card, window),
      }));
    return part("windows", "Windows and training data", [
      el("p", said),
      table("Windows", card.windows, columns),
      trading && card.episodes.length > 1
        ? slot((place) => kt.charts.windows(place, marks(), {title: "Total return by window"}))
        : null,
    ]);
  }

  // -- pieces of the page

  const sections = new Map();

  function part(id, title, children) {
    const heading = el("h2", {id: `part-${id}`, tabindex: "-1"}, title);
    sections.set(id, {title, heading});
    return el("section", {"aria-labelledby": `part-${id}`}, heading, children);
  }

  /** Share of random traders beaten: a chart, or a sentence where it would have one point. */
  function besideChance(episodes, order) {
    const found = episodes.filter(({envelope}) => known(envelope?.rank));
    if (found.length !== 1) return slot((place) => kt.charts.envelope(place, episodes, order));
    const [{window, envelope}] = found;
    return el(
      "p",
      `In ${window} it beats ${format.percent(envelope.rank, 1)} of ` +
        `${kt.plural(envelope.paths, "random trader")} with the same dates, activity and number ` +
        `of names (p = ${format.number(envelope.p_value, 3)}). Chance alone gives 50 %.`,
    );
  }

  function slot(fill, tag = "div") {
    const place = el(tag);
    fill(place);
    return place;
  }

  function contents() {
    return el(
      "nav.jump",
      {"aria-label": "On this page"},
      [...sections.values()].map(({title, heading}) =>
        kt.button(
          title,
          () => {
            heading.scrollIntoView({block: "start"});
            heading.focus({preventScroll: true});
          },
          {class: "small"},
        ),
      ),
    );
  }

  // -- one episode in charts; these follow window, seed and fees

  function episodeOf(series) {
    const window = kt.state.get("window");
    const seed = kt.state.get("seed");
    const own = series.episodes.filter((episode) => episode.window === window);
    const found = own.length
      ? own
      : series.episodes.filter((episode) => episode.window === series.episodes[0].window);
    const chosen = found.find((episode) => String(episode.seed) === seed) || null;
    return {all: found, one: chosen || found[0], chosen};
  }

  function episodeFields(view) {
    const {choice} = kt.state;
    const windows = [...new Set(view.series.episodes.map((episode) => episode.window))];
    const seeds = [...new Set(view.series.episodes.map((episode) => episode.seed))];
    const named = windows.map((name) => {
      const span = view.entry.card.windows.find((window) => window.name === name);
      return [name, span ? `${name} (${span.first} to ${span.last})` : name];
    });
    const several = seeds.length > 1 ? seeds.map((seed) => [String(seed), `seed ${seed}`]) : [];
    const all = ["", several.length ? "all seeds" : `seed ${seeds[0]}`];
    const fees = [
      ["", "with fees"],
      ["without", "without fees"],
    ];
    view.fields = {
      window: choice({label: "Window", name: "window", options: named, also: {day: ""}}),
      seed: choice({label: "Seed", name: "seed", options: [all, ...several]}),
      fees: choice({label: "Fees", name: "fees", options: fees}),
    };
    return el(
      "div.pickers",
      Object.values(view.fields).map((field) => field.element),
    );
  }

  function drawEpisode(view) {
    const {all, one, chosen} = episodeOf(view.series);
    const gross = kt.state.get("fees") === "without";
    const key = [one.id, chosen?.id, gross].join();
    if (view.drawn === key) return;
    view.drawn = key;
    view.fields.window.set(one.window);
    view.fields.seed.set(chosen && all.length > 1 ? String(chosen.seed) : "");
    view.fields.fees.set(gross ? "without" : "");
    const given = chosen ? [chosen] : all;
    const lineOf = ({days, base_day}, label, nav, more) => ({label, days, base_day, nav, ...more});
    const lines = given.map((episode) => {
      const label = given.length > 1 ? `seed ${episode.seed}` : "portfolio";
      return lineOf(episode, label, gross ? episode.gross_nav : episode.nav);
    });
    const index = one.benchmark ? [lineOf(one, "benchmark", one.benchmark, {benchmark: true})] : [];
    const banded = given.find((episode) => episode.envelope);
    const bands = banded
      ? {...banded.envelope, days: banded.days, base_day: banded.base_day}
      : null;
    const level = (at) => format.percent(bands.levels.at(at), 0);
    kt.charts.equity(view.places.equity, [...lines, ...index], {
      bands,
      title: `Return in ${one.window}, ${gross ? "without" : "with"} fees`,
      height: 280,
      description: bands
        ? `Grey: random traders of the same dates, turnover and number of ` +
          `names${given.length > 1 ? ` (of seed ${banded.seed})` : ""}, between their quantiles ` +
          `${level(0)} and ${level(-1)}` +
          `${bands.levels.length > 3 ? `, denser between ${level(1)} and ${level(-2)}` : ""}; ` +
          `they pay fees.`
        : one.envelope_reason
          ? `No random traders: ${one.envelope_reason}.`
          : "",
    });
    if (view.glance !== gross) {
      view.glance = gross;
      kt.charts.multiples(view.places.glance, view.series.episodes, {
        title: `All windows, ${gross ? "without" : "with"} fees`,
        gross,
      });
    }
    kt.charts.drawdown(view.places.drawdown, [...lines, ...index], {
      title: `Drawdown in ${one.window}`,
      description: "Fall from the highest value so far.",
    });
    if (one.common)
      kt.charts.attribution(view.places.attribution, one, {
        title: `Where the return comes from: ${one.window}, seed ${one.seed}`,
      });
    else
      kt.replace(
        view.places.attribution,
        el("p.quiet", `The return of this episode is not split: ${one.attribution_reason}.`),
      );
    kt.replace(view.places.sum, one.common ? addsUp(one) : null);
  }

  /** That the parts are the whole return, in figures. */
  function addsUp(episode) {
    const at = episode.days.length - 1;
    const parts = [
      ["market", "common"],
      ["industries", "industry"],
      ["style factors", "style"],
      ["selection", "selection"],
      ["trading", "trading"],
    ]
      .filter(([, field]) => episode[field])
      .map(([name, field]) => [name, episode[field][at]]);
    const sum = parts.reduce((total, [, value]) => total + value, 0);
    return el(
      "p.sum",
      parts.map(([name, value], place) => [
        place ? " + " : "",
        el("span", `${name} ${format.percent(value, 2, true)}`),
      ]),
      ` = ${format.percent(sum, 2, true)}; the total return is ` +
        `${format.percent(episode.nav.at(-1) - 1, 2, true)}.`,
    );
  }

  function seriesSections(view) {
    const {entry, series} = view;
    if (!series)
      return [
        part(
          "equity",
          "Equity",
          el(
            "p.quiet",
            "No daily series: they are made when the board's check executes the records again, " +
              "which has not been possible for this card.",
          ),
        ),
      ];
    view.glance = null;
    const names = ["glance", "equity", "drawdown", "attribution", "sum"];
    view.places = Object.fromEntries(names.map((name) => [name, el("div")]));
    const order = entry.card.windows.map((window) => window.name);
    const ranked = series.episodes.some((episode) => episode.envelope);
    return [
      part("equity", "Equity, benchmark and random traders", [
        episodeFields(view),
        view.places.equity,
        view.places.drawdown,
        series.episodes.length > 1 ? view.places.glance : null,
        ranked ? besideChance(series.episodes, order) : null,
      ]),
      part("attribution", "Attribution", [
        view.places.attribution,
        view.places.sum,
        entry.card.attribution?.value
          ? slot((place) => kt.charts.factors(place, entry.card))
          : el("p.quiet", entry.card.attribution?.reason),
      ]),
      series.episodes.some((episode) => episode.exposures)
        ? part(
            "exposures",
            "Exposures",
            slot((place) => kt.charts.exposures(place, series.episodes)),
          )
        : null,
    ];
  }

  // -- the rest of a card

  function reportSection({entry, board, series}) {
    return part("report", "Report", [
      entry.sentence ? el("p.verdict", entry.sentence) : null,
      kt.button("Print this page", () => kt.charts.print(), {class: "small on-screen"}),
      kt.report(entry, board, series),
    ]);
  }

  // -- the page

  async function showCard(main, view) {
    const {chosen} = view;
    view.entry = await kt.load(`card/${chosen.card}`);
    view.series = view.entry.has_series ? await kt.load(`series/${chosen.card}`) : null;
    if (view.chosen !== chosen) return; // another was chosen meanwhile
    sections.clear();
    const trading = view.entry.card.kind !== "scoring";
    const parts = [
      reportSection(view),
      windowsSection(view),
      ...(trading ? seriesSections(view) : []),
      trading ? kt.conduct.calibration(view, part, slot) : null,
      trading ? kt.conduct.masks(view, part, slot) : null,
      kt.conduct.steps(view, part),
      trading ? kt.portfolio.section(view, part) : null,
    ].filter(Boolean);
    kt.replace(view.body, head(view), contents(), parts);
    refresh(view);
  }

  function refresh(view) {
    if (view.series && view.fields) drawEpisode(view);
    if (view.entry.card.kind !== "scoring") kt.portfolio.refresh(view);
  }

  kt.page(async (main) => {
    const name = kt.state.get("model");
    const board = await kt.load("board");
    if (!name) return choose(main, board);
    const model = await kt.load(`model/${kt.modelKey(name)}`);
    kt.byId("title").textContent = name;
    document.title = `${name} · ${board.title}`;
    const cards = await loadCards(model, board);
    const view = {board, model, chosen: null, body: el("div"), list: el("div")};
    kt.replace(main, facts(board, model), view.list, view.body);
    const update = async () => {
      if (kt.state.get("model") !== name) return window.location.reload();
      const chosen = chosenCard(cards);
      if (chosen === view.chosen) return refresh(view);
      view.chosen = chosen;
      view.fields = view.drawn = null;
      kt.replace(view.list, cardsTable(cards, board, chosen));
      return showCard(main, view);
    };
    kt.state.onChange(() => update().catch(kt.fail));
    return update();
  });

  /** Without a model in the address: all of them. */
  function choose(main, board) {
    const models = kt.paged({
      label: "models",
      text: ({name, submitter, agents}) => [name, submitter, ...agents].join(" "),
      draw: modelsTable,
      count: (found) => plural(found.length, "model"),
    });
    const update = () =>
      kt.state.get("model") ? window.location.reload() : models.update(board.models);
    kt.replace(main, models.element);
    kt.state.onChange(update);
    update();
  }

  const modelsTable = (models) =>
    table("Models", models, [
      ["Model", ({name}) => kt.modelLink(name)],
      ["Submitted by", ({submitter}) => submitter],
      ["Agents", ({agents}) => format.list(agents)],
      [right("Cards"), ({cards}) => format.count(cards.length)],
    ]);
})();
