// What the board compares, by which rules, and how anybody can check it: the sections of
// `about` in words.yaml, with what is made of the board.
"use strict";

(() => {
  const {el, replace, format, plural, section} = kt;
  const {right} = kt.table;
  const WORDS = kt.values.words;

  const taskLink = (one) =>
    el(
      "a",
      {href: kt.address.task(one.id)},
      kt.words(one.task) + (one.open_book ? " (open book)" : ""),
    );

  function divisions(board) {
    const marketLink = ({snapshot}) =>
      snapshot && el("a", {href: kt.address.market(snapshot)}, snapshot);
    const columns = [
      ["Task", taskLink],
      ["Version", (one) => one.version],
      ["Mask", (one) => kt.words(one.mask || "")],
      ["Mode", (one) => kt.words(one.mode || "")],
      ["Market", marketLink],
      [right("Windows"), (one) => (one.snapshot ? String(one.windows.length) : "")],
      ["Seeds", (one) => format.list(one.seeds)],
      ["Ranked by", (one) => kt.words(one.rank_by)],
      [right("Ranked"), (one) => `${format.count(one.ranked)} of ${format.count(one.entrants)}`],
    ];
    // what no division has gets no column
    const told = columns.filter(([, of]) => board.divisions.some(of));
    return kt.table.of("Divisions", board.divisions, told);
  }

  const tiers = () =>
    el(
      "dl.terms",
      Object.entries(WORDS.tiers).map(([name, {meaning}]) =>
        el("div", el("dt", kt.tierChip(name)), el("dd", meaning)),
      ),
    );

  const command = (board) =>
    kt.command([
      "# where ktdeval is installed, from its repository",
      board.url ? `# the repository: see ${board.url}` : "# in a clone of the board's repository:",
      "ktdeval leaderboard check . --all",
      "ktdeval leaderboard build . --serve",
    ]);

  function files() {
    const code = (path) => el("code", path);
    const link = (path) => (path.includes("<") ? code(path) : el("a", {href: path}, path));
    return kt.table.of("Data files", Object.entries(WORDS.data_files), [
      ["File", ([path]) => link(path)],
      ["What it holds", ([, what]) => what],
    ]);
  }

  const SHOWN = {divisions, tiers, command, files};

  /** What stands in the texts in the place of `{name}`. */
  function valuesOf(board) {
    const isRegistered = board.divisions.some(({keys}) => keys === "registered");
    const tasks = board.divisions.map((one, place) => [place ? ", " : "", taskLink(one)]);
    return {
      market: WORDS.markets[board.market] || "",
      level: format.percent(board.tie_level, 0),
      registered: isRegistered ? kt.inline(WORDS.about_registered) : null,
      errata: board.errata.length
        ? `${plural(board.errata.length, "entry", "entries")} so far,`
        : "None so far; they will be",
      tasks,
    };
  }

  function drawn(part, board, values) {
    if (part.show) return SHOWN[part.show](board);
    const isTold = (text) => text !== "{registered}" || values.registered;
    const block = (one) =>
      Array.isArray(one)
        ? kt.listed(
            "ul",
            one.filter(isTold).map((text) => kt.inline(text, values)),
          )
        : el("p", kt.inline(one, values));
    return el("div.prose", part.prose.map(block));
  }

  kt.page(async (main) => {
    const board = await kt.load("board");
    const values = valuesOf(board);
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
      WORDS.about.map(({title, parts}) =>
        section(
          title,
          parts.map((part) => drawn(part, board, values)),
        ),
      ),
    );
  });
})();
