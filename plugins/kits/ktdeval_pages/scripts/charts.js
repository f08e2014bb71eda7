/* Charts of the site: Vega-Lite specs, drawn only when they come into view, and without any code
made of text, which the page's policy forbids.

kt.charts.draw(element, spec, {title, description, columns, rows, height})
    puts a <figure> into `element` (what was there is removed) and gives it back.
    spec: a Vega-Lite spec, or a function of {colors, ink, muted, rule, paper, dark, width} that
        gives one; it is called again for another theme or width. A spec without a width of its
        own gets that of the page.
    columns: [[heading, unit or ""], …]; rows: [[value, …], …]: the same figures as a table
    title: what is shown; description: how to read it. Both are also the picture's name for those
        who can't see it.
kt.charts.figure(element, name, {title, description, rows, height, table, look, …values})
    the same with a declared spec, of `kt.charts.specs` (chart_specs.yaml) and values for the names
    in it. `rows` are those of the table that is declared with it; a figure without one gives
    `table` as {columns, rows}. `look` gives values that depend on {colors, ink, …, width}. `order`
    is that of the table's first column unless it is given.
kt.charts.equity(element, lines, {title, description, bands, first, height})
    lines: [{label, days, nav, base_day, benchmark}]: NAV over its first value. `nav` has one value
        more than `days` where it begins with the base. `benchmark: true` is drawn dotted.
    bands: {levels, bands: [[…]…], days, base_day}: quantiles of random traders
kt.charts.drawdown(element, lines, {title, description})
    the same lines as the fall from their highest value so far
kt.charts.percentAxis(), kt.charts.percentAxis({signed: true})
    labels of an axis of fractions, with as many decimals as its ticks need: {format, labelExpr}
kt.charts.dayAxis(days, {room, short})
    x of trading days, [ISO day, …]: labels at some of them, at most every `room` pixels; without
    the year where `short`, months where days are many: {field, type, scale, axis}
kt.charts.colors()
    the eight colours of lines, in order, in the theme of the moment
kt.charts.whenSeen(place, load)
    calls a function that loads what belongs to a place once that is near the window, or is printed
kt.charts.print()
    loads and draws everything, then prints */
"use strict";

(() => {
  const {el} = kt;
  const LIBRARIES = [
    "assets/vendor/vega.min.js",
    "assets/vendor/vega-lite.min.js",
    "assets/vendor/vega-interpreter.js",
  ];
  const DASHES = [
    [1, 0],
    [6, 3],
    [2, 2],
    [8, 3, 2, 3],
    [1, 0],
    [6, 3],
    [2, 2],
    [8, 3, 2, 3],
  ];
  const figures = new Map(); // plot -> what draws it
  const scripts = new Map();
  const waiting = new Map(); // place -> what loads it once it is seen
  const PAPER_WIDTH = 680; // of A4 between its margins, in pixels of CSS
  let printing = false;

  /** Tokens of the theme on show; `colors` are those of lines, in their order. */
  function palette() {
    const dark = !printing && kt.theme.current() === "dark";
    const tokens = dark ? kt.values.dark : kt.values.light;
    return {...tokens, dark, colors: kt.values.series.map((name) => tokens[name])};
  }

  function script(path) {
    if (!scripts.has(path)) {
      scripts.set(
        path,
        new Promise((resolve, reject) => {
          const tag = el("script", {
            src: path,
            load: resolve,
            error: () => reject(new Error(`${path} can't be read; the site is not whole`)),
          });
          document.head.append(tag);
        }),
      );
    }
    return scripts.get(path);
  }

  // a page of one file has them inside
  const libraries = () =>
    window.vegaLite && window.vega?.expressionInterpreter
      ? Promise.resolve()
      : LIBRARIES.reduce((before, path) => before.then(() => script(path)), Promise.resolve());

  /** The kit's look of figures in the colours of a theme. */
  const config = (theme) =>
    JSON.parse(JSON.stringify(kt.values.figures), (name, value) =>
      typeof value === "string" && value.startsWith("$") ? theme[value.slice(1)] : value,
    );

  // -- a figure

  const shown = new IntersectionObserver(
    (entries) =>
      entries
        .filter((entry) => entry.isIntersecting)
        .forEach((entry) => {
          shown.unobserve(entry.target);
          figures.get(entry.target)?.();
        }),
    {rootMargin: "400px"},
  );

  const resized = new ResizeObserver((entries) =>
    entries.forEach(({target, contentRect}) => {
      if (Math.abs(contentRect.width - Number(target.dataset.drawn ?? contentRect.width)) > 2)
        figures.get(target)?.();
    }),
  );

  function redraw(all = false) {
    for (const [plot, show] of figures) {
      if (!plot.isConnected) forget(plot);
      else if (all || plot.dataset.drawn) show();
    }
  }

  function forget(plot) {
    shown.unobserve(plot);
    resized.unobserve(plot);
    plot.vega?.finalize();
    figures.delete(plot);
  }

  kt.theme.onChange(() => redraw());

  function complete(spec, theme, width) {
    const given = typeof spec === "function" ? spec({...theme, width}) : spec;
    const whole = {
      $schema: "https://vega.github.io/schema/vega-lite/v6.json",
      ...given,
      config: {...config(theme), ...given.config},
    };
    if (given.width === undefined && !given.facet && !given.hconcat && !given.vconcat) {
      whole.width = width;
      whole.autosize = {type: "fit-x", contains: "padding"};
    }
    return whole;
  }

  function tip(plot) {
    const box = el("div.chart-tip", {hidden: true});
    plot.append(box);
    return (handler, event, item, value) => {
      const lines =
        value && typeof value === "object" ? Object.entries(value) : value ? [["", value]] : [];
      box.hidden = !lines.length;
      if (!lines.length) return;
      kt.replace(
        box,
        lines.map(([name, text]) => el("div", el("span", name), el("span.n", String(text)))),
      );
      const around = plot.getBoundingClientRect();
      const left = event.clientX - around.left;
      const wanted = left > around.width / 2 ? left - box.offsetWidth - 14 : left + 14;
      box.style.left = `${Math.max(0, Math.min(wanted, around.width - box.offsetWidth))}px`;
      box.style.top = `${Math.max(0, event.clientY - around.top - box.offsetHeight / 2)}px`;
    };
  }

  async function show(plot, spec) {
    try {
      await libraries();
      // it has no place: drawn once it has one
      if (!plot.isConnected || !plot.clientWidth) return void shown.observe(plot);
      const width = printing ? Math.min(plot.clientWidth, PAPER_WIDTH) : plot.clientWidth;
      const whole = complete(spec, palette(), width);
      const runtime = window.vega.parse(window.vegaLite.compile(whole).spec, null, {ast: true});
      plot.vega?.finalize();
      kt.replace(plot);
      // the plot around it is the picture, and has its name
      const stage = el("div.chart-stage", {"aria-hidden": "true"});
      plot.append(stage);
      plot.vega = new window.vega.View(runtime, {
        renderer: "svg",
        expr: window.vega.expressionInterpreter,
        tooltip: tip(plot),
        hover: true,
      });
      plot.vega.initialize(stage).run();
      plot.dataset.drawn = String(width);
    } catch (error) {
      plot.dataset.drawn = "0";
      kt.replace(
        plot,
        el(
          "p.trouble",
          `The chart can't be drawn: ${error.message}. Its figures are in the table below it.`,
        ),
      );
    }
  }

  function table(columns, rows) {
    const isFigure = (value) => typeof value === "number" || value === null;
    const columnOf = ([text, unit], at) => {
      const n = rows.some((row) => typeof row[at] === "number");
      const cell = (row) => (isFigure(row[at]) ? kt.format.cell(row[at], unit) : row[at]);
      return [{text, n}, cell];
    };
    return kt.table.of("Figures of the chart", rows, columns.map(columnOf));
  }

  function draw(
    element,
    spec,
    {title, description = "", columns = [], rows = [], height = 220} = {},
  ) {
    const before = element.querySelector(".chart-plot");
    const wasOpen = element.querySelector(".chart-table:not([hidden])") !== null;
    if (before) forget(before);
    const plot = el("div.chart-plot", {role: "img", "aria-label": `${title}. ${description}`});
    plot.style.minHeight = `${height}px`;
    const figuresTable = el("div.chart-table", {hidden: true});
    const toggle = kt.button(
      "Table",
      () => {
        figuresTable.hidden = !figuresTable.hidden;
        toggle.setAttribute("aria-expanded", String(!figuresTable.hidden));
        if (!figuresTable.hidden && !figuresTable.firstChild)
          figuresTable.append(table(columns, rows));
      },
      {class: "small", "aria-expanded": "false", "aria-label": `Table of the figures: ${title}`},
    );
    const name = title
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .replace(/^-|-$/g, "")
      .slice(0, 60);
    const save = kt.button(
      "Vega-Lite",
      () =>
        kt.download(
          `${name}.vl.json`,
          `${JSON.stringify(complete(spec, palette(), plot.clientWidth || 640), null, 1)}\n`,
          "application/json",
        ),
      {
        class: "small",
        title: "Download this chart as a Vega-Lite spec with its data",
        "aria-label": `Download the Vega-Lite spec: ${title}`,
      },
    );
    const figure = el(
      "figure.chart",
      el(
        "figcaption",
        el("strong", title),
        description ? el("span.quiet", ` ${description}`) : null,
      ),
      el("div.chart-tools", rows.length ? toggle : null, save),
      plot,
      figuresTable,
    );
    kt.replace(element, figure);
    figures.set(plot, () => show(plot, spec));
    if (wasOpen && rows.length) toggle.click();
    if (before?.dataset.drawn)
      show(plot, spec); // at once, so that it does not flicker
    else shown.observe(plot);
    resized.observe(plot);
    return figure;
  }

  // -- a figure whose spec is declared

  const isName = (part) => typeof part === "string" && /^[$=]/.test(part);
  const tips = (fields, given) =>
    Object.entries(filled(fields, given)).map(([field, title]) => ({
      field,
      title,
      type: "nominal",
    }));

  /** A part of a spec with what is given for each name in it, as `=rows` or `$ink`. */
  function filled(part, given) {
    if (isName(part)) return given[part.slice(1)];
    if (part === null || typeof part !== "object") return part;
    if (Array.isArray(part)) {
      const shown = part.filter((one) => !one?.only_with || filled(one.only_with, given));
      return shown.map((one) => filled(one, given));
    }
    const {only_with: _, like = null, tips: fields, ...own} = part;
    const whole = {...filled(like, given)};
    for (const [name, one] of Object.entries(own)) whole[name] = filled(one, given);
    if (fields) whole.tooltip = tips(fields, given);
    return whole;
  }

  /** Columns and rows of the table that a declared figure has. */
  function tableOf(declared, rows, given) {
    const columns = filled(declared, given);
    return {
      columns: columns.map(({name, unit = ""}) => [name, unit]),
      rows: rows.map((row) => columns.map(({field}) => row[field] ?? null)),
    };
  }

  function figure(element, name, {title, description, rows, look = () => ({}), ...values}) {
    const {spec, table: declared, room = 0} = kt.charts.specs[name];
    const order = declared && [...new Set(rows.map((row) => row[declared[0].field]))];
    const given = {order, rows, ...values};
    const drawn = (theme) => filled(spec, {...theme, ...given, ...look(theme)});
    return draw(element, drawn, {
      title,
      description,
      height: (values.height ?? spec.height) + room,
      ...(declared ? tableOf(declared, rows, given) : values.table),
    });
  }

  // -- lines over days

  const NOUGHT = "datum.value === 0 ? '0' : datum.label"; // not "+0%"
  const ROOM = 110; // pixels a label of a day
  const MAX_DATES = 12;
  const MANY_DAYS = 730; // of which the months are named

  const percentAxis = ({signed = false} = {}) => ({
    format: `${signed ? "+" : ""}.2~%`,
    labelExpr: NOUGHT,
  });

  /** So many of the days in order, evenly, the first and the last among them. */
  function evenDays(days, count) {
    const step = (days.length - 1) / (count - 1);
    const places = Array.from({length: count}, (_, at) => Math.round(at * step));
    return [...new Set(places)].map((place) => Date.parse(days[place]));
  }

  function dayAxis(given, {room = ROOM, short = false} = {}) {
    const days = [...new Set(given)].sort();
    const span = (Date.parse(days.at(-1)) - Date.parse(days[0])) / 86_400_000;
    // of the days themselves: ticks of a calendar would fall on Sundays
    const choices = [];
    for (let count = 2; count <= MAX_DATES; count += 1) choices.push(evenDays(days, count));
    const chosen = `min(${choices.length - 1}, max(0, floor(width / ${room}) - 2))`;
    const day = short ? "%-d %b" : "%-d %b %y";
    return {
      field: "day",
      type: "temporal",
      scale: {type: "utc"},
      axis: {
        title: null,
        format: span > MANY_DAYS ? "%b %Y" : day,
        values: {expr: `${JSON.stringify(choices)}[${chosen}]`},
      },
    };
  }

  /** The weekday before a day: where a series begins whose base day is not told. */
  function before(day) {
    const at = new Date(`${day}T00:00:00Z`);
    do at.setUTCDate(at.getUTCDate() - 1);
    while ([0, 6].includes(at.getUTCDay()));
    return at.toISOString().slice(0, 10);
  }

  function points(line) {
    const values = line.nav || line.values;
    const days =
      values.length > line.days.length
        ? [line.base_day || before(line.days[0]), ...line.days]
        : line.days;
    return days.map((day, at) => [day, values[at]]);
  }

  /** Values of all lines by day, in words: [{day, when, s0, s1, …}]. */
  function wordsByDay(series, say) {
    const byDay = new Map();
    series.forEach(({points: given}, at) =>
      given.forEach(([day, value]) => {
        if (!byDay.has(day)) byDay.set(day, {day, when: day});
        byDay.get(day)[`s${at}`] = value === null ? kt.format.NONE : say(value);
      }),
    );
    return [...byDay.values()].sort((one, other) => (one.day < other.day ? -1 : 1));
  }

  function legendOf(labels, width) {
    if (labels.length < 2) return null;
    const longest = Math.max(...labels.map((label) => label.length));
    const room = Math.min(270, longest * 6.4 + 50);
    return {columns: Math.max(1, Math.floor(width / room)), values: labels};
  }

  /**
   * Lines with a legend, and all values of the day under the pointer. series: [{label, dotted,
   * thick, points: [[day, value]]}].
   */
  function timeSpec({
    series,
    bands = [],
    signed = false,
    axisTitle = null,
    zero = null,
    height = 240,
    say = (value) => kt.format.percent(value, 2, true),
  }) {
    const labels = series.map(({label}) => label);
    const words = wordsByDay(series, say);
    const days = dayAxis(words.map(({day}) => day));
    const fields = series.map(({label}, at) => [`s${at}`, label]);
    const told = {when: "Day", ...Object.fromEntries(fields)};
    return (theme) => {
      const paint = colorsOf(series, theme.colors, theme.ink, theme.muted);
      const common = {
        ...theme,
        axis: percentAxis({signed}),
        axisTitle,
        days,
        labels,
        legend: legendOf(labels, theme.width),
        paints: paint.map(({color}) => color),
        dashes: paint.map(({dash}) => dash),
        told,
        zero,
      };
      const layer = (name, own) => filled(kt.charts.specs[name].spec, {...common, ...own});
      const areas = bands.map((rows, at) =>
        layer("band", {rows, opacity: bands.length > 1 && at === 0 ? 0.13 : 0.2}),
      );
      const widths = [...new Set(paint.map(({width}) => width))].sort();
      const strokes = widths.map((thickness) => {
        const own = series.filter((_, at) => paint[at].width === thickness);
        const rows = own.flatMap(({label, points: given}) =>
          given.map(([day, value]) => ({day, series: label, value})),
        );
        return layer("strokes", {rows, thickness});
      });
      const rule = zero === null ? [] : [layer("zero")];
      return {height, layer: [...areas, ...rule, ...strokes, layer("pointer", {rows: words})]};
    };
  }

  function colorsOf(series, colors, ink, muted) {
    let place = 0;
    return series.map((line) => {
      if (line.dotted)
        return {color: line.color ? colors[line.color - 1] : muted, dash: [2, 2.5], width: 1.5};
      if (line.thick) return {color: ink, dash: [1, 0], width: 2.4};
      const at = place++;
      return {
        color: colors[at % colors.length],
        dash: DASHES[
          (at + Math.floor(at / colors.length)) % (at < colors.length ? 1 : DASHES.length)
        ],
        width: 1.8,
      };
    });
  }

  /** Labels that occur twice get a number, for a series is known by its label. */
  function distinct(lines) {
    const seen = new Map();
    return lines.map((line) => {
      const count = (seen.get(line.label) || 0) + 1;
      seen.set(line.label, count);
      return {...line, label: count > 1 ? `${line.label} (${count})` : line.label};
    });
  }

  function tableOfDays(series, unit) {
    const byDay = new Map();
    series.forEach((line, at) =>
      line.points.forEach(([day, value]) => {
        if (!byDay.has(day))
          byDay.set(
            day,
            series.map(() => null),
          );
        byDay.get(day)[at] = value;
      }),
    );
    return {
      columns: [["Day", ""], ...series.map((line) => [line.label, unit])],
      rows: [...byDay]
        .sort((one, other) => (one[0] < other[0] ? -1 : 1))
        .map(([day, values]) => [day, ...values]),
    };
  }

  function lines(element, series, {title, description, height = 240, unit = "fraction", ...how}) {
    const named = distinct(series);
    return draw(element, timeSpec({series: named, height, ...how}), {
      title,
      description,
      height: height + 60,
      ...tableOfDays(named, unit),
    });
  }

  /** Pairs of quantile paths, outermost first, as areas. */
  function areas(given) {
    if (!given) return [];
    const paths = given.bands.map((band) =>
      points({days: given.days, nav: band, base_day: given.base_day}),
    );
    const found = [];
    for (let low = 0, high = paths.length - 1; low < high; low++, high--) {
      found.push(
        paths[low].map(([day, value], at) => ({day, low: value - 1, high: paths[high][at][1] - 1})),
      );
    }
    return found;
  }

  function equity(element, given, options = {}) {
    const series = given.map((line) => {
      const own = points(line);
      const first = own.map(([, value]) => value).find(kt.known);
      return {
        label: line.label,
        dotted: line.benchmark,
        points: own.map(([day, value]) => [day, kt.known(value) ? value / first - 1 : null]),
      };
    });
    return lines(element, series, {
      title: "Return since the start",
      axisTitle: null,
      signed: true,
      zero: 0,
      ...options,
      bands: areas(options.bands),
    });
  }

  function drawdown(element, given, options = {}) {
    const series = given.map((line) => {
      let peak = -Infinity;
      return {
        label: line.label,
        dotted: line.benchmark,
        points: points(line).map(([day, value]) => {
          if (!kt.known(value)) return [day, null]; // a gap is no fall
          peak = Math.max(peak, value);
          return [day, value / peak - 1];
        }),
      };
    });
    return lines(element, series, {
      title: "Drawdown",
      zero: 0,
      height: 130,
      say: (value) => kt.format.percent(value),
      ...options,
    });
  }

  // -- what is loaded once it is near the window

  function whenSeen(place, act) {
    const load = () => {
      seen.disconnect();
      waiting.delete(place);
      return act();
    };
    const seen = new IntersectionObserver(
      (entries) => entries.some((entry) => entry.isIntersecting) && load(),
      {rootMargin: "300px"},
    );
    waiting.set(place, load);
    seen.observe(place);
  }

  // -- printing: on white and paper's width, with what was not yet looked at

  async function print() {
    const loads = [...waiting].filter(([place]) => place.isConnected).map(([, load]) => load());
    await Promise.all([libraries(), ...loads]);
    printing = true;
    for (const [plot, show] of figures) if (plot.isConnected) await show();
    window.print();
  }

  window.addEventListener("beforeprint", () => {
    printing = true;
    if (window.vega?.expressionInterpreter) redraw(true);
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    redraw();
  });

  kt.charts = {
    draw,
    figure,
    equity,
    drawdown,
    lines,
    percentAxis,
    dayAxis,
    print,
    whenSeen,
    distinct,
    colors: () => palette().colors,
  };
})();
