// Returns since the start: all entrants over each other with those that are highlighted, a day to
// read off, and a panel for each entrant.

{
  const {el, svg} = kt;
  const {percent} = live;

  const sessionsOf = ({first, held}) => held.map((_, at) => first + at);

  function spanOf(entries) {
    const firsts = entries.map(({equity}) => equity.first);
    const lasts = entries.map(({equity}) => equity.first + equity.held.length - 1);
    return [Math.min(...firsts) - 1, Math.max(...lasts)];
  }

  /** Series with the start, at which every return is 0, in front. */
  const begun = (values) => [0, ...values];

  /** The entry whose days reach furthest back: its index and Buy & Hold are those of the market. */
  const oldest = (entries) =>
    entries.reduce((one, other) =>
      other.equity.held.length > one.equity.held.length ? other : one,
    );

  function overview(entries, all) {
    const paint = live.paint();
    const market = live.market();
    const bench = oldest(all).equity;
    const greys = entries.filter(({entrant}) => !paint.has(entrant));
    const coloured = entries.filter(({entrant}) => paint.has(entrant));
    const line = (entry, className) => ({
      className,
      first: entry.equity.first - 1,
      values: begun(entry.equity.held),
    });
    const bench_line = (name) => ({
      className: name,
      first: bench.first - 1,
      values: begun(bench[name]),
    });
    const lines = [
      ...greys.map((entry) => line(entry, "line grey")),
      {...bench_line("index"), className: "line index"},
      {...bench_line("buy_and_hold"), className: "line hold"},
      ...coloured.map((entry) => line(entry, `line c${paint.get(entry.entrant)}`)),
    ];
    const ends = kt.drawing.roomy(
      lines.map(({values}) => values),
      {keep: [0]},
    );
    const place = el("div.wide-plot", {});
    const readout = el("p.readout", {role: "status"});
    const span = spanOf(all);
    const {returns: words} = live.words;
    let stem = null;
    let scale = null;

    const figure = (values, first, session) => {
      const at = session - first;
      return at < 0 || at >= values.length ? null : values[at];
    };

    function show(session) {
      const own = coloured.map((entry) => [
        entry.entrant,
        `c${paint.get(entry.entrant)}`,
        figure(entry.equity.held, entry.equity.first, session),
      ]);
      if (market.index)
        own.push([market.index, "index", figure(bench.index, bench.first, session)]);
      own.push([words.hold, "hold", figure(bench.buy_and_hold, bench.first, session)]);
      kt.replace(
        readout,
        el("strong", {}, market.days[session]),
        own.map(([name, kind, value]) =>
          el(
            "span.key-item",
            {},
            el(`span.key.${kind}`, {}),
            `${name} `,
            el("b", {}, percent(value)),
          ),
        ),
      );
      if (stem && scale) {
        const x = kt.drawing.number(scale.x(session));
        stem.setAttribute("x1", x);
        stem.setAttribute("x2", x);
      }
    }

    const slider = el("input", {
      type: "range",
      min: span[0] + 1,
      max: span[1],
      value: span[1],
      "aria-label": words.day,
      input: () => choose(Number(slider.value)),
    });
    slider.value = span[1];
    function choose(session) {
      slider.value = session;
      slider.setAttribute("aria-valuetext", market.days[session]);
      show(session);
    }

    const plot = {
      lines,
      ends,
      span,
      days: market.days,
      height: 300,
      factor: 100,
      label: `${words.all}. ${words.lead}`,
      onDrawn(picture, drawn) {
        scale = drawn;
        stem = svg("line", {class: "stem", y1: 8, y2: drawn.bottom});
        picture.append(stem);
        choose(Number(slider.value));
      },
    };
    const move = (event) => {
      const {left} = place.getBoundingClientRect();
      const from = scale.x(span[0]);
      const to = scale.x(span[1]);
      const part = (event.clientX - left - from) / (to - from);
      const session = Math.round(span[0] + part * (span[1] - span[0]));
      choose(Math.min(Math.max(session, span[0] + 1), span[1]));
    };
    place.addEventListener("pointermove", move);
    return {
      element: el(
        "figure.wide",
        {},
        el(
          "figcaption",
          {},
          el("strong", {}, words.all),
          greys.length ? el("span.quiet", {}, ` ${words.all_note}`) : null,
        ),
        readout,
        place,
        el("div.scrub", {}, slider),
      ),
      draw: () => kt.drawing.plot(place, plot),
    };
  }

  function panel(entry, {ends, span}) {
    const words = live.words.returns;
    const market = live.market();
    const {equity, results} = entry;
    const first = equity.first - 1;
    const hasGaps = live.gapCount(entry) > 0;
    const sessions = [first, ...sessionsOf(equity)];
    const lines = [
      {className: "line index", first, values: begun(equity.index)},
      {className: "line hold", first, values: begun(equity.buy_and_hold)},
      hasGaps ? {className: "line flat", first, values: begun(equity.flat)} : null,
      {className: "line held", first, values: begun(equity.held)},
    ].filter(Boolean);
    const label = live.say(words.panel, {
      entrant: entry.entrant,
      held: live.percentOf(results.held),
      flat: live.percentOf(results.flat),
      low: live.percentOf(results.low),
      high: live.percentOf(results.high),
      index: market.index || words.index,
      index_return: live.percentOf(results.index),
      hold_return: live.percentOf(results.buy_and_hold),
    });
    const band = hasGaps
      ? {className: "band", sessions, low: begun(equity.low), high: begun(equity.high)}
      : null;
    const figures = live.percentOf(results.held);
    return live.panel(entry.entrant, figures, {lines, band, ends, span, factor: 100, label});
  }

  function legend(entries) {
    const words = live.words.returns;
    const hasGaps = entries.some((entry) => live.gapCount(entry) > 0);
    return el(
      "p.legend",
      {},
      live.key("held", words.held),
      hasGaps ? live.key("flat", words.flat) : null,
      hasGaps ? live.key("area", words.bounds) : null,
      live.market().index ? live.key("index", live.market().index) : null,
      live.key("hold", words.hold),
    );
  }

  /** The small plot of an entrant, with figures beside its name. `plot`: what `kt.drawing.plot` takes. */
  live.panel = (entrant, figures, plot) => {
    const place = el("div.panel-plot", {});
    const {days} = live.market();
    return {
      element: el(
        "figure.panel-figure",
        {},
        el("figcaption", {}, el("strong", {}, entrant), el("span.n", {}, figures)),
        place,
      ),
      draw: () => kt.drawing.plot(place, {...plot, days, height: 150}),
    };
  };

  live.panels = (made) =>
    el(
      `div.panels${made.length <= 4 ? ".few" : ""}`,
      {},
      made.map(({element}) => element),
    );

  live.returns = (place) => {
    const words = live.words.returns;
    const all = live.entries().filter(({equity}) => equity.held.length);
    const entries = live.shown().filter(({equity}) => equity.held.length);
    if (!entries.length) {
      kt.replace(place, el("p.empty", {}, words.no_days));
      return;
    }
    const series = entries.flatMap(({equity}) => [
      equity.held,
      equity.flat,
      equity.index,
      equity.buy_and_hold,
    ]);
    const common = {ends: kt.drawing.roomy(series, {keep: [0]}), span: spanOf(all)};
    const wide = overview(entries, all);
    const made = entries.map((entry) => panel(entry, common));
    kt.replace(
      place,
      el("p.quiet", {}, words.lead),
      wide.element,
      legend(entries),
      live.panels(made),
      el("p.quiet.hint", {}, words.note),
    );
    [wide, ...made].forEach(({draw}) => draw());
  };
}
