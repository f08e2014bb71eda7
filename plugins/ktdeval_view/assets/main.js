// The page of one episode: what is chosen, where the address says so, and which keys change it.

const REST_MS = 150; // how long a day is looked at before what is below the screen is laid out too
const NARROW = "(max-width: 960px)"; // a screen on which the plot is above the day, not beside it
const MOST_ABOVE = 0.6; // part of the screen that may be above a day that is sought

class EpisodeView {
  constructor(head, texts, closes, paths) {
    this.head = head;
    this.rows = head.rows;
    this.texts = texts;
    this.closes = closes ? new Closes(closes) : null;
    this.paths = paths;
    this.names = new Names(head.names);
    this.pieces = new Pieces(head.pieces);
    this.manner = {verbatim: false, unfolded: false};
    this.day = -1;
    this.shown = 0;
    const navs = [head.initial_cash, ...this.rows.map((row) => row.nav)];
    this.returns = changes(navs);
    this.benchmarkReturns = head.benchmark.levels ? changes(head.benchmark.levels) : null;
    this.list = new DayList(this.rows, head.initial_cash, this.names, this.pieces);
    this.panel = new DayPanel(this);
    this.stocks = new StockBox(this);
    this.trades = new TradeBox(this);
    this.why = new Why(this);
    const since = (values) => values.map((value) => value / values[0] - 1);
    this.series = {
      nav: since(navs),
      levels: head.benchmark.levels ? since(head.benchmark.levels) : null,
      days: [this.rows[0].decided_on, ...this.rows.map((row) => row.filled_on)],
      trouble: this.rows.map((row) => (isHeld(row) ? 2 : failuresOf(row) ? 1 : 0)),
    };
    this.chart = new NavChart(byId("chart"), this.series, (day) => this.point(day));
  }

  /** A price of the market, in another market than A-shares with all its decimals. */
  quote(value) {
    return this.head.is_exact ? price(value) : figure(value);
  }

  /** Return of a stock on the fill day of a step, adjusted; null where it is not known. */
  changeOf(code, day) {
    const values = this.closes ? this.closes.of(code) : null;
    if (!values) return null;
    const place = this.closes.start + day + 1;
    const before = values.slice(0, place).findLast((value) => value !== null);
    return values[place] === null || values[place] === undefined || before === undefined
      ? null
      : values[place] / before - 1;
  }

  openStock(code) {
    this.stocks.open(code);
  }

  /** Choose a day and put it into the address, without a step of the browser's history for each. */
  choose(day, isSought = true) {
    if (day === null || day === this.day) return;
    history.replaceState(null, "", `#day=${day}`);
    this.show(day, {isSought});
  }

  /** Choose a day in the plot, which stays in sight. */
  point(day) {
    this.choose(day, !matchMedia(NARROW).matches);
  }

  /**
   * Show a day; `target` is the id of what in it is to be seen first. One that is sought is brought
   * into sight.
   */
  async show(day, {target, isSought = false} = {}) {
    const isOther = day !== this.day;
    this.day = day;
    this.list.mark(day);
    this.chart.mark(day);
    this.panel.heading(day);
    byId("scrub").value = day;
    byId("scrub").setAttribute("aria-valuetext", `Day ${day}, ${this.rows[day].filled_on}`);
    this.legend(day);
    this.shown += 1;
    const mine = this.shown;
    const data = await this.pieces.day(day);
    if (mine !== this.shown) return; // another day was chosen meanwhile
    byId("day-body").classList.remove("laid-out");
    this.panel.show(day, data);
    this.announce(day);
    const panel = byId("day-panel");
    if (target && byId(target)) this.jump(target);
    else if (isOther && !isInSight(panel, isSought)) panel.scrollIntoView();
    setTimeout(() => {
      if (mine === this.shown) byId("day-body").classList.add("laid-out");
    }, REST_MS);
  }

  /**
   * Scroll to a part of the day; where it is can be told only once everything before it is laid
   * out.
   */
  jump(id) {
    byId("day-body").classList.add("laid-out");
    byId(id)?.scrollIntoView();
  }

  announce(day) {
    const row = this.rows[day];
    const words = [kt.kindLabel("provenance", row.provenance), count(row.orders.length, "order")];
    byId("said").textContent = `Day ${day}, ${row.filled_on}: ${words.join(", ")}`;
  }

  legend(day) {
    const {nav, levels} = this.series;
    replace(
      byId("legend"),
      el("span.key.nav", {}, `NAV ${percent(nav[day + 1])}`),
      levels
        ? el("span.key.benchmark", {}, `${this.head.benchmark.name} ${percent(levels[day + 1])}`)
        : null,
      el("span.quiet", {}, `by ${this.rows[day].filled_on}`),
    );
  }

  /**
   * Read the address: `#day=213`, `#day=2024-11-18`, `#day=213&call=2`, `#day=213&part=portfolio`.
   */
  follow() {
    const wanted = new URLSearchParams(location.hash.slice(1).replace(/\+/g, "%2B"));
    const text = wanted.get("day");
    // a place in the page, such as that of the skip link
    if (text === null && location.hash && this.day >= 0) return;
    const day = text === null ? 0 : this.dayOf(text);
    const problem =
      day === null
        ? `There is no day ${text} in this episode; it has days 0 to ${this.rows.length - 1}.`
        : "";
    byId("trouble").hidden = !problem;
    replace(byId("trouble"), problem);
    const part = ["call", "part"]
      .filter((name) => wanted.has(name))
      .map((name) => `${name}-${wanted.get(name)}`);
    this.show(day ?? 0, {target: part[0], isSought: text !== null});
  }

  dayOf(text) {
    const number = text.replace(/^day_\+/, "");
    const day = /^\d+$/.test(number)
      ? Number(number)
      : this.rows.findIndex((row) => row.filled_on === text);
    return day >= 0 && day < this.rows.length ? day : null;
  }

  toggle(name) {
    this.manner[name] = !this.manner[name];
    byId(name).setAttribute("aria-pressed", String(this.manner[name]));
    this.show(this.day);
  }

  toggleNames() {
    const isOn = document.body.classList.toggle("true-names");
    byId("true-names").setAttribute("aria-pressed", String(isOn));
  }
}

/** Whether a day's panel begins on the screen, or below it where nobody looks for the day. */
function isInSight(panel, isSought) {
  const {top} = panel.getBoundingClientRect();
  return top >= 0 && !(isSought && top > MOST_ABOVE * window.innerHeight);
}

const changes = (values) =>
  values.slice(1).map((value, place) => (values[place] > 0 ? value / values[place] - 1 : null));

function showHead(view) {
  const {head} = view;
  const {spec} = head;
  document.title = `${head.label} · ${spec.model}`;
  replace(byId("title"), head.label);
  const made = Object.entries(spec.model_args)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");
  const planned = head.planned === null ? "its" : whole(head.planned);
  const facts = [
    made ? `${spec.model} (${made})` : spec.model,
    `agent ${spec.agent}`,
    `${spec.window.first} to ${spec.window.last}`,
    head.state === "finished"
      ? count(view.rows.length, "day")
      : `${whole(view.rows.length)} of ${planned} days so far`,
    spec.mask_note ? `mask ${spec.mask}: ${spec.mask_note}` : `mask ${spec.mask}`,
    head.market ? `market ${head.market}` : null,
  ];
  replace(byId("facts"), facts.filter(Boolean).join(" · "));
  replace(
    byId("notes"),
    head.state === "unfinished"
      ? label("unfinished", "The episode is not finished; write the pages again later to see more.")
      : null,
    head.synthetic ? labelOf("synthetic") : null,
    head.notes.map((note) => el("li", {}, note)),
  );
  for (const where of ["previous", "next"]) {
    const link = byId(`${where}-episode`);
    const target = head.neighbours[where];
    link.hidden = !target;
    if (target) {
      link.href = target[0];
      replace(link, where === "previous" ? `‹ ${target[1]}` : `${target[1]} ›`);
    }
  }
  byId("true-names").hidden = view.names.isEmpty;
  byId("scrub").max = view.rows.length - 1;
}

function listen(view) {
  const jump = (part) => () => view.jump(`part-${part}`);
  const press = {
    "true-names": () => view.toggleNames(),
    verbatim: () => view.toggle("verbatim"),
    unfolded: () => view.toggle("unfolded"),
    stocks: () => view.stocks.openAny(),
    "all-trades": () => view.trades.open(),
    keys: () => byId("help").showModal(),
    "help-close": () => byId("help").close(),
    "bar-day": () => view.list.reveal(), // once the list is open
  };
  listenWalk({
    step: (direction) => view.choose(nextPlace(view.list.visible, view.day, direction)),
    link: () => view.list.items[view.day].firstChild,
    keys: {
      Home: () => view.choose(view.list.visible[0] ?? null),
      End: () => view.choose(view.list.visible.pop() ?? null),
      d: jump("decision"),
      s: jump("talk"),
      p: jump("portfolio"),
      m: jump("memory"),
      c: press.stocks,
      a: press["all-trades"],
      t: press["true-names"],
      v: press.verbatim,
      u: press.unfolded,
      "?": press.keys,
    },
  });
  for (const [id, act] of Object.entries(press)) byId(id).addEventListener("click", act);
  byId("scrub").addEventListener("input", () => view.point(Number(byId("scrub").value)));
  byId("stocks").hidden = view.stocks.codes.length === 0;
  byId("day-panel").addEventListener("click", (event) => {
    const handle = event.target.closest(".handle[data-code]");
    if (handle) view.openStock(handle.dataset.code);
  });
}

begin(async () => {
  const [head, texts, closes, paths] = await Promise.all(
    ["head", "texts", "closes", "paths"].map(unpackValue),
  );
  const view = new EpisodeView(head, texts, closes, paths);
  showHead(view);
  view.why.show();
  listen(view);
  followAddress(view);
});
