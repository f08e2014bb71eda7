// Price, position and signals of one stock through the episode, one above the other on the same
// days.

const SIGNAL_NAMES = {"+": "Bullish", "-": "Bearish", 0: "Neutral", x: "invalid"};
const DECISION_NAMES = {"+": "Buy", "-": "Sell", 0: "Hold", x: "invalid"};
const MARK_CLASSES = {"+": "rises", "-": "falls", 0: "stays", x: "invalid"};
const [PRICE_HEIGHT, WEIGHT_HEIGHT, ROW_HEIGHT] = [170, 64, 22];
const NARROW_CHART = 520; // below it the name of a row stands over it

/** What was decided about a stock, one letter a step, as `StockChart` takes signals. */
function decisionsOn(rows, code) {
  return rows
    .map((row) => {
      if (isHeld(row)) return "x";
      const sides = row.orders.filter(([ordered]) => ordered === code).map(([, side]) => side);
      return sides.length ? (sides[sides.length - 1] === "BUY" ? "+" : "-") : "0";
    })
    .join("");
}

/** How often each letter stands in a text, as words: "5 Bullish, 1 Neutral". */
function countLetters(letters, names) {
  const found = ["+", "-", "0", "x"]
    .map((letter) => [letters.split(letter).length - 1, names[letter]])
    .filter(([number]) => number);
  return found.map(([number, name]) => `${number} ${name}`).join(", ") || "none";
}

class StockChart {
  /**
   * @param series {values, start, days, chosen, weights, orders, strips}: closes (null: no bar) and
   * ISO days, of which `start` is the
   *   day of the first decision; the chosen step; [steps] shares of NAV; orders {day, side,
   *   isFilled}; strips {name, letters}.
   */
  constructor(series, width) {
    this.series = series;
    this.width = width;
    this.left = width < NARROW_CHART ? 52 : 160;
    this.right = 12;
    const steps = series.strips[0].letters.length;
    const around = Math.max(3, Math.round(steps / 6));
    this.first = Math.max(0, series.start - around);
    this.last = Math.min(series.days.length - 1, series.start + steps + around);
  }

  x(place) {
    return (
      this.left +
      ((place - this.first + 0.5) / (this.last - this.first + 1)) *
        (this.width - this.left - this.right)
    );
  }

  get cell() {
    return this.x(1) - this.x(0);
  }

  draw() {
    const {series, width} = this;
    const stripHeight = ROW_HEIGHT + (width < NARROW_CHART ? 14 : 0);
    const room = width < NARROW_CHART ? 16 : 0; // for the name of a panel above it
    const priceTop = 4 + room;
    const weightTop = priceTop + PRICE_HEIGHT + 10 + room;
    const stripTop = weightTop + WEIGHT_HEIGHT + 12;
    const bottom = stripTop + series.strips.length * stripHeight;
    const chosen = this.x(series.start + series.chosen);
    const dates = [series.start, this.last].map((place, end) =>
      svg(
        "text",
        {x: end ? width - this.right : this.x(place), y: bottom + 16, class: end ? "end" : "start"},
        series.days[place],
      ),
    );
    return picture(
      {width, height: bottom + 22},
      svg("rect", {
        class: "band",
        x: coordinate(chosen - this.cell / 2),
        width: coordinate(Math.max(this.cell, 2)),
        y: 4,
        height: bottom - 4,
      }),
      ...this.prices(priceTop, PRICE_HEIGHT),
      ...this.weights(weightTop, WEIGHT_HEIGHT),
      ...series.strips.flatMap((strip, number) =>
        this.strip(strip, stripTop + number * stripHeight),
      ),
      ...dates,
    );
  }

  axis(low, high, y, say, most) {
    const sides = {left: this.left, right: this.width - this.right};
    return valueAxis({...sides, y}, [low, high], {most, say});
  }

  /** What a panel shows and in which unit; beside it, above it where there is no room. */
  title(words, top) {
    const isNarrow = this.width < NARROW_CHART;
    return svg("text", {x: isNarrow ? this.left : 0, y: top + (isNarrow ? -4 : 14), class: "row-name"}, words);
  }

  prices(top, height) {
    const {values, start, orders} = this.series;
    const shown = values.slice(this.first, this.last + 1);
    const known = shown.filter((value) => typeof value === "number");
    if (known.length < 2) return [svg("text", {x: this.left, y: top + 20}, "No prices are known.")];
    const [low, high] = ends(known);
    const pad = (high - low || Math.abs(high) || 1) * 0.1;
    const y = (value) => top + height - ((value - low + pad) / (high - low + 2 * pad)) * height;
    const digits = high - low < 2 ? 3 : high - low < 20 ? 2 : 0;
    const marks = orders.map(({day, side, isFilled}) => {
      const value = values[start + day];
      if (typeof value !== "number") return null;
      const corners = triangle(this.x(start + day), y(value), {
        half: 5,
        near: 4,
        far: 13,
        up: side === "BUY",
      });
      return svg("polygon", {
        class: `${side === "BUY" ? "bought" : "sold"}${isFilled ? "" : " unfilled"}`,
        points: corners,
      });
    });
    return [
      this.title(`price, ${this.series.currency}`, top),
      ...this.axis(low - pad, high + pad, y, (value) => figure(value, digits), 4),
      svg("path", {class: "price", d: line(shown, (place) => this.x(this.first + place), y)}),
      ...marks,
    ];
  }

  weights(top, height) {
    const {weights, start} = this.series;
    const [low, high] = ends([...weights, 0]);
    const most = high - low || 0.01;
    const y = (value) => top + height - ((value - low) / most) * height;
    const zero = coordinate(y(0));
    const width = coordinate(this.cell);
    const bars = weights.map((weight, day) => {
      if (weight === 0) return "";
      // a position is that at the close of the day after the decision
      const left = coordinate(this.x(start + day + 1) - this.cell / 2);
      return `M${left} ${zero}V${coordinate(y(weight))}h${width}V${zero}Z`;
    });
    const digits = most < 0.02 ? 1 : 0;
    return [
      this.title("position, % of NAV", top),
      ...this.axis(low, high, y, (value) => percent(value, digits, false), 3),
      svg("line", {x1: this.left, x2: this.width - this.right, y1: y(0), y2: y(0), class: "zero"}),
      svg("path", {class: "position", d: bars.join("")}),
    ];
  }

  /** One shape a step: up, down, a line, a cross; nothing where the analyst was not asked. */
  strip({name, letters}, top) {
    const isNarrow = this.width < NARROW_CHART;
    const middle = top + ROW_HEIGHT / 2 + (isNarrow ? 14 : 0);
    const size = Math.max(1.2, Math.min(5.5, this.cell * 0.42));
    const shapes = {
      "+": `m0 ${-size}l${size} ${2 * size}h${-2 * size}z`,
      "-": `m0 ${size}l${size} ${-2 * size}h${-2 * size}z`,
      0: `m${-size} -1h${2 * size}v2h${-2 * size}z`,
      x: `m${-size} ${-size}l${2 * size} ${2 * size}m0 ${-2 * size}l${-2 * size} ${2 * size}`,
    };
    const paths = Object.entries(shapes).map(([letter, shape]) => {
      const at = [...letters].map((one, day) =>
        one === letter ? `M${coordinate(this.x(this.series.start + day))} ${middle}${shape}` : "",
      );
      return svg("path", {class: `mark ${MARK_CLASSES[letter]}`, d: at.join("")});
    });
    return [
      svg("line", {x1: this.left, x2: this.width - this.right, y1: top, y2: top, class: "grid-line"}),
      svg(
        "text",
        {x: 0, y: isNarrow ? top + 12 : middle + 4, class: "row-name"},
        name.length > 28 ? `${name.slice(0, 27)}…` : name,
      ),
      ...paths,
    ];
  }
}
