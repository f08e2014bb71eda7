// Two episodes of a run side by side: NAV on one axis of days, and what each ordered on each day.

class Pair {
  constructor(episodes) {
    const isOneRun = new Set(episodes.map(({run}) => run)).size === 1;
    this.episodes = episodes.map((one) => ({
      ...one,
      label: isOneRun ? one.label : `${one.run} · ${one.label}`,
    }));
    this.choices = ["first", "second"].map((id, place) => {
      const box = byId(id);
      replace(
        box,
        this.episodes.map(({label: name}, at) => el("option", {value: at}, name)),
      );
      box.addEventListener("change", () => this.choose(place));
      return box;
    });
    const paired = episodes.findIndex(
      ({window: own}, at) => episodes[this.partner(at)].window === own,
    );
    this.choices[0].value = Math.max(paired, 0);
    this.choices[1].value = this.partner(Math.max(paired, 0));
    byId("differing").addEventListener("change", () => this.list());
  }

  /**
   * Place of the episode to compare with: another one of the same window where there is one, of the
   * other run before one of the same, of the same task before another's.
   */
  partner(place) {
    const own = this.episodes[place];
    const nearness = ({window: frame, run, task}) =>
      4 * (frame === own.window) + 2 * (run !== own.run) + (task === own.task);
    const others = this.episodes.map((other, at) => [nearness(other), at]);
    const near = others.filter(([, at]) => at !== place);
    return near.sort(([one], [other]) => other - one)[0][1];
  }

  /** Another window on the left takes an episode of this window to the right. */
  choose(side) {
    const [first, second] = this.choices.map((box) => this.episodes[box.value]);
    const isPair = first !== second && first.window === second.window;
    if (side === 0 && !isPair)
      this.choices[1].value = this.partner(Number(this.choices[0].value));
    const chosen = this.choices.map((box) => box.value);
    history.replaceState(null, "", `#first=${chosen[0]}&second=${chosen[1]}`);
    this.show();
  }

  /** Read the address: `#first=0&second=2`; without the second, one of the same window. */
  follow() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const places = this.choices.map((box) => wanted.get(box.id));
    places.forEach((place, side) => {
      if (this.episodes[place]) this.choices[side].value = place;
    });
    if (this.episodes[places[0]] && !this.episodes[places[1]])
      this.choices[1].value = this.partner(Number(places[0]));
    this.show();
  }

  async show() {
    const read = this.choices.map((box) => unpackValue(`episode-${box.value}`));
    const both = await Promise.all(read);
    const dates = both.map(({rows}) => new Set(rows.map((row) => row.filled_on)));
    // windows without a day in common lie over each other from their first days on
    this.isDated = [...dates[0]].some((day) => dates[1].has(day));
    const keys = both.map(({rows}) => rows.map((row, day) => (this.isDated ? row.filled_on : day)));
    const axis = [...new Set(keys.flat())].sort((one, other) => (one < other ? -1 : 1));
    this.days = axis.map((key) => {
      const places = keys.map((own) => own.indexOf(key));
      const rows = both.map(({rows: own}, side) => own[places[side]] || null);
      return {key, places, rows, differs: isDifferent(rows)};
    });
    this.cash = both.map((episode) => episode.initial_cash);
    this.names = this.choices.map((box) => this.episodes[box.value]);
    this.draw();
    this.list();
  }

  draw() {
    const path = (side) => {
      const start = this.cash[side];
      return [0, ...this.days.map(({rows}) => (rows[side] ? rows[side].nav / start - 1 : null))];
    };
    const days = this.days.map(({key}) => (this.isDated ? key : `day ${key}`));
    const trouble = this.days.map(({differs}) => (differs ? 1 : 0));
    const box = el("div", {});
    replace(byId("chart"), box);
    new NavChart(
      box,
      {nav: path(0), levels: path(1), days: ["start", ...days], trouble},
      (day) => byId(`day-${day}`)?.scrollIntoView({block: "center"}),
    );
    const differing = this.days.filter(({differs}) => differs).length;
    const links = this.names.map(({label: name, page}, side) =>
      el(side ? "span.key.benchmark" : "span.key.nav", {}, `${"AB"[side]}: `, page ? el("a", {href: page}, name) : name),
    );
    const told = `${whole(differing)} of ${count(this.days.length, "day")} with other decisions, marked below`;
    replace(byId("legend"), links, el("span.quiet", {}, told));
    replace(
      byId("sentences"),
      this.names.map(({sentence}, side) => el("li", {}, el("strong", {}, "AB"[side]), ` ${sentence}`)),
    );
  }

  list() {
    const isNarrowed = byId("differing").checked;
    const heads = this.names.flatMap(({label: name}, side) => [
      `${"AB"[side]}: ${name}`,
      {text: "return that day", n: true},
    ]);
    const rows = this.days
      .map((day, place) => [day, place])
      .filter(([{differs}]) => differs || !isNarrowed)
      .map(([day, place]) => this.row(day, place));
    replace(
      byId("pair-days"),
      kt.table.plain({caption: "Decisions of both episodes", head: ["day", ...heads], rows}),
    );
  }

  row({key, rows, places, differs}, place) {
    const other = [rows[1], rows[0]].map((row) => decisionsOf(row));
    const cells = rows.flatMap((row, side) => [
      el("td", {}, row ? this.orders(row, other[side]) : NONE),
      el("td.n", {}, row ? this.change(side, place) : NONE),
    ]);
    const name = this.isDated ? key : `Day ${key}`;
    const links = places.map((day, side) => {
      const {page} = this.names[side];
      return day < 0 || !page ? null : [" ", el("a", {href: `${page}#day=${day}`}, "AB"[side])];
    });
    const mark = differs ? [" ", el("span.chip.warn", {}, "differs")] : null;
    const head = el("th", {scope: "row", id: `day-${place}`}, name, links, mark);
    return el("tr", {}, head, cells);
  }

  /** Orders of a day; those that the other episode has not are marked. */
  orders(row, others) {
    if (isHeld(row)) return el("span.held", {}, kt.kindLabel("provenance", row.provenance));
    if (!row.orders.length) return el("span.quiet", {}, withoutOrders(row));
    return row.orders.map((order) => {
      const [code, side, status, shares, at] = order;
      const outcome = shares ? `${quantity(shares)} at ${price(at)}` : (STATUS[status] || [status])[0];
      const words = `${side} ${code}, ${outcome}`;
      return el("div", {}, others.has(decisionOf(order)) ? words : el("mark", {}, words));
    });
  }

  change(side, place) {
    const {rows, places} = this.days[place];
    const isFirst = places[side] === 0;
    const before = isFirst ? this.cash[side] : this.days[place - 1]?.rows[side]?.nav;
    return before > 0 ? percent(rows[side].nav / before - 1) : NONE;
  }
}

const decisionOf = ([code, side]) => `${side} ${code}`;
const decisionsOf = (row) => new Set(row && !isHeld(row) ? row.orders.map(decisionOf) : []);

/** Whether two days have other orders, by stock and side, or one of them was not decided. */
function isDifferent([one, other]) {
  if (!one || !other) return false;
  const [left, right] = [decisionsOf(one), decisionsOf(other)];
  return (
    isHeld(one) !== isHeld(other) ||
    left.size !== right.size ||
    [...left].some((decision) => !right.has(decision))
  );
}

begin(async () => {
  const {episodes, run} = await unpackValue("head");
  replace(byId("title"), "Two episodes side by side");
  replace(byId("facts"), `run ${run}`);
  const pair = new Pair(episodes);
  window.addEventListener("hashchange", () => pair.follow());
  pair.follow();
});
