// One strip an entrant, one cell a session: decided, sealed, or a gap with its cause.

{
  const {el, svg} = kt;
  const HEIGHT = 18;
  const LOW = 6; // of cells that are not counted
  const LEAST = 2.5; // pixels of a cell that must be seen
  const FEW = 8; // days, whose cells do not fill the width
  const MOST = 80; // pixels of a cell of few days

  const ORDER = [
    "decided",
    "sealed",
    "open",
    "missed",
    "no_data",
    "late",
    "failed",
    "deadline",
    "unpublished",
    "absent",
  ];
  const isGap = (state) => !["decided", "sealed", "open", "absent"].includes(state);

  function counts(entry) {
    const found = new Map();
    entry.states.forEach((state, at) => {
      const name = at < entry.uncounted ? "uncounted" : state;
      found.set(name, (found.get(name) || 0) + 1);
    });
    const {states, uncounted} = live.words.days;
    const named = [...ORDER, "uncounted"].filter((name) => found.has(name));
    return named
      .map((name) => `${found.get(name)} ${name === "uncounted" ? uncounted : states[name].title}`)
      .join(", ");
  }

  function summary({states, uncounted}) {
    const counted = states.slice(uncounted);
    return live.say(live.words.days.summary, {
      decided: counted.filter((state) => state === "decided" || state === "sealed").length,
      gaps: counted.filter(isGap).length,
      uncounted,
    });
  }

  /** Sessions side by side with one state, as one piece. */
  function pieces({states, uncounted}) {
    const found = [];
    states.forEach((state, at) => {
      const isLow = at < uncounted;
      const last = found.at(-1);
      if (last && last.state === state && last.isLow === isLow) last.to = at + 1;
      else found.push({state, isLow, from: at, to: at + 1});
    });
    return found;
  }

  function title({state, from, to}, days) {
    const span = to - from > 1 ? `${days[from]} – ${days[to - 1]}` : days[from];
    return svg("title", {}, `${span}: ${live.words.days.states[state].title}`);
  }

  function draw(place, entry, market) {
    const width = Math.floor(place.clientWidth);
    if (!width || place.drawn === width) return;
    place.drawn = width;
    const whole = width / Math.max(market.deciding, 1);
    const cell = market.deciding <= FEW ? Math.min(whole, MOST) : whole;
    const found = pieces(entry);
    // gaps last, so that none is hidden behind its neighbours
    found.sort((one, other) => isGap(one.state) - isGap(other.state));
    const rects = found.map((piece) => {
      const high = piece.isLow ? LOW : HEIGHT;
      return svg(
        "rect",
        {
          class: `state ${piece.state}`,
          x: kt.drawing.number(piece.from * cell),
          y: HEIGHT - high,
          width: kt.drawing.number(
            Math.max((piece.to - piece.from) * cell - (cell > 5 ? 1 : 0), LEAST),
          ),
          height: high,
        },
        title(piece, market.days),
      );
    });
    const label = live.say(live.words.days.strip, {entrant: entry.entrant, counts: counts(entry)});
    kt.replace(
      place,
      kt.drawing.picture(
        {width, height: HEIGHT, label},
        svg("line", {class: "base", x1: 0, x2: width, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5}),
        rects,
      ),
    );
  }

  function strip(entry, market, resized) {
    const place = el("div.strip-plot", {});
    place.draw = () => draw(place, entry, market);
    resized.observe(place);
    return el(
      "li",
      {},
      el("span.strip-name", {}, entry.entrant),
      place,
      el("span.strip-counts", {}, summary(entry)),
    );
  }

  function legend(entries) {
    const {states, uncounted} = live.words.days;
    const used = new Set(entries.flatMap((entry) => entry.states));
    const keys = ORDER.filter((name) => used.has(name)).map((name) =>
      el(
        "span.key-item",
        {title: states[name].meaning},
        el(`span.cell.${name}`, {}),
        states[name].title,
      ),
    );
    const hasLow = entries.some((entry) => entry.uncounted);
    return el(
      "p.legend",
      {},
      keys,
      hasLow ? el("span.key-item", {}, el("span.cell.low", {}), uncounted) : null,
    );
  }

  const MOST_GAPS = 200;

  function gaps(entries) {
    const words = live.words.days;
    const names = new Set(entries.map(({entrant}) => entrant));
    const own = live.page.gaps.filter(
      ({market, entrant}) => market === live.view.market && names.has(entrant),
    );
    if (!own.length) return el("p.quiet", {}, words.no_gaps);
    const table = kt.table.plain({
      caption: words.gaps,
      head: words.gap_heads,
      rows: own
        .slice(0, MOST_GAPS)
        .map(({day, entrant, cause, detail}) => [day, entrant, words.states[cause].title, detail]),
    });
    table.classList.add("tall");
    return kt.details(
      `${words.gaps}: ${own.length}`,
      own.length > MOST_GAPS
        ? el("p.quiet", {}, live.say(words.more_gaps, {shown: MOST_GAPS, all: own.length}))
        : null,
      table,
    );
  }

  const resized = new ResizeObserver((entries) => entries.forEach(({target}) => target.draw()));

  live.days = (place) => {
    const entries = live.shown();
    const market = live.market();
    const ends = [market.days[0], market.days[Math.max(market.deciding - 1, 0)]];
    kt.replace(
      place,
      el("p.quiet", {}, live.words.days.lead),
      legend(entries),
      el(
        "ul.strips",
        {},
        entries.map((entry) => strip(entry, market, resized)),
      ),
      entries.length
        ? el(
            `p.strip-ends${market.deciding <= FEW ? ".few" : ""}`,
            {"aria-hidden": "true"},
            [...new Set(ends)].map((day) => el("span", {}, day)),
          )
        : null,
      gaps(entries),
    );
  };
}
