// Rows that a reader picked: links to head-to-head pages, and their equity in one chart.
//
// kt.selection({onClear, onWindow(name)})
//     {element, chart, update({rows, division, scope, window, fees})}
"use strict";

kt.selection = ({onClear, onWindow}) => {
  const {el, replace, plural} = kt;
  const MOST_LINES = 8;
  const MOST_PAIRS = 5;
  const tray = el("div.tray", {hidden: true, role: "region", "aria-label": "Picked rows"});
  const drawing = el("div");
  const said = el("p.quiet");
  const windowField = kt.controls.choice({label: "Window", options: [], onChange: onWindow});
  const chart = el(
    "section.equity",
    {hidden: true},
    el("h2", "Equity of the picked rows"),
    el("div.bar-row", windowField.element),
    drawing,
    said,
  );
  let turn = 0;

  function pairs(rows) {
    const [first, ...others] = rows;
    if (!others.length) return el("span.quiet", "Pick another row for a head-to-head.");
    if (others.length === 1)
      return el("a.call", {href: kt.address.compare(first.card, others[0].card)}, "Head-to-head");
    const links = rows
      .slice(0, MOST_PAIRS)
      .flatMap((one, place, all) =>
        all
          .slice(place + 1)
          .map((other) =>
            el("li", kt.compareLink(one.card, other.card, `${one.label} against ${other.label}`)),
          ),
      );
    const which = rows.length > MOST_PAIRS ? ` of the first ${MOST_PAIRS}` : "";
    return el(
      "details.pairs",
      el("summary", `Head-to-head: ${plural(links.length, "pair")}${which}`),
      el("ul", links),
    );
  }

  function showTray(rows) {
    tray.hidden = !rows.length;
    if (!rows.length) return replace(tray);
    const names = rows.map((row) => row.label).join(", ");
    return replace(
      tray,
      el("p", {title: names}, el("strong", `${rows.length} picked: `), names),
      el(
        "div.tray-links",
        pairs(rows),
        el(
          "a",
          {
            href: "#",
            click: (event) => {
              event.preventDefault();
              chart.scrollIntoView({block: "start"});
              windowField.element.querySelector("select").focus();
            },
          },
          "Equity",
        ),
        kt.button("Clear", onClear, {class: "small"}),
      ),
    );
  }

  const median = (values) => {
    const sorted = [...values].sort((one, other) => one - other);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  };

  /** One line: where there are several seeds, the median over them on each day. */
  function line(label, episodes, field, benchmark = false) {
    const [{base_day, days, [field]: base}] = episodes;
    return {
      label,
      days,
      base_day,
      benchmark,
      nav: base.map((_, day) => median(episodes.map((one) => one[field][day]))),
    };
  }

  function linesOf(rows, series, name, field) {
    const lines = [];
    let market = null;
    const without = [];
    rows.forEach((row, place) => {
      const episodes = series[place]
        ? series[place].episodes.filter((one) => one.window === name && one[field])
        : [];
      if (!episodes.length) without.push(row.label);
      else {
        lines.push(line(row.label, episodes, field));
        if (episodes[0].benchmark) market ||= line("benchmark", [episodes[0]], "benchmark", true);
      }
    });
    return {lines: [...lines, market].filter(Boolean), without};
  }

  function sentences({without, rows, all, seeds}) {
    return [
      seeds > 1 ? `Each line is the median over ${seeds} seeds on each day.` : "",
      without.length
        ? `No daily series of ${without.join(", ")}: their records were not executed again.`
        : "",
      all.length > rows.length ? `Only the first ${MOST_LINES} are drawn.` : "",
    ]
      .filter(Boolean)
      .join(" ");
  }

  async function showChart({rows: all, division, scope, window: wanted, fees}) {
    const rows = all.slice(0, MOST_LINES);
    chart.hidden = !rows.length || division.kind !== "trading" || !kt.charts;
    if (chart.hidden) return replace(drawing);
    const names = division.windows
      .map(({name}) => name)
      .filter((_, place) => scope === "all" || division.scopes[place + 1] === scope);
    const name = names.includes(wanted) ? wanted : names[0];
    windowField.options(
      division.windows
        .filter((one) => names.includes(one.name))
        .map((one) => [one.name, kt.windowWords(one)]),
    );
    windowField.set(name);
    const mine = (turn += 1);
    const hasSeries = (row) => row.tier === "re-executed" || row.tier === "re-run";
    const series = await Promise.all(
      rows.map((row) => (hasSeries(row) ? kt.load(`series/${row.card}`).catch(() => null) : null)),
    );
    if (mine !== turn) return null;
    const {lines, without} = linesOf(rows, series, name, fees === "before" ? "gross_nav" : "nav");
    replace(said, sentences({without, rows, all, seeds: division.seeds.length}));
    replace(drawing);
    const title = `Equity in ${name}, ${fees === "before" ? "before" : "after"} fees`;
    return lines.length
      ? kt.charts.equity(drawing, lines, {
          title,
          description: "Value of the portfolio over its value before the first day.",
        })
      : null;
  }

  return {
    element: tray,
    chart,
    update(view) {
      showTray(view.rows);
      showChart(view);
    },
  };
};
