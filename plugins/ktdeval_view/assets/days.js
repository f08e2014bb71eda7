// The list of days, what it is narrowed to, and the order in which keys walk through it.

const isHeld = (row) => row.provenance === "fallback" || row.provenance === "error";
const failuresOf = (row) => Object.values(row.failures).reduce((sum, number) => sum + number, 0);

/** Words on a day without orders: it is a decision only if nothing failed. */
const withoutOrders = (row) =>
  isHeld(row) || failuresOf(row) || row.provenance === "model_after_retry"
    ? "no valid orders"
    : "no orders";

const SHOWN = [
  ["all", "all days", () => true],
  ["orders", "with orders", (row) => row.orders.length > 0],
  [
    "cut",
    "with rejected or cut orders",
    (row) => row.orders.some((order) => order[2] !== "filled"),
  ],
  ["failed", "with failures", (row) => failuresOf(row) > 0],
  ["held", "not decided by the model", isHeld],
  ["unmask", "with hidden identities offered", (row) => row.unmask_attempts > 0],
];

class DayList {
  constructor(rows, initial, names, pieces) {
    this.rows = rows;
    this.initial = initial;
    this.names = names;
    this.pieces = pieces;
    this.day = 0;
    this.box = byId("list");
    this.items = rows.map((row, day) => this.item(row, day));
    this.found = null;
    this.search = 0;
    replace(this.box, this.items);
    replace(
      byId("show"),
      SHOWN.map(([key, label, test]) => {
        const number = rows.filter(test).length;
        return el("option", {value: key, disabled: number === 0}, `${label} (${whole(number)})`);
      }),
    );
    byId("show").addEventListener("change", () => this.narrow());
    byId("search").addEventListener("input", () => this.lookFor(byId("search").value));
    this.narrow();
  }

  item(row, day) {
    const before = day ? this.rows[day - 1].nav : this.initial;
    const change = before > 0 ? row.nav / before - 1 : null;
    return el(
      "li",
      {},
      el(
        "a",
        {href: `#day=${day}`},
        el("span.number", {}, day),
        el("span.date", {}, row.filled_on),
        el(`span.change.${tone(change)}`, {}, percent(change)),
        el("span.amount", {}, this.amount(row)),
        this.trouble(row),
      ),
    );
  }

  /** How many orders a day has, or how many of them were rejected. */
  amount(row) {
    if (row.orders.length === 0) return withoutOrders(row);
    const {orders} = row;
    const rejected = orders.filter((order) => order[2] === "rejected").length;
    return rejected ? `${rejected}/${orders.length} rejected` : count(orders.length, "order");
  }

  /** Mark of a day that the model did not decide, or on which something failed. */
  trouble(row) {
    if (isHeld(row)) {
      const title = kt.kindLabel("provenance", row.provenance);
      return el("span.chip.bad", {title}, row.provenance);
    }
    const failures = failuresOf(row);
    return failures ? el("span.chip.warn", {}, count(failures, "failure")) : null;
  }

  /** Days that are shown, in order. */
  get visible() {
    return this.rows.map((_, day) => day).filter((day) => !this.items[day].hidden);
  }

  narrow() {
    const [, , test] = SHOWN.find(([key]) => key === byId("show").value) || SHOWN[0];
    this.rows.forEach((row, day) => {
      this.items[day].hidden = !(test(row) && (this.found === null || this.found.has(day)));
    });
    replace(byId("matches"), countLeft(this.visible.length, this.rows.length, "day"));
    this.reveal();
  }

  /**
   * Narrow to the days in which something holds the text: what was said, ordered or booked, or the
   * true name of a handle.
   */
  async lookFor(text) {
    this.search += 1;
    const mine = this.search;
    const wanted = text.trim().toLowerCase();
    if (!wanted) {
      this.found = null;
      this.narrow();
      return;
    }
    await new Promise((done) => setTimeout(done, 150)); // until the next letter may have come
    replace(byId("matches"), "searching");
    const words = [wanted, ...this.aliases(wanted)];
    const found = await this.pieces.find(
      (packed) => holds(JSON.parse(packed), words),
      () => mine !== this.search,
    );
    if (found === null) return;
    this.found = found;
    this.narrow();
  }

  /** Handles whose code or company holds the text. */
  aliases(wanted) {
    if (wanted.length < 2) return [];
    const found = [];
    for (const [handle, [code, company]] of this.names.assets) {
      if (`${code} ${company}`.toLowerCase().includes(wanted))
        found.push(handle.toLowerCase(), code.toLowerCase());
    }
    return found.length <= 60 ? found : [];
  }

  mark(day) {
    for (const place of [this.day, day])
      this.items[place].firstChild.removeAttribute("aria-current");
    this.items[day].firstChild.setAttribute("aria-current", "true");
    this.day = day;
    this.reveal();
  }

  /** Scroll the list, and nothing else, so that the chosen day is in it. */
  reveal() {
    const item = this.items[this.day];
    if (item.hidden || !this.box.clientHeight) return;
    const [top, height] = [item.offsetTop, item.offsetHeight];
    const {scrollTop, clientHeight} = this.box;
    const isFar = top < scrollTop - clientHeight || top > scrollTop + 2 * clientHeight;
    if (isFar) this.box.scrollTop = top - (clientHeight - height) / 2;
    else if (top - 2 * height < scrollTop) this.box.scrollTop = top - 2 * height;
    else if (top + 3 * height > scrollTop + clientHeight)
      this.box.scrollTop = top + 3 * height - clientHeight;
  }
}

/** Whether a text anywhere in a value holds one of the words. */
function holds(value, words) {
  if (typeof value === "string") {
    const text = value.toLowerCase();
    return words.some((word) => text.includes(word));
  }
  if (Array.isArray(value)) return value.some((item) => holds(item, words));
  return (
    value !== null &&
    typeof value === "object" &&
    Object.values(value).some((item) => holds(item, words))
  );
}
