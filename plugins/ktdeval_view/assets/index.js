// The index of a run: one line for each episode; columns sort, words narrow.

const COLUMNS = [
  {name: "episode", key: (one) => `${one.task} ${one.window || ""}`, kind: ""},
  {name: "seed", key: (one) => one.seed},
  {name: "NAV and benchmark", kind: ""},
  {name: "return", key: (one) => one.return},
  {name: "benchmark", key: (one) => one.benchmark},
  {name: "days or samples", key: (one) => one.steps},
  {name: "decided by the model", key: (one) => one.decided},
  {name: "failures", key: (one) => one.failures},
  {name: "orders", key: (one) => one.orders},
  {name: "orders rejected", key: (one) => one.rejected},
  {name: "tokens in", key: (one) => one.input_tokens},
  {name: "tokens out", key: (one) => one.output_tokens},
];

function spark(one) {
  const [low, high] = ends([...one.nav, ...(one.levels || [])]);
  const x = (place) => 2 + (place / Math.max(one.nav.length - 1, 1)) * 146;
  const y = (value) => 30 - ((value - low) / (high - low || 1)) * 26;
  const label = `NAV from ${percent(ends(one.nav)[0])} to ${percent(ends(one.nav)[1])}`;
  return drawing("svg", {viewBox: "0 0 150 34", class: "spark", role: "img", "aria-label": label},
    one.levels ? drawing("path", {class: "benchmark", d: line(one.levels, x, y)}) : null,
    drawing("path", {class: "nav", d: line(one.nav, x, y)}));
}

function episodeName(one) {
  const name = one.window ? `${one.task} · ${one.window}` : one.task;
  const kind = one.state === "unreadable" ? "bad" : "warn";
  const state = one.state === "finished" ? null : make(`span.chip.${kind}`, {title: one.problem || null}, one.state);
  const changed = one.state === "finished" && one.problem;
  return make("th", {scope: "row"}, one.page ? make("a", {href: one.page}, name) : name, " ", state,
    changed ? make("span.chip.bad", {title: one.problem}, "records changed") : null,
    make("div.quiet", {}, `${one.first ? `${one.first} to ${one.last} · ` : ""}${one.id.slice(0, 8)}`));
}

function episodeRow(one) {
  const isWhole = one.planned === null || one.planned === one.steps;
  const number = (value) => make("td.n", {}, value === undefined ? UNKNOWN : whole(value));
  return make("tr", {}, episodeName(one), number(one.seed), make("td", {}, one.nav ? spark(one) : null),
    make(`td.n.${tone(one.return)}`, {}, percent(one.return)), make("td.n", {}, percent(one.benchmark)),
    make("td.n", {}, isWhole ? whole(one.steps) : `${whole(one.steps)} of ${whole(one.planned)}`),
    make("td.n", {}, percent(one.decided, 1, false)),
    [one.failures, one.orders, one.rejected, one.input_tokens, one.output_tokens].map(number));
}

class EpisodeTable {
  constructor(episodes) {
    this.rows = episodes.map((one) => {
      const text = `${one.task} ${one.window || ""} seed-${one.seed} ${one.id} ${one.state}`.toLowerCase();
      return {one, element: episodeRow(one), text};
    });
    this.body = make("tbody", {});
    this.sorted = {column: -1, direction: 1};
    this.heads = COLUMNS.map(({name, key, kind = ".n"}, column) => {
      const label = key ? make("button", {type: "button", click: () => this.sort(column)}, name) : name;
      return make(`th${kind}`, {scope: "col", "aria-sort": key ? "none" : null}, label);
    });
    const head = make("thead", {}, make("tr", {}, this.heads));
    const table = make("table.grid.episodes", {}, make("caption.unseen", {}, "Episodes"), head, this.body);
    replace(byId("episodes"), scroller("Table: Episodes", table));
    byId("search").addEventListener("input", () => this.show());
    this.show();
  }

  sort(column) {
    const {key} = COLUMNS[column];
    const direction = this.sorted.column === column ? -this.sorted.direction : 1;
    this.sorted = {column, direction};
    this.rows.sort((left, right) => {
      const [one, other] = [key(left.one), key(right.one)];
      if (one === other) return 0;
      if (one === undefined || one === null) return 1; // what is not known comes last, either way
      if (other === undefined || other === null) return -1;
      return (one < other ? -1 : 1) * direction;
    });
    const word = direction > 0 ? "ascending" : "descending";
    this.heads.forEach((head, place) => {
      if (COLUMNS[place].key) head.setAttribute("aria-sort", place === column ? word : "none");
    });
    this.show();
  }

  show() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = this.rows.filter(({text}) => words.every((word) => text.includes(word)));
    const all = count(this.rows.length, "episode");
    replace(this.body, shown.map(({element}) => element));
    replace(byId("matches"), shown.length === this.rows.length ? all : `${shown.length} of ${all}`);
  }
}

begin(async () => {
  const head = await unpackValue("head");
  const facts = [`run ${head.run}`, `agent ${head.agent}`, head.market ? `market ${head.market}` : null];
  replace(byId("title"), `Episodes of ${head.model}`);
  replace(byId("facts"), facts.filter(Boolean).join(" · "));
  const problems = new Set(head.episodes.map((one) => one.problem).filter(Boolean));
  replace(byId("notes"),
    head.synthetic ? make("li", {}, make("strong", {}, "SYNTHETIC"), " the market was generated from a seed") : null,
    head.market ? null : make("li", {}, "The market is not at hand, so there is no benchmark."),
    [...problems].map((problem) => make("li", {}, problem)));
  new EpisodeTable(head.episodes);
});
