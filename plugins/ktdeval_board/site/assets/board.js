// The board: one division and scope as a table that a reader sorts, narrows and takes away.
// Everything shown stands in the address.
"use strict";

(() => {
  const {el, replace, plural, state} = kt;
  const {FILTERS, isEntrant, wantedRows} = kt.choices;
  const STEP = 100;
  const ID_DIGITS = 12; // of a card's id in the address
  let board = null;
  let data = null; // of the division and scope on show
  let parts = null;
  let turn = 0;

  const division = () =>
    board.divisions.find(({id}) => id === state.get("division")) || board.divisions[0];
  const scope = () =>
    division().scopes.includes(state.get("scope")) ? state.get("scope") : division().scopes[0];
  const metricsNow = () => data.columns.filter((name) => Object.hasOwn(board.metrics, name));
  const view = {board: () => board, data: () => data, division, scope, metrics: metricsNow};

  // -- columns and order

  /** Whether ranks go by a figure: fees before or after, it is the same one. */
  const isRanking = (name) =>
    name === division().rank_by ||
    (name === "gross_return" && division().rank_by === "total_return");

  function chosenNames() {
    const may = new Set([...metricsNow(), ...kt.columns.INFO.map(({key}) => key)]);
    const chosen = state.list("columns").filter((name) => may.has(name));
    const byDefault = division().default_columns.filter((name) => may.has(name));
    byDefault.sort((one, other) => isRanking(other) - isRanking(one));
    const names = chosen.length ? chosen : byDefault;
    const swap = state.get("fees") === "before" && may.has("gross_return");
    return [
      ...new Set(names.map((name) => (swap && name === "total_return" ? "gross_return" : name))),
    ];
  }

  function facts() {
    const withCard = data.rows.filter((row) => row.card);
    const labels = new Set(withCard.flatMap((row) => row.labels));
    const shared = new Set(
      [...labels].filter((label) => withCard.every((row) => row.labels.includes(label))),
    );
    const alphaAt =
      ["alpha", "selection_alpha"]
        .map((name) => data.columns.indexOf(name))
        .find((place) => place >= 0) ?? -1;
    return {
      shared,
      alphaAt,
      pickCell,
      isScoring: division().kind === "scoring",
      isTested: Boolean(data.ties?.return?.tested),
      names: {},
      scales: {},
      division: division().id,
      noAlpha: data.rows
        .filter((row) => row.ranked && row.alpha_rank === null)
        .map((row) => row.shared_rank),
      hasAlpha: alphaAt >= 0 && data.rows.some((row) => row.alpha_rank !== null),
      order: new Map(data.rows.map((row, place) => [row, place])),
      errata: new Map(board.errata.map((one) => [one.card, `${one.date}: ${one.what}`])),
      tieWords:
        `a model confidence set at ${kt.format.percent(board.tie_level, 0)} can't tell ` +
        `its members apart.`,
    };
  }

  function columnsNow() {
    const info = new Map(kt.columns.INFO.map((one) => [one.key, one]));
    const scale = (place, make) => (data.facts.scales[place] ||= make());
    const show = {intervals: state.get("intervals") || "bars", rows: data.rows, scale};
    const chosen = chosenNames().map(
      (name) =>
        info.get(name) ||
        kt.columns.metric(name, data.columns.indexOf(name), board.metrics[name], show),
    );
    // The figure that ranks stands next to the model, so that a narrow screen shows it.
    const ranking = chosen.length && isRanking(chosen[0].key) ? chosen.slice(0, 1) : [];
    return [
      ...kt.columns.lead(data.facts),
      ...ranking,
      ...kt.columns.alpha(data.facts),
      ...chosen.slice(ranking.length),
    ];
  }

  const sortNow = (columns) => state.sortOf(columns, "rank");

  function onSort(key) {
    const columns = columnsNow();
    const column = columns.find((one) => one.key === key);
    state.sort(sortNow(columns), column, {rows: ""});
  }

  function ordered(rows, columns) {
    const {key, descending} = sortNow(columns);
    const {value} = columns.find((one) => one.key === key);
    return rows
      .map((row) => [value(row), row])
      .sort(([one], [other]) => kt.table.compare(one, other, descending))
      .map(([, row]) => row);
  }

  // -- picking rows

  const short = (row) => row.card.slice(0, ID_DIGITS);
  const picked = () =>
    state
      .list("pick")
      .map((digits) => data.rows.find((row) => row.card && row.card.startsWith(digits)))
      .filter(Boolean);

  function pickCell(row) {
    if (!row.card) return el("td.pick");
    const box = el("input", {
      type: "checkbox",
      value: short(row),
      "aria-label": `Pick ${row.label}`,
      checked: state.list("pick").includes(short(row)),
      change: () => {
        const others = state.list("pick").filter((digits) => digits !== short(row));
        state.set({pick: box.checked ? [...others, short(row)] : others});
      },
    });
    return el("td.pick", el("label", box));
  }

  // -- the table

  function tableRow(row, columns, isBreak) {
    const classes = [
      row.baseline ? "base" : "",
      row.ranked || row.baseline ? "" : "unranked",
      isBreak ? "break" : "",
    ].filter(Boolean);
    return el(
      "tr",
      {class: classes.join(" ") || null, "data-card": row.card},
      columns.map((column) => column.cell(row)),
    );
  }

  const gap = (n, columns) =>
    el(
      "tr.gap",
      el(
        "td",
        {colspan: columns.length},
        `${plural(n, "entrant")} not shown here; baselines are always shown`,
      ),
    );

  /**
   * The first rows, and below them the baselines that are further down, with what lies between them
   * counted.
   */
  function bodyRows(rows, columns, most) {
    const made = [];
    let [hidden, tie] = [0, null];
    const byRank = sortNow(columns).key === "rank";
    rows.forEach((row, place) => {
      if (place >= most && isEntrant(row)) {
        hidden += 1;
        return;
      }
      if (hidden) made.push(gap(hidden, columns));
      hidden = 0;
      const isBreak = byRank && row.tie !== null && tie !== null && row.tie !== tie;
      tie = row.tie ?? tie;
      made.push(tableRow(row, columns, isBreak));
    });
    if (hidden) made.push(gap(hidden, columns));
    return made;
  }

  function countWords(rows) {
    const [all, shown] = [data.rows, rows].map((list) => list.filter(isEntrant));
    const n = division().windows.length * division().seeds.length;
    const ranked = shown.filter((row) => row.ranked).length;
    const by = board.metrics[division().rank_by];
    const fresh = division().fresh ? ", of each entrant those later than its training data" : "";
    const over =
      division().kind === "trading" && scope() === "all"
        ? `, median over ${plural(n, "episode")} (${plural(division().windows.length, "window")} ` +
          `× ${plural(division().seeds.length, "seed")}${fresh})`
        : "";
    return [
      shown.length === all.length
        ? plural(all.length, "entrant")
        : `${kt.format.count(shown.length)} of ${plural(all.length, "entrant")}`,
      `${kt.format.count(ranked)} ranked`,
      `rank: ${by ? by.title : kt.words(division().rank_by)}${over}` +
        `${by?.better === "lower" ? ", lower is better" : ""}`,
      state.get("fees") === "before" ? "ranks are by the return after fees" : "",
      data.facts.shared.size
        ? `every card: ${[...data.facts.shared].map(kt.labelText).join(", ")}`
        : "",
    ]
      .filter(Boolean)
      .join(" · ");
  }

  /**
   * What the table is made of: the address without what is drawn beside the table, so that a picked
   * row does not make it anew.
   */
  const tableKey = () =>
    [
      division().id,
      scope(),
      ...[
        "sort",
        "q",
        "ranked",
        "fees",
        "intervals",
        "columns",
        "rows",
        "against",
        ...FILTERS.map(([name]) => name),
      ].map((name) => state.get(name)),
    ].join("\n");

  function showPicked() {
    const digits = new Set(state.list("pick"));
    for (const box of parts.table.element.querySelectorAll("td.pick input"))
      box.checked = digits.has(box.value);
    parts.selection.update({
      rows: picked(),
      division: division(),
      scope: scope(),
      window: state.get("chart"),
      fees: state.get("fees"),
    });
  }

  function showTable() {
    if (parts.shown === tableKey()) return;
    parts.shown = tableKey();
    const rows = wantedRows(data.rows);
    const columns = columnsNow();
    const most = Math.max(STEP, Number.parseInt(state.get("rows"), 10) || 0);
    const sorted = ordered(rows, columns);
    parts.table.head(columns, sortNow(columns));
    parts.table.rows(bodyRows(sorted, columns, most));
    parts.table.element.classList.toggle("tall", sorted.length > 40);
    replace(parts.count, countWords(rows));
    const left = sorted.slice(most).filter(isEntrant).length;
    const more = (text, n) => kt.button(text, () => showMore(most, n), {class: "small"});
    replace(
      parts.more,
      left
        ? [
            more(`Show ${Math.min(STEP, left)} more`, most + STEP),
            left > STEP ? more(`Show all ${kt.format.count(sorted.length)}`, sorted.length) : null,
          ]
        : null,
    );
    replace(parts.empty, emptyWords(rows));
    replace(parts.legend, kt.legend(columns, data, board.metrics));
    showPicture(sorted, columns);
  }

  /** What the sentence says in a picture; the figures that rank where it could not be tested. */
  function showPicture(rows, columns) {
    const tests = kt.standings.tests(data);
    const test = testNow(tests);
    parts.against.element.hidden = tests.length < 2;
    if (test) {
      parts.against.options(tests.map(({reference}) => [reference, reference]));
      parts.against.set(test.reference);
      kt.standings.means(parts.picture, rows, {test, place: data.tests.indexOf(test)});
      return;
    }

    const {key} = columns.find((one) => isRanking(one.key)) || {key: division().rank_by};
    kt.standings.figures(parts.picture, rows, {
      column: data.columns.indexOf(key),
      metric: board.metrics[key] || {title: kt.words(key), unit: ""},
    });
  }

  /** The test that is drawn: the chosen one, or the last, which is that of random traders. */
  const testNow = (tests) =>
    tests.find(({reference}) => reference === state.get("against")) || tests.at(-1);

  function showMore(before, after) {
    state.set({rows: String(after)}, {replace: true});
    parts.table.element
      .querySelectorAll("tbody tr:not(.gap)")
      [before]?.querySelector(".name a")
      ?.focus(); // where reading goes on
  }

  function emptyWords(rows) {
    if (rows.some(isEntrant)) return null;
    if (data.rows.some(isEntrant))
      return el(
        "p.empty",
        "No entrant passes these filters. ",
        kt.button("Clear filters", clearFilters, {class: "small"}),
      );
    return el(
      "p.empty",
      "No entrant yet. ",
      el("a", {href: kt.address.task(division().id)}, "How to run this task and submit the result"),
      ".",
    );
  }

  const clearFilters = () => state.clear([...FILTERS.map(([name]) => name), "q", "ranked"]);

  function downloadView() {
    const rows = wantedRows(data.rows);
    const columns = columnsNow();
    const fields = [...kt.columns.csvLead, ...columns.flatMap((column) => column.csv || [])];
    const names = [...new Map(fields)];
    const lines = ordered(rows, columns).map((row) => names.map(([, of]) => of(row)));
    kt.download(
      `${board.name}-${division().id}-${scope()}.csv`,
      kt.table.csv([names.map(([name]) => name), ...lines]),
      "text/csv",
    );
  }

  const actions = () =>
    el(
      "div.actions",
      kt.button("Copy link to this view", () => kt.copy(location.href), {class: "small"}),
      kt.button("CSV", downloadView, {
        class: "small",
        title:
          "All rows that the filters let through, with the columns on show; fractions are " +
          "fractions",
      }),
    );

  // -- all of it

  function build(main) {
    parts = {
      pickers: kt.choices.pickers(view),
      filters: kt.choices.filters(view),
      about: el("p.lead"),
      verdict: el("p.verdict"),
      figures: el("p.quiet.verdict-figures"),
      against: state.choice({label: "Picture: over", name: "against"}),
      picture: el("div.standings"),
      count: el("p.count", {role: "status"}),
      notes: el("div"),
      empty: el("div"),
      more: el("p.more"),
      legend: el("div.legend"),
    };
    parts.table = kt.table.sortable({caption: "Leaderboard", onSort});
    parts.selection = kt.selection({
      onClear: () => state.set({pick: []}),
      onWindow: (name) => state.set({chart: name}, {replace: true}),
    });
    replace(
      main,
      parts.about,
      parts.pickers.element,
      parts.filters.element,
      parts.verdict,
      parts.figures,
      parts.picture,
      el("div.bar-row", parts.against.element),
      el("div.count-row", parts.count, actions()),
      parts.table.element,
      parts.empty,
      parts.more,
      parts.selection.element,
      parts.selection.chart,
      parts.notes,
      parts.legend,
    );
  }

  async function show() {
    const mine = (turn += 1);
    const [one, name] = [division(), scope()];
    if (!data || data.division !== one.id || data.scope !== name) {
      parts.table.element.setAttribute("aria-busy", "true");
      const loaded = await kt.load(`division/${one.id}/${name}`);
      if (mine !== turn) return;
      data = loaded;
      data.facts = facts();
      parts.table.element.removeAttribute("aria-busy");
      replace(parts.about, [
        one.summary || board.summary,
        " ",
        el("a", {href: kt.address.task(one.id)}, "About this task"),
      ]);
      replace(parts.verdict, data.verdict);
      replace(parts.figures, data.verdict_figures);
      replace(parts.notes, kt.legend.notes(one, data));
    }
    parts.pickers.show();
    parts.filters.show();
    showTable();
    showPicked();
  }

  kt.page(async (main) => {
    board = await kt.load("board");
    if (!board.divisions.length) throw new Error("This board has no division yet.");
    build(main);
    state.onChange(() => show().catch(kt.fail));
    await show();
  });
})();
