// Health: what the services answer, which days of which symbols have bars, and what is broken.
"use strict";

window.health = (() => {
  const {el, svg, replace, section, facts, button, details} = kt;
  const CELL = 12;
  const LEFT = 26;
  const WEEK_DAYS = ["Mon", "", "Wed", "", "Fri", "", ""];
  const DAY_MS = 86400000;
  const MAX_ROWS = 50;
  const KINDS = {
    full: "all instruments",
    part: "some instruments missing",
    gap: "no data",
    extra: "data on a day without a session",
  };

  const percent = (share) => (share === null ? "—" : `${(100 * share).toFixed(share < 1 ? 2 : 0)} %`);
  const count = (number) => number.toLocaleString("en-US");
  const table = (caption, head, rows) => kt.table.plain({caption, head, rows});

  // -- days as a calendar: a column a week, a row a weekday

  function kindOf({have, due, is_session: isSession}) {
    if (!isSession) return "extra";
    if (have === 0) return "gap";
    return have < due ? "part" : "full";
  }

  function yearMap(name, year, days) {
    const first = Date.UTC(year, 0, 1);
    const shift = (new Date(first).getUTCDay() + 6) % 7;
    const counts = {full: 0, part: 0, gap: 0, extra: 0};
    const cells = days.map((one) => {
      const place = Math.round((Date.parse(one.day) - first) / DAY_MS) + shift;
      const kind = kindOf(one);
      counts[kind] += 1;
      return svg(
        "rect",
        {class: kind, x: LEFT + Math.floor(place / 7) * CELL, y: 2 + (place % 7) * CELL, width: CELL - 2, height: CELL - 2, rx: 2},
        svg("title", {}, `${one.day}: ${one.have} of ${one.due} instruments`),
      );
    });
    const told = Object.keys(KINDS).filter((kind) => counts[kind]).map((kind) => `${counts[kind]} days ${KINDS[kind]}`);
    return kt.scroller(
      `${name}, ${year}`,
      svg(
        "svg",
        {class: "heat", viewBox: `0 0 ${LEFT + 54 * CELL} ${7 * CELL + 4}`, role: "img", "aria-label": `${name}, ${year}: ${told.join(", ")}`},
        WEEK_DAYS.map((day, row) => svg("text", {x: 0, y: 11 + row * CELL}, day)),
        cells,
      ),
    );
  }

  const key = () =>
    el(
      "ul.key",
      {"aria-label": "Colours"},
      Object.entries(KINDS).map(([kind, words]) =>
        el("li", {}, svg("svg", {class: "heat", viewBox: "0 0 10 10", "aria-hidden": "true"}, svg("rect", {class: kind, width: 10, height: 10, rx: 2})), words),
      ),
    );

  function groupBlock(group) {
    const years = Object.entries(Object.groupBy(group.days, (one) => one.day.slice(0, 4)));
    const gaps = group.days.filter((one) => kindOf(one) === "gap").map((one) => one.day);
    return details(
      `${group.name}: ${count(group.symbols.length)} symbols, ${percent(group.complete)} of their sessions`,
      facts([["calendar", group.calendar], ["sessions without data", gaps.slice(0, MAX_ROWS).join(", ") || "none"]]),
      years.map(([year, days]) => [el("h3", {}, `${group.name}, ${year}`), yearMap(group.name, year, days)]),
      key(),
      table(`Symbols: ${group.name}`, ["symbol", "first day", "last day", {text: "sessions missing", n: true}], group.symbols.slice(0, MAX_ROWS).map((one) => [one.symbol, one.first, one.last, count(one.missing)])),
      group.symbols.length > MAX_ROWS ? el("p.quiet", {}, `The ${MAX_ROWS} of ${count(group.symbols.length)} symbols that lack the most sessions.`) : null,
    );
  }

  // -- a dataset

  /** Rows of what the services say of their sources. */
  function sourceRows({services}) {
    const [prices, events] = services.map((service) => service.answer?.sources || []);
    return [
      ...Object.entries(prices).map(([name, one]) => [kt.words(name), one.latest_ts || "—", one.instruments === undefined ? "" : count(one.instruments)]),
      ...events.map((one) => [kt.words(one.source), one.latest_utc || "—", ""]),
    ];
  }

  function check(number) {
    const place = el("div", {"aria-live": "polite"});
    const run = pages.doing(place, async () => {
      replace(place, el("p.quiet", {}, "Reading the whole dataset …"));
      const found = await pages.ask("/health/check", {folder: String(number)});
      replace(place, found.length ? el("ul", {}, found.map((line) => el("li", {}, line))) : el("p", {}, "Sound: no finding."));
    });
    return [button("Check the whole dataset", run, {class: "small"}), place];
  }

  function dataset(one, number) {
    const groups = one.coverage.map(groupBlock);
    if (groups.length && number === 0) groups[0].open = true;
    const behind = (group) => (one.is_synthetic ? "invented: ends here" : count(group.behind));
    return section(
      one.name || one.folder,
      facts([["folder", one.folder], ["id", one.content_id.slice(0, 16)], ["as of", one.as_of_ts]]),
      one.problems.length ? el("div.trouble", {role: "alert"}, el("ul", {}, one.problems.map((line) => el("li", {}, line)))) : null,
      one.services.length ? [
        table("Services", ["call", "state", {text: "latency", n: true}], one.services.map((service) => [
          el("code", {}, service.call),
          service.problem ? [kt.chip("fails", "bad"), " ", service.problem] : kt.chip("answers", "good"),
          `${service.latency_ms.toFixed(1)} ms`,
        ])),
        table("Sources", ["source", "newest row", {text: "instruments", n: true}], sourceRows(one)),
        one.coverage.length ? table("Daily bars", ["data", "first day", "last day", {text: "complete", n: true}, {text: "sessions behind today", n: true}], one.coverage.map((group) => [group.name, group.days[0].day, group.days.at(-1).day, percent(group.complete), behind(group)])) : el("p.empty", {}, "No daily bars."),
        groups,
      ] : null,
      check(number),
    );
  }

  const view = async () => (await pages.ask("/health/report")).map(dataset);
  return {view};
})();
