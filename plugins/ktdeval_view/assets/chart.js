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

  draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!width || width === this.width) return;
    this.width = width;
    const {nav, levels, days, trouble} = this.series;
    const reach = kt.drawing.roomy([nav, levels || []], {least: 0.01});
    const span = [0, this.steps];
    const scale = kt.drawing.scale({width, height: HEIGHT, margin: MARGIN, ends: reach, span});
    const {x, y, bottom} = scale;
    const say = (value, step) => percent(value, step < 0.0099 ? 1 : 0, false);
    const flags = trouble
      .map((kind, step) =>
        kind === 0
          ? null
          : svg("rect", {
              x: coordinate(x(step)),
              width: coordinate(Math.max(x(1) - x(0), 1.5)),
              y: bottom + 3,
              height: 6,
              class: kind === 2 ? "undecided" : "failed",
            }),
      )
      .filter(Boolean);
    this.band = svg("rect", {class: "band", y: MARGIN.top, height: bottom - MARGIN.top});
    this.stem = svg("line", {class: "stem", y1: MARGIN.top, y2: bottom + 10});
    this.dot = svg("circle", {class: "dot", r: 4});
    this.svg = picture(
      {width, height: HEIGHT},
      valueAxis(scale, reach, {most: 4, say}),
      this.band,
      flags,
      kt.drawing.dayAxis(scale, {span, days, months: false, below: MARGIN.bottom - 6}),
      levels ? svg("path", {class: "benchmark", d: line(levels, x, y)}) : null,
      svg("path", {class: "nav", d: line(nav, x, y)}),
      this.stem,
      this.dot,
    );
    this.x = x;
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
