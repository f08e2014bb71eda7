// What the board compares, by which rules, and how anybody can check it.
"use strict";

(() => {
  const {el, replace, format, plural, section} = kt;
  const {right} = kt.table;
  const prose = (...children) => el("div.prose", children);
  const items = (list) => kt.listed("ul", list.filter(Boolean));
  const code = (text) => el("code", text);

  function compared(board) {
    const columns = [
      ["Task", (one) => el("a", {href: kt.address.task(one.id)}, kt.words(one.task))],
      ["Version", (one) => one.version],
      ["Mask", (one) => kt.words(one.mask || "")],
      ["Mode", (one) => kt.words(one.mode || "")],
      [
        "Market",
        ({snapshot}) => snapshot && el("a", {href: kt.address.market(snapshot)}, snapshot),
      ],
      [right("Windows"), (one) => (one.snapshot ? String(one.windows.length) : "")],
      ["Seeds", (one) => format.list(one.seeds)],
      ["Ranked by", (one) => kt.words(one.rank_by)],
      [right("Ranked"), (one) => `${format.count(one.ranked)} of ${format.count(one.entrants)}`],
    ];
    // what no division has gets no column
    const told = columns.filter(([, of]) => board.divisions.some(of));
    return section(
      "What is compared",
      prose(
        el(
          "p",
          "Each row of a table is one result card: one model in one agent scaffold, over all " +
            "windows and seeds of a division. ",
          "Only cards of the same task version, config, mask, market, windows and seeds stand in " +
            "one table. ",
          {
            synthetic: "Markets of this board are synthetic; no card of a real market is taken.",
            real: "Markets of this board are recorded; no card of a synthetic market is taken.",
          }[board.market] || "",
        ),
      ),
      kt.table.of("Divisions", board.divisions, told),
    );
  }

  const tiers = () =>
    section(
      "Tiers",
      el(
        "dl.terms",
        Object.entries(kt.values.words.tiers).map(([name, {meaning}]) =>
          el("div", el("dt", kt.tierChip(name)), el("dd", meaning)),
        ),
      ),
      prose(
        el(
          "p",
          "Executing a card again proves that its figures follow from the recorded replies. It " +
            "does not prove who gave these replies: only a run of the maintainers' own does.",
        ),
      ),
    );

  function ranks(board) {
    const level = format.percent(board.tie_level, 0);
    return section(
      "Ranks",
      prose(
        items([
          "A figure is the median over the episodes in view (windows × seeds), with its " +
            "quartiles; of one episode, with that episode's own bootstrap interval.",
          [
            "Ranked is who has a verdict of the check, all planned episodes, at least 95 % of " +
              "the steps decided by the model, and no erratum against it. Everybody else is " +
              "listed with the reason.",
          ],
          `Letters are tie groups: model confidence sets at ${level} of daily returns. Within a ` +
            `group the data can't say who is better: its entrants are tied, and each may have any ` +
            `rank of the group.`,
          [
            "The α-rank goes by selection alpha: the part of the return that market, industries " +
              "and styles don't explain. An agent far better by return than by selection rode " +
              "factors.",
          ],
          "The benchmark and the baselines (rules, random traders, supervised models) are always " +
            "shown, whatever is filtered, and can't be taken out.",
          "Return before fees adds the fees back day by day; ranks are always by the return " +
            "after fees.",
        ]),
      ),
    );
  }

  const refused = (board) =>
    section(
      "What is refused",
      prose(
        items([
          "One attempt: a second card of the same model, reasoning settings and agent in one " +
            "division, unless the first was withdrawn.",
          board.divisions.some(({keys}) => keys === "registered")
            ? [
                "A submitter's second registration of a system, however its name and parameters " +
                  "are written, and a card whose key, system or submitter is not the registered " +
                  "one. A registration in the name or with the contact of a submitter whose key " +
                  "the board knows, without their signature. ",
                "Cards under keys of their own are shown without a rank; while a submitter's " +
                  "drawn key is unused, so are their others: ",
                el("a", {href: "registrations.html"}, "the registrations"),
                ".",
              ]
            : null,
          "Runs cut short, with windows or seeds missing or added, on another market or task " +
            "version, of a placebo market, or under other aliases of the mask.",
          "Cards whose ledger, transcripts or figures do not follow from the recorded replies, " +
            "or whose hashes do not agree.",
          "Markup, links and control characters in any field, paths out of the repository, files " +
            "that are not listed.",
        ]),
        el(
          "p",
          "Submitters declare how many runs were made; the number stands in the column of " +
            "attempts, or that of the registrations where these are more.",
        ),
      ),
    );

  function errata(board) {
    return section(
      "Errata",
      prose(
        el(
          "p",
          board.errata.length
            ? `${plural(board.errata.length, "entry", "entries")} so far, `
            : "None so far; they will be ",
          el("a", {href: "history.html"}, "on the history page"),
          ". Maintainers don't delete cards: they write down what is wrong, and a card is noted, " +
            "unranked or withdrawn.",
        ),
      ),
    );
  }

  const verify = (board) =>
    section(
      "How to check it yourself",
      prose(
        el(
          "p",
          "A clone of the board's repository holds the cards and the records that its figures " +
            "are made of. The same command that its CI runs executes them again:",
        ),
      ),
      kt.command([
        "# where ktdeval is installed, from its repository",
        board.url
          ? `# the repository: see ${board.url}`
          : "# in a clone of the board's repository:",
        "ktdeval leaderboard check . --all",
        "ktdeval leaderboard build . --serve",
      ]),
      prose(el("p", "Each card's page has the commands for that card alone.")),
    );

  const submit = (board) =>
    section(
      "How to submit",
      prose(
        items([
          [
            "Run a task as its page says: ",
            ...board.divisions.flatMap((one, place) => [
              place ? ", " : "",
              el("a", {href: kt.address.task(one.id)}, kt.words(one.task)),
            ]),
            ".",
          ],
          [
            "Write the submission with ",
            code("ktdeval leaderboard submit RUN --board ."),
            "; it says everything that is missing at once.",
          ],
          [
            "Commit the new files and open a pull request. The check runs on it, with no access " +
              "to any secret, and executes nothing of what was submitted.",
          ],
        ]),
      ),
    );

  const DATA = [
    ["data/board.json", "divisions, metrics, models, errata"],
    ["data/cards-index.json", "all cards, one row each"],
    [
      "data/division/<division>/<window>.json",
      "a table, as on the board; all.json for all windows",
    ],
    ["data/registrations.json", "registrations, on boards that draw mask keys"],
    ["data/history.json", "events, and who was ahead"],
    ["data/imported.json", "results of other harnesses"],
  ];

  function data() {
    const link = ([path]) => (path.includes("<") ? code(path) : el("a", {href: path}, path));
    return section(
      "Data",
      prose(
        el(
          "p",
          "Tables and lists are plain JSON beside these pages; fractions are fractions (0.1 is 10 " +
            "%). A card's page hands out its file as submitted. As data frames, Parquet or a data " +
            "set: ",
          code("ktdeval leaderboard export"),
          ".",
        ),
      ),
      kt.table.of("Data files", DATA, [
        ["File", link],
        ["What it holds", ([, what]) => what],
      ]),
    );
  }

  const licences = () =>
    section(
      "Licences",
      prose(
        el(
          "p",
          "Charts are drawn by Vega and Vega-Lite (BSD 3-clause), which lie beside these pages: ",
          el("a", {href: "assets/vendor/THIRD-PARTY.txt"}, "their notices"),
          ". Nothing is loaded from elsewhere, nothing is sent, no cookie is set; your choice of " +
            "colours is kept in this browser.",
        ),
      ),
    );

  kt.page(async (main) => {
    const board = await kt.load("board");
    replace(kt.byId("title"), `About ${board.title}`);
    replace(
      main,
      board.summary ? el("p.lead", board.summary) : null,
      kt.facts([
        ["Open since", board.opened_on],
        ["Cards", format.count(board.counts.cards)],
        ["Models", format.count(board.counts.models)],
        ["Submitters", format.count(board.counts.submitters)],
        ["Market", board.market],
        ["Checked with", board.suite_version ? `ktdeval ${board.suite_version}` : ""],
        ["Contact", board.contact],
      ]),
      compared(board),
      tiers(),
      ranks(board),
      refused(board),
      errata(board),
      verify(board),
      submit(board),
      data(),
      licences(),
    );
  });
})();
