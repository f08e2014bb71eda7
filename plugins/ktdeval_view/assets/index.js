// The index of a run: one line for each episode; columns sort, words narrow.

/** A column that sorts by a value of an episode. */
const column = (title, value, n = true) => ({key: title, title, value, n, sorts: true});

const COLUMNS = [
  column("episode", (one) => `${one.task} ${one.window || ""}`, false),
  column("seed", (one) => one.seed),
  {key: "NAV and benchmark", title: "NAV and benchmark"},
  column("return", (one) => one.return),
  column("benchmark", (one) => one.benchmark),
  column("days or samples", (one) => one.steps),
  column(kt.kindLabel("provenance", "model"), (one) => one.decided),
  column("failures", (one) => one.failures),
  column("orders", (one) => one.orders),
  column("orders rejected", (one) => one.rejected),
  column("tokens in", (one) => one.input_tokens),
  column("tokens out", (one) => one.output_tokens),
];

function spark(one) {
  const reach = ends([...one.nav, ...(one.levels || [])]);
  const margin = {left: 2, right: 2, top: 4, bottom: 4};
  const size = {width: 150, height: 34};
  const span = [0, one.nav.length - 1];
  const [low, high] = reach;
  const {x, y} = kt.drawing.scale({...size, margin, span, ends: [low, high > low ? high : low + 1]});
  const label = `NAV from ${percent(ends(one.nav)[0])} to ${percent(ends(one.nav)[1])}`;
  return picture(
    {...size, label, class: "spark"},
    one.levels ? svg("path", {class: "benchmark", d: line(one.levels, x, y)}) : null,
    svg("path", {class: "nav", d: line(one.nav, x, y)}),
  );
}

function episodeName(one) {
  const name = one.window ? `${one.task} · ${one.window}` : one.task;
  const kind = one.state === "unreadable" ? "bad" : "warn";
  const state =
    one.state === "finished"
      ? null
      : el(`span.chip.${kind}`, {title: one.problem || null}, one.state);
  const changed = one.state === "finished" && one.problem;
  return el(
    "th",
    {scope: "row"},
    one.page ? el("a", {href: one.page}, name) : name,
    " ",
    state,
    changed ? el("span.chip.bad", {title: one.problem}, "records changed") : null,
    el(
      "div.quiet",
      {},
      `${one.first ? `${one.first} to ${one.last} · ` : ""}${one.id.slice(0, 8)}`,
    ),
  );
}

function episodeRow(one) {
  const isWhole = one.planned === null || one.planned === one.steps;
  const number = (value) => el("td.n", {}, value === undefined ? NONE : whole(value));
  return el(
    "tr",
    {},
    episodeName(one),
    number(one.seed),
    el("td", {}, one.nav ? spark(one) : null),
    el(`td.n.${tone(one.return)}`, {}, percent(one.return)),
    el("td.n", {}, percent(one.benchmark)),
    el("td.n", {}, isWhole ? whole(one.steps) : `${whole(one.steps)} of ${whole(one.planned)}`),
    el("td.n", {}, percent(one.decided, 1, false)),
    [one.failures, one.orders, one.rejected, one.input_tokens, one.output_tokens].map(number),
  );
}

class EpisodeTable {
  constructor(episodes) {
    this.rows = episodes.map((one) => {
      const text =
        `${one.task} ${one.window || ""} seed-${one.seed} ${one.id} ${one.state}`.toLowerCase();
      return {one, element: episodeRow(one), text};
    });
    this.sorted = {key: "", descending: false};
    this.table = kt.table.sortable({caption: "Episodes", onSort: (key) => this.sort(key)});
    this.table.element.firstChild.classList.add("episodes");
    replace(byId("episodes"), this.table.element);
    byId("search").addEventListener("input", () => this.show());
    this.show();
  }

  /** Sort by a column; by the same one again, the other way round. */
  sort(key) {
    const descending = this.sorted.key === key && !this.sorted.descending;
    this.sorted = {key, descending};
    const {value} = COLUMNS.find((column) => column.key === key);
    this.rows.sort((left, right) =>
      kt.table.compare(value(left.one), value(right.one), descending),
    );
    this.show();
  }

  show() {
    const words = typedWords("search");
    const shown = this.rows.filter(({text}) => words.every((word) => text.includes(word)));
    this.table.head(COLUMNS, this.sorted);
    this.table.rows(shown.map(({element}) => element));
    replace(byId("matches"), countLeft(shown.length, this.rows.length, "episode"));
  }
}

begin(async () => {
  const head = await unpackValue("head");
  const facts = [
    `run ${head.run}`,
    `agent ${head.agent}`,
    head.market ? `market ${head.market}` : null,
  ];
  replace(byId("title"), `Episodes of ${head.model}`);
  const sheets = head.sheets.flatMap(([task, page]) => [
    " · ",
    el("a", {href: page}, head.sheets.length > 1 ? `Tear sheet of ${task}` : "Tear sheet"),
  ]);
  const pair = head.pair ? [" · ", el("a", {href: head.pair}, "Two episodes side by side")] : null;
  replace(byId("facts"), facts.filter(Boolean).join(" · "), sheets, pair);
  const problems = new Set(head.episodes.map((one) => one.problem).filter(Boolean));
  replace(
    byId("notes"),
    head.synthetic ? labelOf("synthetic") : null,
    head.market ? null : el("li", {}, "The market is not at hand, so there is no benchmark."),
    head.capacity.map((line) => el("li", {}, line)),
    [...problems].map((problem) => el("li", {}, problem)),
  );
  new EpisodeTable(head.episodes);
});
