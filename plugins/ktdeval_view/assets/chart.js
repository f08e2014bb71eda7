// NAV against the benchmark, both as returns since the first decision, with the chosen day marked.

const HEIGHT = 200;
const MARGIN = {left: 46, right: 10, top: 8, bottom: 30};

class NavChart {
  /**
   * @param box where it is drawn, as wide as that is.
   * @param series {nav, levels, days, trouble}: [steps + 1] returns since the start (levels may be
   *   null) and days; for each step trouble is 0, 1 (something failed) or 2 (no decision of the
   *   model).
   * @param choose called with a step that was pointed at.
   */
  constructor(box, series, choose) {
    this.box = box;
    this.series = series;
    this.choose = choose;
    this.day = 0;
    this.width = 0;
    new ResizeObserver(() => this.draw()).observe(box);
    const pick = (event) => {
      if (event.buttons & 1 && this.svg) this.choose(this.stepAt(event.clientX));
    };
    box.addEventListener("pointerdown", pick);
    box.addEventListener("pointermove", pick);
  }

  get steps() {
    return this.series.nav.length - 1;
  }

  stepAt(clientX) {
    const {left, right} = MARGIN;
    const inside =
      (clientX - this.box.getBoundingClientRect().left - left) / (this.width - left - right);
    return Math.min(Math.max(Math.floor(inside * this.steps), 0), this.steps - 1);
  }

  x(place) {
    return MARGIN.left + (place / this.steps) * (this.width - MARGIN.left - MARGIN.right);
  }

  draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!width || width === this.width) return;
    this.width = width;
    const {nav, levels, days, trouble} = this.series;
    const known = [...nav, ...(levels || [])];
    const [low, high] = ends(known);
    const pad = (high - low || 0.01) * 0.06;
    const bottom = HEIGHT - MARGIN.bottom;
    const y = (value) =>
      bottom - ((value - low + pad) / (high - low + 2 * pad)) * (bottom - MARGIN.top);
    const marks = ticks(low - pad, high + pad, 4);
    const digits = marks.length > 1 && marks[1] - marks[0] < 0.0099 ? 1 : 0;
    const grid = marks.map((value) => [
      svg("line", {
        x1: MARGIN.left,
        x2: width - MARGIN.right,
        y1: y(value),
        y2: y(value),
        class: value === 0 ? "zero" : "grid",
      }),
      svg(
        "text",
        {x: MARGIN.left - 6, y: y(value) + 4, class: "end"},
        percent(value, digits, false),
      ),
    ]);
    const flags = trouble
      .map((kind, step) =>
        kind === 0
          ? null
          : svg("rect", {
              x: coordinate(this.x(step)),
              width: coordinate(Math.max(this.x(1) - this.x(0), 1.5)),
              y: bottom + 3,
              height: 6,
              class: kind === 2 ? "undecided" : "failed",
            }),
      )
      .filter(Boolean);
    const dates = [
      [0, "start"],
      [this.steps, "end"],
    ].map(([place, anchor]) =>
      svg("text", {x: this.x(place), y: HEIGHT - 6, class: anchor}, days[place]),
    );
    this.band = svg("rect", {class: "band", y: MARGIN.top, height: bottom - MARGIN.top});
    this.stem = svg("line", {class: "stem", y1: MARGIN.top, y2: bottom + 10});
    this.dot = svg("circle", {class: "dot", r: 4});
    this.svg = svg(
      "svg",
      {viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, "aria-hidden": "true"},
      ...grid.flat(),
      this.band,
      ...flags,
      ...dates,
      levels
        ? svg("path", {class: "benchmark", d: line(levels, (place) => this.x(place), y)})
        : null,
      svg("path", {class: "nav", d: line(nav, (place) => this.x(place), y)}),
      this.stem,
      this.dot,
    );
    this.y = y;
    replace(this.box, this.svg);
    this.mark(this.day);
  }

  /** Show which step is chosen: the time from its decision to the close after its fills. */
  mark(day) {
    this.day = day;
    if (!this.svg) return;
    const [from, to] = [this.x(day), this.x(day + 1)];
    set(this.band, {x: from, width: Math.max(to - from, 2)});
    set(this.stem, {x1: to, x2: to});
    set(this.dot, {cx: to, cy: this.y(this.series.nav[day + 1])});
  }
}

const set = (element, attributes) =>
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));

/**
 * Closes of one stock as a small plot: a line, where it was decided and filled, and what came after
 * in a lighter shade. `fills` are {place, value, side}; `from` and `to` places of the decision and
 * of the fill.
 */
function sparkline(values, {from, to, fills = [], width = 190, height = 46}) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const [low, high] = ends(known);
  const x = (place) => 3 + (place / (values.length - 1)) * (width - 6);
  const y = (value) => height - 5 - ((value - low) / (high - low || 1)) * (height - 10);
  const marks = fills.map(({place, value, side}) => {
    const [cx, cy] = [x(place), y(Math.min(Math.max(value, low), high))];
    const corners = triangle(cx, cy, {half: 4, near: -3, far: 5, up: side === "BUY"});
    return svg("polygon", {class: side === "BUY" ? "bought" : "sold", points: corners});
  });
  return svg(
    "svg",
    {viewBox: `0 0 ${width} ${height}`, class: "spark", "aria-hidden": "true"},
    to === undefined
      ? null
      : svg("rect", {class: "after", x: x(to), width: width - x(to), y: 0, height}),
    from === undefined
      ? null
      : svg("line", {class: "decision", x1: x(from), x2: x(from), y1: 0, y2: height}),
    svg("path", {class: "price", d: line(values, x, y)}),
    ...marks,
  );
}
