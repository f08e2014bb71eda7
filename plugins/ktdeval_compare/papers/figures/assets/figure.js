// Draws the figure of the page in the width and the colours that it has: panels side by side where
// there is room, a legend of as many columns as fit.

(async () => {
  const AXIS = 62; // pixels of the labels of a vertical axis
  const NARROWEST = 300; // pixels of a panel beside another one
  const LETTER = 6.4;
  const SYMBOL = 52; // pixels of a legend's symbol and the gaps around it
  const LABEL = 64; // pixels of a label of a day

  const packed = document.getElementById("data-figure").textContent;
  const figure = JSON.parse(await kt.unpack(packed));

  /** The spec in the colours of a theme: each colour of a light page is that of a token. */
  function coloured(theme) {
    let text = JSON.stringify(figure.spec);
    for (const [token, code] of Object.entries(kt.values.light))
      text = text.replaceAll(`"${code}"`, `"${theme[token]}"`);
    return JSON.parse(text);
  }

  /** Every encoding of a spec, with the width of its panel. */
  function encodings(spec, width, visit) {
    if (spec.encoding) visit(spec, width);
    const parts = [...(spec.layer || []), ...(spec.vconcat || []), ...(spec.concat || []), spec.spec];
    for (const part of parts.filter(Boolean)) encodings(part, part.width || width, visit);
  }

  const longest = (texts) => Math.max(0, ...texts.map((text) => String(text).length));

  /** Room for the names on a vertical axis; none where it has figures. */
  function namesRoom(spec, width) {
    let room = 0;
    encodings(spec, 0, ({encoding}) => {
      const {y} = encoding;
      if (y?.type === "nominal") {
        const letters = longest(y.sort);
        room = Math.min(letters * LETTER + 14, width * 0.42, 260);
        y.axis.labelLimit = room - 10;
        y.axis.minExtent = room;
      }
    });
    return room;
  }

  function legends(spec, width) {
    encodings(spec, width, ({encoding}) => {
      for (const channel of ["color", "strokeDash"]) {
        const {legend, scale} = encoding[channel] || {};
        if (!legend) continue;
        const names = scale.domain;
        const room = longest(names) * LETTER + SYMBOL;
        legend.columns = Math.max(1, Math.min(names.length, Math.floor(width / room)));
        legend.labelLimit = Math.max(80, width - SYMBOL);
      }
    });
  }

  /** Axis of a picture's trading days in its width: their layers share it. */
  function dayAxis(picture, room) {
    const days = picture.data.values.map(({day}) => day);
    const {axis} = kt.charts.dayAxis(days, {room: LABEL, short: room < 400});
    // of several pictures none has a width of that name
    return {...axis, values: {expr: axis.values.expr.replace("width", room)}};
  }

  /** Fewer labels, and narrower bars, on a narrow picture. */
  function fit(picture, width) {
    encodings(picture, width, (part, room) => {
      const {x} = part.encoding;
      if (x?.type === "temporal" && x.axis) x.axis = dayAxis(picture, room);
      else if (x?.axis) x.axis.tickCount = Math.max(2, Math.floor(room / LABEL));
      for (const size of ["size", "width"])
        if (["bar", "rect"].includes(part.mark?.type) && part.mark[size])
          part.mark[size] = Math.max(1.5, (part.mark[size] * room) / figure.width);
    });
  }

  function fitted(theme) {
    const spec = coloured(theme);
    // the kit's, but for titles beside vertical axes: above these stand headers and legends
    spec.config = {axisY: {domain: false, ticks: false, tickCount: 5, titlePadding: 6}};
    delete spec.title;
    const {width} = theme;
    const room = namesRoom(spec, width) || AXIS;
    if (spec.columns) {
      const least = room + NARROWEST;
      spec.columns = Math.max(1, Math.min(spec.columns, Math.floor(width / least)));
      for (const part of spec.concat || [spec.spec])
        part.width = Math.floor(width / spec.columns - room - 26);
    } else if (spec.vconcat) {
      for (const part of spec.vconcat) part.width = Math.floor(width - room - 46);
    } else {
      delete spec.width;
    }
    legends(spec, width - room);
    for (const picture of spec.vconcat || spec.concat || [spec])
      fit(picture, picture.width || spec.spec?.width || width - room);
    return spec.concat ? inRows(spec) : spec;
  }

  /** The same pictures in rows: Vega-Lite can't give a grid of them the width of the page. */
  function inRows({concat, columns, ...spec}) {
    const starts = concat.map((_, at) => at).filter((at) => at % columns === 0);
    return {...spec, vconcat: starts.map((at) => ({hconcat: concat.slice(at, at + columns)}))};
  }

  kt.charts.draw(document.getElementById("figure"), fitted, {
    title: figure.title,
    columns: figure.columns,
    rows: figure.rows,
    height: 160,
  });
})();
