// Plots over the sessions of a market, drawn as SVG in the width of their place.
//
// live.plot(place, {lines, band, height, ends, span, label, days, unit, ticks, mark})
//     lines: [{className, first, values}], values from the session `first` on; null is a gap
//     band: {className, sessions, low, high}: an area; an end that is null reaches the plot's edge
//     ends: [lowest, highest] value on the plot; span: [first, last] session
//     label: what it shows, for those who can't see it
// live.plotEnds([values, …], {keep})
//     the ends of some values, with room around them and `keep` inside

{
  const {svg, drawing} = kt;
  const MARGIN = {left: 44, right: 8, top: 8, bottom: 20};
  // pixels between labels of the time axis: a day is longer than a month, and ends at its mark
  const NEAR = 70;
  const MONTH_NEAR = 50;
  const DAY_NEAR = 95;
  let clips = 0;

  live.plotEnds = (series, {keep = [0]} = {}) => {
    const values = series.flat().filter((value) => kt.known(value));
    const [low, high] = drawing.ends([...values, ...keep]);
    const room = 0.06 * (high - low || 1);
    return [low - room, high + room];
  };

  function scales({width, height, ends, span}) {
    const inside = width - MARGIN.left - MARGIN.right;
    const [first, last] = span;
    const [low, high] = ends;
    const bottom = height - MARGIN.bottom;
    return {
      x: (session) => MARGIN.left + ((session - first) / Math.max(last - first, 1)) * inside,
      y: (value) => bottom - ((value - low) / (high - low)) * (bottom - MARGIN.top),
      right: width - MARGIN.right,
      bottom,
    };
  }

  function grid({x, y, right}, {ends, unit = "%", factor = 1, height}) {
    const most = height > 200 ? 6 : 4;
    const marks = drawing.ticks(ends[0] * factor, ends[1] * factor, most);
    const step = marks.length > 1 ? marks[1] - marks[0] : 1;
    const digits = step < 0.995 ? Math.min(3, Math.ceil(-Math.log10(step) - 1e-9)) : 0;
    return marks.map((mark) => {
      const at = y(mark / factor);
      const isZero = Math.abs(mark) < step / 1e6;
      const text = isZero ? "0" : kt.format.number(mark, digits, true);
      return [
        svg("line", {
          x1: MARGIN.left,
          x2: right,
          y1: at,
          y2: at,
          class: isZero ? "zero" : "grid-line",
        }),
        svg("text", {x: MARGIN.left - 5, y: at + 3.5, class: "end"}, text + (isZero ? "" : unit)),
      ];
    });
  }

  /** The first day, the last one, and first days of months between them, as far as there is room. */
  function dates({x, bottom}, {span, days}) {
    const [first, last] = span;
    const marks = [];
    const add = (session, text, anchor) => marks.push({place: x(session), text, anchor});
    add(first, days[first], "start");
    if (x(last) - x(first) > 2 * NEAR) add(last, days[last], "end");
    for (let session = first + 1; session < last; session += 1) {
      const begins = days[session].slice(0, 7) !== days[session - 1].slice(0, 7);
      const isFree = marks.every(({place, anchor}) => {
        const needed = anchor === "middle" ? MONTH_NEAR : DAY_NEAR;
        return Math.abs(place - x(session)) >= needed;
      });
      if (begins && isFree) add(session, days[session].slice(0, 7), "middle");
    }
    return marks.map(({place, text, anchor}) => [
      svg("line", {x1: place, x2: place, y1: bottom, y2: bottom + 3, class: "tick-line"}),
      svg("text", {x: place, y: bottom + 15, class: anchor}, text),
    ]);
  }

  function area({sessions, low, high}, {x, y}, ends) {
    const [least, most] = ends;
    const inside = (value, edge) => {
      if (!kt.known(value)) return y(edge);
      return y(Math.min(Math.max(value, least), most));
    };
    const upper = sessions.map((session, at) => [x(session), inside(high[at], most)]);
    const lower = sessions.map((session, at) => [x(session), inside(low[at], least)]);
    const points = [...upper, ...lower.reverse()];
    return points.map(([px, py]) => `${drawing.number(px)},${drawing.number(py)}`).join(" ");
  }

  function draw(place, plot) {
    const width = Math.floor(place.clientWidth);
    if (!width) return;
    const {height, ends, span, lines = [], band = null, label} = plot;
    const scale = scales({width, height, ends, span});
    const clip = `clip-${(clips += 1)}`;
    const paths = lines.map(({className, first, values, sessions = null}) =>
      svg("path", {
        class: className,
        d: drawing.line(
          values,
          (at) => scale.x(sessions ? sessions[at] : first + at),
          (value) => scale.y(value),
        ),
      }),
    );
    const areas =
      band && band.sessions.length
        ? svg("polygon", {class: band.className, points: area(band, scale, ends)})
        : null;
    const inside = svg("rect", {
      x: MARGIN.left,
      y: MARGIN.top - 2,
      width: Math.max(scale.right - MARGIN.left + 2, 0),
      height: scale.bottom - MARGIN.top + 4,
    });
    const picture = svg(
      "svg",
      {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label},
      svg("clipPath", {id: clip}, inside),
      grid(scale, plot),
      dates(scale, plot),
      svg("g", {"clip-path": `url(#${clip})`}, areas, paths),
    );
    kt.replace(place, picture);
    place.scale = scale;
    place.drawn = width;
    if (plot.onDrawn) plot.onDrawn(picture, scale);
  }

  const plots = new WeakMap();
  const resized = new ResizeObserver((entries) =>
    entries.forEach(({target}) => {
      if (Math.floor(target.clientWidth) !== target.drawn) draw(target, plots.get(target));
    }),
  );

  live.plot = (place, plot) => {
    plots.set(place, plot);
    if (!place.isObserved) resized.observe(place);
    place.isObserved = true;
    draw(place, plot);
    return place;
  };

  /** A small drawing of an interval on a common scale: `ends` of it, mean, low and high. */
  live.whisker = ({mean, low, high}, ends, width = 120) => {
    if (!kt.known(mean)) return null;
    const [least, most] = ends;
    const inside = (value) => Math.min(Math.max(value, least), most);
    const x = (value) => 3 + ((inside(value) - least) / (most - least)) * (width - 6);
    const from = kt.known(low) ? x(low) : 0;
    const to = kt.known(high) ? x(high) : width;
    return svg(
      "svg",
      {viewBox: `0 0 ${width} 14`, width, height: 14, class: "whisker", "aria-hidden": "true"},
      svg("line", {class: "zero", x1: x(0), x2: x(0), y1: 0, y2: 14}),
      svg("line", {class: "reach", x1: from, x2: to, y1: 7, y2: 7}),
      svg("circle", {class: "mean", cx: x(mean), cy: 7, r: 3.2}),
    );
  };
}
