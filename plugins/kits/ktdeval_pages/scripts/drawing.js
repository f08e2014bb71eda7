// Charts in SVG, for pages that have to be one file and can't carry Vega-Lite (0.8 MB). Colours,
// light and dark, are those of the page's style (`.drawing` in pages.css).
//
// kt.drawing.plot(place, {lines, band, height, ends, span, label, days, unit, factor, onDrawn})
//     lines over the sessions of a market, as wide as their place, drawn again for another width
//     lines: [{className, first, values}], values from the session `first` on; or {sessions, values};
//     null is a gap
//     band: {className, sessions, low, high}: an area; an end that is null reaches the plot's edge
//     ends: [lowest, highest] value on the plot; span: [first, last] session; days: those of sessions
//     label: what it shows, for those who can't see it; onDrawn: called with picture and scale
// kt.drawing.whisker({mean, low, high}, ends, width)
//     an interval on a common scale; an end that is null reaches the edge
// kt.drawing.bars(values, {width, height, label})
//     small bars from 0 on; null is a gap
// kt.drawing.sparkline(values, {from, to, fills, width, height})
//     a small line with what came after place `to` in a shade, and fills: [{place, value, side}]
//
// Their parts, for charts of a page's own:
//
// kt.drawing.picture({width, height, label, ...}, ...children)
//     the drawing itself; without a label it is hidden from those who can't see it
// kt.drawing.scale({width, height, margin, ends, span})
//     {x, y, left, right, top, bottom}: coordinates of sessions and values
// kt.drawing.valueAxis(scale, ends, {most, factor, say})
//     lines and labels at round values; `say` gives the label of a value and the step between two
// kt.drawing.dayAxis(scale, {span, days, months, below})
//     the first day, the last one, and unless `months` is false first days of months between them
// kt.drawing.ends(values), kt.drawing.roomy(series, {keep, least, share})
//     [lowest, highest] of a list, however long; the same of lists with gaps, with room around them
// kt.drawing.line(values, x, y)
//     path through points, with a gap where a value is null; a point between gaps is a short
//     stroke; x and y give coordinates
// kt.drawing.ticks(low, high, most)
//     round values between two ends, at most `most`
// kt.drawing.triangle(x, y, {half, near, far, up})
//     corners of a triangle `near` to `far` below a point, or above it unless `up`
// kt.drawing.number(value)
//     a coordinate as an attribute

kt.drawing = (() => {
  const {svg} = kt;
  const MARGIN = {left: 44, right: 8, top: 8, bottom: 20};
  // pixels between labels of the time axis: a day is longer than a month, and ends at its mark
  const NEAR = 70;
  const MONTH_NEAR = 50;
  const DAY_NEAR = 95;
  let clips = 0;

  const number = (value) => value.toFixed(1);

  /* A list may be longer than a call can take arguments. */
  const ends = (values) =>
    [Math.min, Math.max].map((best) => values.reduce((one, other) => best(one, other)));

  const isThere = (value) => value !== null && value !== undefined;

  function line(values, x, y) {
    let path = "";
    let pen = "M";
    values.forEach((value, index) => {
      if (!isThere(value)) {
        pen = "M";
        return;
      }
      path += `${pen}${number(x(index))} ${number(y(value))}`;
      const isAlone = pen === "M" && !isThere(values[index + 1]);
      if (isAlone) path += "m-2 0h4"; // a path of one point has no ink
      pen = "L";
    });
    return path;
  }

  function ticks(low, high, most) {
    const rough = (high - low) / most || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const found = [];
    const first = Math.ceil(low / step - 1e-9);
    for (let index = first; index * step <= high + 1e-9 * step; index += 1)
      found.push(index * step);
    return found;
  }

  function triangle(x, y, {half, near, far, up}) {
    const direction = up ? 1 : -1;
    const base = number(y + direction * far);
    return (
      `${number(x - half)},${base} ${number(x + half)},${base} ` +
      `${number(x)},${number(y + direction * near)}`
    );
  }

  function roomy(series, {keep = [], least = 1, share = 0.06} = {}) {
    const values = series.flat().filter((value) => kt.known(value));
    const [low, high] = ends([...values, ...keep]);
    const room = share * (high - low || least);
    return [low - room, high + room];
  }

  function picture({width, height, label = "", ...attributes}, ...children) {
    const said = label ? {role: "img", "aria-label": label} : {"aria-hidden": "true"};
    const {class: own = "", ...others} = attributes;
    const size = {viewBox: `0 0 ${width} ${height}`, width, height};
    return svg("svg", {...size, ...said, ...others, class: `drawing ${own}`.trim()}, ...children);
  }

  function scale({width, height, margin = MARGIN, ends: [low, high], span: [first, last]}) {
    const {left, top} = margin;
    const right = width - margin.right;
    const bottom = height - margin.bottom;
    return {
      x: (session) => left + ((session - first) / Math.max(last - first, 1)) * (right - left),
      y: (value) => bottom - ((value - low) / (high - low)) * (bottom - top),
      left,
      right,
      top,
      bottom,
    };
  }

  function valueAxis({y, left, right}, [low, high], {most, factor = 1, say}) {
    const marks = ticks(low * factor, high * factor, most);
    const step = marks.length > 1 ? marks[1] - marks[0] : 1;
    return marks.map((mark) => {
      const at = y(mark / factor);
      const isZero = Math.abs(mark) < step / 1e6;
      return [
        svg("line", {x1: left, x2: right, y1: at, y2: at, class: isZero ? "zero" : "grid-line"}),
        svg("text", {x: left - 5, y: at + 4, class: "end"}, say(isZero ? 0 : mark, step)),
      ];
    });
  }

  function dayAxis({x, bottom}, {span: [first, last], days, months = true, below = 15}) {
    const marks = [];
    const add = (session, text, anchor) => marks.push({place: x(session), text, anchor});
    add(first, days[first], "start");
    if (x(last) - x(first) > 2 * NEAR) add(last, days[last], "end");
    for (let session = first + 1; months && session < last; session += 1) {
      const begins = days[session].slice(0, 7) !== days[session - 1].slice(0, 7);
      const isFree = marks.every(({place, anchor}) => {
        const needed = anchor === "middle" ? MONTH_NEAR : DAY_NEAR;
        return Math.abs(place - x(session)) >= needed;
      });
      if (begins && isFree) add(session, days[session].slice(0, 7), "middle");
    }
    return marks.map(({place, text, anchor}) => [
      months
        ? svg("line", {x1: place, x2: place, y1: bottom, y2: bottom + 3, class: "tick-line"})
        : null,
      svg("text", {x: place, y: bottom + below, class: anchor}, text),
    ]);
  }

  /** Corners of the area between two lines. */
  function area({sessions, low, high}, {x, y}, [least, most]) {
    const inside = (value, edge) =>
      y(isThere(value) ? Math.min(Math.max(value, least), most) : edge);
    const upper = sessions.map((session, at) => [x(session), inside(high[at], most)]);
    const lower = sessions.map((session, at) => [x(session), inside(low[at], least)]);
    const corners = [...upper, ...lower.reverse()];
    return corners.map(([px, py]) => `${number(px)},${number(py)}`).join(" ");
  }

  /** Label of a value with as many decimals as the step between two needs. */
  const withUnit = (unit) => (value, step) => {
    if (value === 0) return "0";
    const digits = step < 0.995 ? Math.min(3, Math.ceil(-Math.log10(step) - 1e-9)) : 0;
    return kt.format.number(value, digits, true) + unit;
  };

  function draw(place, chart) {
    const width = Math.floor(place.clientWidth);
    if (!width) return;
    const {height, ends: reach, lines = [], band = null, label, unit = "%", factor = 1} = chart;
    const on = scale({...chart, width});
    const paths = lines.map(({className, first, values, sessions = null}) =>
      svg("path", {
        class: className,
        d: line(values, (at) => on.x(sessions ? sessions[at] : first + at), on.y),
      }),
    );
    const shade =
      band && band.sessions.length
        ? svg("polygon", {class: band.className, points: area(band, on, reach)})
        : null;
    const clip = `clip-${(clips += 1)}`;
    const inside = svg("rect", {
      x: on.left,
      y: on.top - 2,
      width: Math.max(on.right - on.left + 2, 0),
      height: on.bottom - on.top + 4,
    });
    const drawn = picture(
      {width, height, label},
      svg("clipPath", {id: clip}, inside),
      valueAxis(on, reach, {most: height > 200 ? 6 : 4, factor, say: withUnit(unit)}),
      dayAxis(on, chart),
      svg("g", {"clip-path": `url(#${clip})`}, shade, paths),
    );
    kt.replace(place, drawn);
    place.drawn = width;
    if (chart.onDrawn) chart.onDrawn(drawn, on);
  }

  const plots = new WeakMap();
  const resized = new ResizeObserver((entries) =>
    entries.forEach(({target}) => {
      if (Math.floor(target.clientWidth) !== target.drawn) draw(target, plots.get(target));
    }),
  );

  function plot(place, chart) {
    if (!plots.has(place)) resized.observe(place);
    plots.set(place, chart);
    draw(place, chart);
    return place;
  }

  function whisker({mean, low, high}, [least, most], width = 120) {
    if (!kt.known(mean)) return null;
    const inside = (value) => Math.min(Math.max(value, least), most);
    const x = (value) => 3 + ((inside(value) - least) / (most - least)) * (width - 6);
    const from = kt.known(low) ? x(low) : 0;
    const to = kt.known(high) ? x(high) : width;
    return picture(
      {width, height: 14, class: "whisker"},
      svg("line", {class: "zero", x1: x(0), x2: x(0), y1: 0, y2: 14}),
      svg("line", {class: "reach", x1: from, x2: to, y1: 7, y2: 7}),
      svg("circle", {class: "mean", cx: x(mean), cy: 7, r: 3.2}),
    );
  }

  function bars(values, {width, height, label}) {
    const known = values.filter(kt.known);
    if (!known.length) return null;
    const most = ends(known)[1] || 1;
    const cell = width / values.length;
    const rects = values.map((value, at) =>
      kt.known(value)
        ? svg("rect", {
            x: number(at * cell),
            width: number(Math.max(cell - (cell > 4 ? 1 : 0), 0.6)),
            y: number(height * (1 - value / most)),
            height: number((height * value) / most),
          })
        : null,
    );
    return picture({width, height, label, class: "spark"}, rects);
  }

  function sparkline(values, {from, to, fills = [], width = 190, height = 46}) {
    const known = values.filter(isThere);
    if (known.length < 2) return null;
    const [low, high] = ends(known);
    const x = (place) => 3 + (place / (values.length - 1)) * (width - 6);
    const y = (value) => height - 5 - ((value - low) / (high - low || 1)) * (height - 10);
    const marks = fills.map(({place, value, side}) => {
      const [cx, cy] = [x(place), y(Math.min(Math.max(value, low), high))];
      const corners = triangle(cx, cy, {half: 4, near: -3, far: 5, up: side === "BUY"});
      return svg("polygon", {class: side === "BUY" ? "bought" : "sold", points: corners});
    });
    const shade = {class: "after", x: x(to), width: width - x(to), y: 0, height};
    const decided = {class: "decision", x1: x(from), x2: x(from), y1: 0, y2: height};
    return picture(
      {width: null, height: null, viewBox: `0 0 ${width} ${height}`, class: "spark"},
      to === undefined ? null : svg("rect", shade),
      from === undefined ? null : svg("line", decided),
      svg("path", {class: "price", d: line(values, x, y)}),
      ...marks,
    );
  }

  return {
    bars,
    dayAxis,
    ends,
    line,
    number,
    picture,
    plot,
    roomy,
    scale,
    sparkline,
    ticks,
    triangle,
    valueAxis,
    whisker,
  };
})();
