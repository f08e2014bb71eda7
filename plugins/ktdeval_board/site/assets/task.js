// A task of the board: what is asked on which windows and market, who is on it, and how to run it.
"use strict";

(() => {
  const {el, replace, state, format, plural, section} = kt;
  const {right} = kt.table;
  const TOP = 10;

  const metric = (board, name) =>
    Object.hasOwn(board.metrics, name) ? board.metrics[name] : {title: kt.words(name), unit: ""};
  const isConfirmed = (row) => row.card && (row.tier === "re-executed" || row.tier === "re-run");

  // -- how to run it

  function seedsOptions(seeds) {
    const first = Math.min(...seeds);
    return [`--seeds ${seeds.length}`, first ? `--seed ${first}` : ""].filter(Boolean).join(" ");
  }

  function dataOptions(snapshot) {
    if (!snapshot) return "";
    if (!snapshot.data) return snapshot.synthetic ? "" : "--data YOUR_COPY_OF_THE_MARKET";
    const args = Object.entries(snapshot.data_args || {})
      .map(([name, value]) => `${name}=${value}`)
      .join(",");
    return [`--data ${snapshot.data}`, args ? `--data-args ${args}` : ""].filter(Boolean).join(" ");
  }

  function registeredLines(division, snapshot) {
    const data = dataOptions(snapshot);
    return [
      "ktdeval run --registration keys/ID.json",
      ...(data ? [`  ${data}`] : []),
      "  --out runs/MY_RUN",
    ];
  }

  function run(division, snapshot) {
    const isDrawn = division.keys === "registered";
    const options = [
      seedsOptions(division.seeds),
      dataOptions(snapshot),
      division.rules === "paper" ? "--rules paper" : "",
    ];
    const windows = snapshot ? `${plural(division.windows.length, "window")} and ` : "";
    const seeds = plural(division.seeds.length, "seed");
    const lines = isDrawn
      ? registeredLines(division, snapshot)
      : [
          `ktdeval --model PROVIDER/MODEL --tasks ${division.task}`,
          ...(snapshot ? [`  --windows ${division.windows.map(({name}) => name).join(",")}`] : []),
          `  ${options.filter(Boolean).join(" ")}`,
          "  --out runs/MY_RUN",
        ];
    return section(
      "How to run and submit it",
      el(
        "p",
        `Run ${windows}${seeds}, no more and no less`,
        snapshot
          ? [", on the market with the id ", el("code", snapshot.id.slice(0, 12)), "…"]
          : null,
        "; then write the submission into a clone of the board's repository and open a pull " +
          "request.",
      ),
      isDrawn
        ? [
            kt.command([
              `ktdeval leaderboard register --board . --division ${division.filed_under} \\`,
              '  --model PROVIDER/MODEL --submitter "Your name" --contact you@example.org',
            ]),
            el(
              "p",
              "The board draws the mask key when the registration is merged; the run below takes " +
                "it, and all that was registered, from ",
              el("code", "keys/ID.json"),
              ". Without it a card has no rank here.",
            ),
          ]
        : null,
      kt.command(lines.map((line, place) => (place < lines.length - 1 ? `${line} \\` : line))),
      division.certificate === "required"
        ? el(
            "p",
            "This task asks for a certificate of its mask: make one with ",
            el("code", "ktdeval certify"),
            " and score the run with it. It counts if one of these models attacked and passed " +
              "its control: ",
            `${format.list(division.attackers)}.`,
          )
        : null,
      kt.command([
        "ktdeval leaderboard submit runs/MY_RUN --board . \\",
        '  --submitter "Your name" --contact you@example.org \\',
        "  --cutoff YYYY-MM-DD --cutoff-source https://… --attempts 1",
      ]),
      el(
        "p",
        el("a", {href: "about.html"}, "The board's rules"),
        " say what is ranked, what is refused and what the tiers mean.",
      ),
    );
  }

  // -- what it is

  function about(division, snapshot) {
    const by = division.rank_by;
    return kt.facts([
      ["Task", division.task],
      ["Version", division.version],
      ["Mask", kt.words(division.mask || "")],
      ["Mode", kt.words(division.mode || "")],
      ["Kind", division.kind],
      [
        "Market",
        snapshot
          ? el(
              "a",
              {href: kt.address.market(snapshot.name)},
              snapshot.name,
              snapshot.synthetic ? " (synthetic)" : "",
            )
          : "",
      ],
      ["Seeds", format.list(division.seeds)],
      ["Ranked by", kt.words(by)],
      ["Metric rules", division.kind === "trading" ? division.rules : ""],
      [
        "Mask keys",
        snapshot
          ? {registered: "drawn by the board, after registration", own: "the submitters' own"}[
              division.keys
            ]
          : "",
      ],
      ["Certificate of the mask", snapshot ? division.certificate : ""],
      [
        "Windows that count",
        division.fresh ? "of each entrant those later than its training data" : "",
      ],
      ["Attackers that count", format.list(division.attackers)],
      [
        "Entrants",
        division.entrants
          ? `${format.count(division.entrants)}, ${format.count(division.ranked)} of them ranked`
          : "none yet",
      ],
      ["Config", el("code", `${division.hash.slice(0, 12)}…`)],
    ]);
  }

  function windows(division, market) {
    if (!division.windows.length) return null;
    const regimes = (division.task_config && division.task_config.windows) || {};
    const figures = new Map(
      (market ? market.windows : []).map((one) => [`${one.first}${one.last}`, one]),
    );
    const found = (one) => figures.get(one.first + one.last);
    const benchmark = (name, signed) => (one) =>
      found(one) ? format.cell(found(one)[name], "fraction", "not known", {signed}) : "";
    const nameOf = (one, place) =>
      el(
        "a",
        {href: kt.address.board({division: division.id, scope: division.scopes[place + 1]})},
        one.name,
      );
    const regimeOf = ({name}) => (Object.hasOwn(regimes, name) ? regimes[name].regime : "");
    const columns = [
      ["Window", nameOf],
      ["First day", (one) => one.first],
      ["Last day", (one) => one.last],
      [right("Trading days"), (one) => (one.days === null ? "" : String(one.days))],
      ["Regime, as the task says", regimeOf],
      [right("Benchmark return"), benchmark("total_return", true)],
      [right("Its volatility", "a year"), benchmark("volatility")],
      [right("Its maximum drawdown"), benchmark("max_drawdown")],
    ];
    // what is not known before the first card has no column
    const told = columns.filter(([, of]) => division.windows.some(of));
    return section("Windows", kt.table.of("Windows of this task", division.windows, told));
  }

  function best(board, division, table) {
    const place = table.columns.indexOf(division.rank_by);
    const {title, unit} = metric(board, division.rank_by);
    const ranked = table.rows.filter((row) => row.rank !== null).slice(0, TOP);
    const bounds = format.bounds(ranked.map((row) => row.interval[place]));
    const link = el(
      "p",
      el(
        "a",
        {href: kt.address.board({division: division.id})},
        division.entrants > TOP
          ? `All ${plural(division.entrants, "entrant")} and the baselines on the board`
          : division.open_book
            ? "On the board"
            : "With the baselines on the board",
      ),
    );
    if (!ranked.length) return section("Who is on it", el("p", "Nobody is ranked yet."), link);
    const why = ({reasons}) => reasons[division.rank_by];
    return section(
      "Who is on it",
      kt.table.of(`The best by ${title}`, ranked, [
        [right("#"), kt.rankRange],
        ["Model", (row) => kt.modelLink(row.model, row.label, {division: division.id})],
        ["Agent", (row) => row.agent],
        ["Tier", (row) => kt.tierChip(row.tier)],
        [right(title), (row) => format.cell(row.values[place], unit, why(row))],
        [right(bounds), (row) => format.range(row.low[place], row.high[place], unit, {bare: true})],
        ["Card", (row) => kt.cardLink(row.card)],
      ]),
      link,
    );
  }

  function config(division) {
    const whole = division.task_config;
    if (!whole)
      return section(
        "Rules of the task",
        el(
          "p",
          "Shown as soon as a card of this task is on the board: ",
          el("code", `ktdeval list tasks ${division.task}`),
        ),
      );
    const long = (value) => {
      const list = kt.tree(value);
      if (list instanceof Element) list.classList.add("long");
      return list;
    };
    const {data_card: data, trading, harness, tools, sources, ...others} = whole;
    return [
      data ? section("Data card", long(data)) : null,
      section(
        "Rules of the task",
        trading ? [el("h3", "Trading"), kt.tree(trading)] : null,
        harness ? [el("h3", "Agent's desk"), kt.tree(harness)] : null,
        tools && tools.length
          ? el(
              "p",
              "Tools: ",
              tools.flatMap((name, place) => [place ? ", " : "", el("code", String(name))]),
            )
          : null,
        sources ? [el("h3", "Sources"), kt.tree(sources)] : null,
        kt.details("Everything else in the task's config", long(others)),
      ),
    ];
  }

  function imported(results) {
    if (!results.length) return null;
    const rows = results.flatMap((one) => one.results.map((each) => ({...one, ...each})));
    const figure = (value, reason) => format.cell(value, "", reason, {digits: 4});
    return section(
      "Imported results",
      el(
        "p",
        "Made with other harnesses and never ranked: the board has neither the records nor the " +
          "questions behind these figures.",
      ),
      kt.table.of("Imported results", rows, [
        ["Model", ({model}) => model.name],
        ["Task", ({task}) => task],
        ["Metric", ({metric: name}) => name],
        [right("Value"), ({value, reason}) => figure(value, reason)],
        [right("Standard error"), ({stderr}) => figure(stderr, "not in the file")],
        [right("Samples"), ({n}) => (n === null ? "" : format.count(n))],
        ["Harness", ({harness}) => `${harness.name} ${harness.version || ""}`],
        ["Date", ({date}) => date || ""],
      ]),
    );
  }

  async function show(board, main) {
    const division =
      board.divisions.find(({id}) => id === state.get("division")) || board.divisions[0];
    const snapshot = board.snapshots.find(({name}) => name === division.snapshot);
    const table = await kt.load(`division/${division.id}/${division.scopes[0]}`);
    // The check writes a market's figures when it executes the first card again.
    const market =
      division.kind === "trading" && (snapshot.has_market ?? table.rows.some(isConfirmed))
        ? await kt.load(`market/${snapshot.name}`)
        : null;
    const others = await kt.load("imported");
    replace(kt.byId("title"), kt.words(division.task));
    replace(
      main,
      el("div.pickers", kt.taskField(board.divisions, division).element),
      division.summary ? el("p.lead", division.summary) : null,
      about(division, snapshot),
      best(board, division, table),
      windows(division, market),
      run(division, snapshot),
      config(division),
      imported(others.results),
    );
  }

  kt.page(async (main) => {
    const board = await kt.load("board");
    if (!board.divisions.length) throw new Error("This board has no division yet.");
    state.onChange(() => show(board, main).catch(kt.fail));
    await show(board, main);
  });
})();
