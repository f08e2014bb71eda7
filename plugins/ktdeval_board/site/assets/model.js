/* The page of a model: who it is, how it stands, and one of its cards in charts.

Address: #model=NAME, and optionally card=ID (or agent= and division=), window=, seed=,
fees=without, day= (see portfolio.js). */
"use strict";

(() => {
  const {el, format, known, plural} = kt;
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
    return kt.table.plain({
      caption: "Cards of this model",
      head: [
        "Division",
        "Agent",
        {text: "Rank", n: true},
        {text: "α-rank", n: true, title: "Rank by selection alpha"},
        ...shown.map(([, text]) => ({text, n: true})),
        "Tier",
        "Card",
      ],
      rows: cards.map((card) => {
        const row = card.row;
        const current = card.card === chosen.card;
        const name = el(
          "a",
          {
            href: kt.state.link("model.html", {model: kt.state.get("model"), card: card.card}),
            "aria-current": current ? "true" : null,
          },
          card.division || "no division",
        );
        const cells = [
          el(
            "span.wide-cell",
            {},
            name,
            " ",
            card.info
              ? el(
                  "span.quiet.small-text",
                  {},
                  [card.mask, card.mode].filter(Boolean).map(kt.words).join(" · "),
                )
              : null,
          ),
          [card.agent, row?.settings ? el("span.quiet.small-text", {}, ` ${row.settings}`) : null],
          row?.ranked
            ? kt.rankRange(row)
            : el(
                "span.none",
                {title: row ? row.why.join("; ") || "a baseline is not ranked" : "in no table"},
                kt.format.NONE,
              ),
          row?.ranked && known(row.alpha_rank) ? kt.alphaRange(row) : kt.format.NONE,
          ...shown.map(([column]) => figure(card, column, board)),
          [
            kt.tierChip(card.tier),
            card.withdrawn
              ? [
                  " ",
                  kt.chip("withdrawn", "bad", "Taken out of the tables by the board's maintainers"),
                ]
              : null,
          ],
          kt.cardLink(card.card),
        ];
        const numeric = [false, false, true, true, ...shown.map(() => true), false, false];
        return el(
          current ? "tr.chosen" : "tr",
          {},
          cells.map((cell, at) =>
            at ? el(numeric[at] ? "td.n" : "td", {}, cell) : el("th", {scope: "row"}, cell),
          ),
        );
      }),
    });
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
    const lead = [
      entry.ranked && entry.ranks.all
        ? `Rank: ${kt.rankWords(entry.ranks.all)}`
        : "Not ranked",
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
      ? el("p.trouble", {}, el("strong", {}, "Why it has no rank: "), entry.why.join("; "), ".")
      : null;
    const erratum = (one) =>
      el("li", {}, el("strong", {}, `Erratum, ${one.date} (${one.effect}): `), one.what);
    const errata = entry.errata.length ? el("ul.errata", {}, entry.errata.map(erratum)) : null;
    return [
      el("h2", {}, chosen.division || entry.card.task.name),
      el(
        "p",
        {},
        parts.flatMap((part) => (part ? [part, " "] : [])),
      ),
      el(
        "p.quiet",
        {},
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

  const WINDOW_FIGURES = [
    {text: "Return", n: true},
    {text: "Benchmark", n: true},
    {text: "Difference", n: true},
    {text: "Selection", n: true},
    {text: "Drawdown", n: true},
    {
      text: "Beats random",
      n: true,
      title: "Share of random traders with the same dates and turnover that it beats",
    },
  ];

  /** What a card did in a window, medians over seeds; in the order of WINDOW_FIGURES. */
  function windowFigures({entry: {card}, series}, window) {
    const own = (name) => kt.stats.median(figuresIn(card, window, name));
    const ranks = inWindow(series?.episodes, window)
      .map((episode) => episode.envelope?.rank)
      .filter(known);
    const [total, index] = [own("total_return"), indexIn(card, window)];
    const difference = known(total) && known(index) ? total - index : null;
    const signed = {signed: true};
    return [
      format.cell(total, "fraction", "no figure", signed),
      format.cell(index, "fraction", "no benchmark", signed),
      format.cell(difference, "fraction", "no benchmark", signed),
      format.cell(own("selection_alpha"), "fraction", "not attributed", signed),
      format.cell(own("max_drawdown"), "fraction", "no figure"),
      format.percent(kt.stats.median(ranks), 0),
    ];
  }

  function windowsSection(view) {
    const {
      entry: {card, submission},
    } = view;
    const {cutoff_date: cutoff, cutoff_source: source} = submission.model;
    const trading = card.kind !== "scoring";
    if (!card.windows) return null;
    const rows = card.windows.map((window) => {
      const {word, kind, text} = kt.cutoffOf(window, cutoff);
      const span = [
        el("span.nb", {}, window.first),
        el("span.nb", {}, window.last),
        format.count(window.days),
      ];
      return [
        window.name,
        ...span,
        kt.chip(word, kind, text),
        ...(trading ? windowFigures(view, window) : []),
      ];
    });
    const head = [
      "Window",
      "First day",
      "Last day",
      {text: "Days", n: true},
      {
        text: "To training data",
        title: "Where the window lies to the end of the model's training data",
      },
      ...(trading ? WINDOW_FIGURES : []),
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
      el("p", {}, said),
      kt.table.plain({caption: "Windows", head, rows}),
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
      {},
      `In ${window} it beats ${format.percent(envelope.rank, 1)} of ` +
        `${kt.plural(envelope.paths, "random trader")} with the same dates, activity and number ` +
        `of names (p = ${format.number(envelope.p_value, 3)}). Chance alone gives 50 %.`,
    );
  }

  function slot(fill, tag = "div") {
    const place = el(tag, {});
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
    const {choice} = kt.controls;
    const windows = [...new Set(view.series.episodes.map((episode) => episode.window))];
    const seeds = [...new Set(view.series.episodes.map((episode) => episode.seed))];
    const named = windows.map((name) => {
      const span = view.entry.card.windows.find((window) => window.name === name);
      return [name, span ? `${name} (${span.first} to ${span.last})` : name];
    });
    const several = seeds.length > 1 ? seeds.map((seed) => [String(seed), `seed ${seed}`]) : [];
    view.fields = {
      window: choice({
        label: "Window",
        options: named,
        onChange: (window) => kt.state.set({window, day: ""}),
      }),
      seed: choice({
        label: "Seed",
        options: [["", several.length ? "all seeds" : `seed ${seeds[0]}`], ...several],
        onChange: (seed) => kt.state.set({seed}),
      }),
      fees: choice({
        label: "Fees",
        options: [
          ["", "with fees"],
          ["without", "without fees"],
        ],
        onChange: (fees) => kt.state.set({fees}),
      }),
    };
    return el(
      "div.pickers",
      {},
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
    const lines = given.map((episode) => ({
      label: given.length > 1 ? `seed ${episode.seed}` : "portfolio",
      days: episode.days,
      base_day: episode.base_day,
      nav: gross ? episode.gross_nav : episode.nav,
    }));
    const index = one.benchmark
      ? [
          {
            label: "benchmark",
            days: one.days,
            base_day: one.base_day,
            nav: one.benchmark,
            benchmark: true,
          },
        ]
      : [];
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
        el("p.quiet", {}, `The return of this episode is not split: ${one.attribution_reason}.`),
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
      {},
      parts.map(([name, value], place) => [
        place ? " + " : "",
        el("span", {}, `${name} ${format.percent(value, 2, true)}`),
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
            {},
            "No daily series: they are made when the board's check executes the records again, " +
              "which has not been possible for this card.",
          ),
        ),
      ];
    view.glance = null;
    view.places = {
      glance: el("div", {}),
      equity: el("div", {}),
      drawdown: el("div", {}),
      attribution: el("div", {}),
      sum: el("div", {}),
    };
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
          : el("p.quiet", {}, entry.card.attribution?.reason),
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
      kt.button("Print this page", () => kt.charts.print(), {class: "small"}),
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
      windowsSection(view),
      ...(trading ? seriesSections(view) : []),
      trading ? kt.conduct.calibration(view, part, slot) : null,
      trading ? kt.conduct.masks(view, part, slot) : null,
      kt.conduct.steps(view, part),
      trading ? kt.portfolio.section(view, part) : null,
      reportSection(view),
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
    if (!name) return kt.replace(main, choose(board));
    await Promise.all(
      ["stats", "plots", "portfolio", "conduct"].map((script) =>
        kt.charts.script(`assets/${script}.js`),
      ),
    );
    const model = await kt.load(`model/${kt.modelKey(name)}`);
    kt.byId("title").textContent = name;
    document.title = `${name} · ${board.title}`;
    const cards = await loadCards(model, board);
    const view = {board, model, chosen: null, body: el("div", {}), list: el("div", {})};
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
  function choose(board) {
    return kt.table.plain({
      caption: "Models",
      head: ["Model", "Submitted by", "Agents", {text: "Cards", n: true}],
      rows: board.models.map((model) => [
        kt.modelLink(model.name),
        model.submitter,
        format.list(model.agents),
        format.count(model.cards.length),
      ]),
    });
  }
})();
