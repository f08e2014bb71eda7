// Where the return came from: the sentence, the five parts as bars, the assets and round trips that
// gained and lost most, and the worst days.

const BAR = {width: 110, height: 12};
const CENTS_BELOW = 100; // amounts of money that are shown with their cents

/** A bar from zero on a scale that several share; green for a gain, red for a loss. */
function gainBar(value, [low, high]) {
  if (value === null) return null;
  const x = (at) => ((at - low) / (high - low || 1)) * BAR.width;
  const [from, to] = [Math.min(x(0), x(value)), Math.max(x(0), x(value))];
  const size = {x: coordinate(from), width: coordinate(Math.max(to - from, 0.5))};
  return picture(
    {...BAR, class: "gain-bar"},
    svg("rect", {...size, y: 1, height: BAR.height - 2, class: value < 0 ? "loss" : "gain"}),
    svg("line", {class: "zero", x1: x(0), x2: x(0), y1: 0, y2: BAR.height}),
  );
}

const barHead = () => ({text: el("span.unseen", {}, "as a bar")});

class Why {
  constructor(view) {
    this.view = view;
    this.why = view.head.why;
  }

  show() {
    const {why} = this;
    replace(byId("why-sentence"), why.sentence);
    replace(
      byId("why-tables"),
      this.parts(),
      this.worstDays(),
      why.has_traded ? this.assets() : null,
      why.has_traded ? this.trips() : null,
    );
  }

  // -- figures

  change(value) {
    return el(`span.${tone(value)}`, {}, percent(value));
  }

  money(value) {
    const digits = Math.abs(value) < CENTS_BELOW ? 2 : 0;
    return `${figure(value, digits, true)} ${this.view.head.currency}`;
  }

  stock(code) {
    return stockName(this.view, code, null);
  }

  day(number) {
    return el("a", {href: `#day=${number}`}, this.view.rows[number].filled_on);
  }

  // -- tables

  table(caption, head, rows) {
    const none = el("tr", {}, el("td.quiet", {colspan: head.length}, "none"));
    return wideTable({kind: "explained", caption, head, rows: rows.length ? rows : [none]});
  }

  parts() {
    const {parts, no_parts: reason, unattributed, total} = this.why;
    if (!parts) return el("p.quiet", {}, `The parts of the return are not known: ${reason}.`);
    const values = parts.map((part) => part.value).filter((value) => value !== null);
    const scale = ends([0, ...values]);
    const rows = parts.map((part) => this.part(part, scale));
    if (unattributed !== null) {
      rows.push(["not attributed", gainBar(unattributed, scale), this.change(unattributed)]);
    }
    const caption = `Parts of the return, ${percent(total)}`;
    return this.table(caption, ["part", barHead(), numberHead("contribution")], rows);
  }

  part({label: name, meaning, value, reason, interval}, scale) {
    const spread = interval ? `95 %: ${format.range(...interval, "fraction", {signed: true})}` : null;
    return [
      [name, el("small.quiet", {}, meaning)],
      gainBar(value, scale),
      value === null
        ? ["n/a", el("small.quiet", {}, reason)]
        : [this.change(value), spread ? el("small.quiet", {}, spread) : null],
    ];
  }

  worstDays() {
    const {name} = this.view.head.benchmark;
    const rows = this.why.worst_days.map(({day, return: change, benchmark, code, contribution}) => [
      this.day(day),
      [
        this.change(change),
        benchmark === null ? null : el("small.quiet", {}, `${name} ${percent(benchmark)}`),
      ],
      code ? [this.stock(code), this.change(contribution)] : NONE,
    ]);
    return this.table("Worst days", ["day", numberHead("return"), "largest loss"], rows);
  }

  assets() {
    const {best, worst, others, others_contribution: rest, unexplained} = this.why.assets;
    const scale = ends([0, ...[...best, ...worst].map((row) => row.contribution)]);
    const rowsOf = (listed) =>
      listed.map(({code, contribution, gain}) => [
        this.stock(code),
        gainBar(contribution, scale),
        [this.change(contribution), el("small.quiet", {}, this.money(gain))],
      ]);
    const head = () => ["asset", barHead(), numberHead("contribution")];
    const words =
      `Contributions are gains after costs over the initial cash. ` +
      `${count(others, "other asset")}: ${percent(rest)}. ` +
      (tone(unexplained) === "flat"
        ? `Together they are the return, ${percent(this.why.total)}.`
        : `No asset explains ${percent(unexplained)}; with it they are ${percent(this.why.total)}.`);
    return [
      this.table("Assets that gained most", head(), rowsOf(best)),
      this.table("Assets that lost most", head(), rowsOf(worst)),
      el("p.quiet.across", {}, words),
    ];
  }

  trips() {
    const {problem, best, worst, closed, open} = this.why.trips;
    if (problem) return el("p.quiet.across", {}, `Round trips are not known: ${problem}.`);
    const head = ["asset", "held", numberHead("gain")];
    const rowsOf = (listed) => listed.map((trip) => this.trip(trip));
    const words =
      `A round trip lasts from a position's first share to its last. ` +
      `${count(closed, "trip")} closed, ${whole(open)} still open at the last close and valued ` +
      `there. Gains are after costs; per cent of the money that opened the position.`;
    return [
      this.table("Round trips that gained most", head, rowsOf(best)),
      this.table("Round trips that lost most", head, rowsOf(worst)),
      el("p.quiet.across", {}, words),
    ];
  }

  trip({code, is_short: isShort, entry, exit, days, gain, return: change}) {
    const end = exit === null ? "still open" : this.day(exit);
    return [
      [this.stock(code), isShort ? el("span.chip", {}, "short") : null],
      [this.day(entry), " – ", end, el("small.quiet", {}, count(days, "trading day"))],
      [el(`span.${tone(gain)}`, {}, this.money(gain)), this.rate(change)],
    ];
  }

  rate(change) {
    return el("small.quiet", {}, change === null ? NONE : percent(change));
  }
}
