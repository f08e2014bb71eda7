// What happened on the board: submissions, checks, errata, and who was ahead when.
"use strict";

(() => {
  const {el, replace, state, format, plural, section} = kt;
  const LETTER = 6.4; // pixels of a letter in a chart
  const MARGIN = 60; // pixels of a chart beside its days
  const KINDS = kt.values.words.events;

  function errata(board, titles) {
    if (!board.errata.length) return section("Errata", el("p", "None so far."));
    const known = new Set(board.models.flatMap((model) => model.cards));
    const rows = [...board.errata].sort((one, other) => (one.date < other.date ? 1 : -1));
    const cardOf = ({card}) =>
      known.has(card) ? kt.cardLink(card, titles.get(card)) : el("code", format.short(card));
    return section(
      "Errata",
      el(
        "p.quiet",
        "Cards are never deleted: a withdrawn one leaves the tables and stays here, an unranked " +
          "one keeps its row.",
      ),
      kt.table.of("Errata", rows, [
        ["Date", ({date}) => date],
        ["Effect", ({effect}) => kt.chip(effect, effect === "note" ? "" : "warn")],
        ["What", ({what}) => what],
        ["Card", cardOf],
        ["By", ({by}) => by],
      ]),
    );
  }

  /** Where a day lies between two others: 0 at the first, 1 at the last. */
  const placeOf = (day, first, last) =>
    (Date.parse(day) - Date.parse(first)) / (Date.parse(last) - Date.parse(first) || 1);

  /** Points, without the last one, whose names end before the next name or point begins. */
  function namesThatFit(points, last, {width, limit, isLate}) {
    const at = ({date}) => placeOf(date, points[0].date, last) * (width - MARGIN);
    const lengthOf = ({label}) => Math.min(limit, label.length * LETTER) + LETTER;
    const leader = points.at(-1);
    const leaderBegins = isLate ? at(leader) - lengthOf(leader) : at(leader);
    return points
      .slice(0, -1)
      .filter(
        (one, place) => at(one) + lengthOf(one) < Math.min(at(points[place + 1]), leaderBegins),
      );
  }

  function bestChart(board, history) {
    const withBest = board.divisions.filter(({id}) =>
      history.best.some((one) => one.division === id),
    );
    if (!withBest.length) return null;
    const division = withBest.find(({id}) => id === state.get("division")) || withBest[0];
    const points = history.best.filter((one) => one.division === division.id);
    const {title, unit} = Object.hasOwn(board.metrics, division.rank_by)
      ? board.metrics[division.rank_by]
      : {title: kt.words(division.rank_by), unit: ""};
    const chart = el("div");
    const last = history.events.length
      ? history.events[history.events.length - 1].date
      : points[points.length - 1].date;
    const leader = points.at(-1);
    const isLate = placeOf(leader.date, points[0].date, last) > 0.5;
    const dated = (values) =>
      values.map(({date, value, label}) => ({day: Date.parse(date), value, label}));
    kt.charts.figure(chart, "best", {
      title: `Best ${title.toLowerCase()} over time`,
      heading: title,
      description: "By the day of submission and today's ranks.",
      rows: points,
      unit,
      steps: dated([...points, {date: last, value: leader.value, label: ""}]),
      points: dated(points),
      leader: dated([leader]),
      days: kt.charts.dayAxis([...points.map(({date}) => date), last], {room: 130}),
      axis: format.unit(unit) === "%" ? kt.charts.percentAxis({signed: true}) : {format: ".3~g"},
      align: isLate ? "right" : "left",
      dx: isLate ? -2 : 6,
      look({width}) {
        const limit = Math.min(220, width / 3);
        return {limit, names: dated(namesThatFit(points, last, {width, limit, isLate}))};
      },
    });
    return section(
      "Who was ahead",
      el("div.pickers", kt.taskField(withBest, division).element),
      chart,
    );
  }

  const chipOf = (kind) => kt.chip(...(Object.hasOwn(KINDS, kind) ? KINDS[kind] : [kind, ""]));

  function eventItem(event) {
    return el(
      "li",
      chipOf(event.kind),
      " ",
      event.text,
      event.model ? [" ", kt.cardLink(event.card, "card")] : null,
    );
  }

  /** A system's events of one day in a division: one line, which opens to each of them. */
  function systemItem(events, titles) {
    const [{system, division}] = events;
    const where = division ? el("span.quiet", ` · ${titles.get(division)}`) : null;
    const kinds = events.map(({kind}) => [" ", chipOf(kind)]);
    const items = el("ul", events.map(eventItem));
    return el("li", kt.details([el("strong", system), where, kinds], items));
  }

  /** What happened, latest first: the events of one system and division on one day are one item. */
  function itemsOf(events) {
    const items = new Map();
    for (const event of [...events].reverse()) {
      const what = event.system ? `${event.division}\n${event.system}` : event.text;
      const key = `${event.date}\n${what}`;
      if (!items.has(key)) items.set(key, {date: event.date, events: []});
      items.get(key).events.unshift(event);
    }
    const ordered = [...items.values()];
    return ordered.sort((one, other) => (one.date < other.date) - (one.date > other.date));
  }

  const itemText = ({date, events}) =>
    [date, ...events.flatMap(({system, division, text}) => [system, division, text])].join(" ");

  function dayItem([date, items], titles) {
    const shown = items.map(({events}) =>
      events[0].system ? systemItem(events, titles) : events.map(eventItem),
    );
    return el("li", el("time", {datetime: date}, date), el("ul", shown));
  }

  function byDay(items) {
    const days = new Map();
    for (const item of items) {
      if (!days.has(item.date)) days.set(item.date, []);
      days.get(item.date).push(item);
    }
    return days;
  }

  function countItems(items) {
    const events = items.reduce((sum, item) => sum + item.events.length, 0);
    return `${plural(events, "event")} on ${plural(byDay(items).size, "day")}`;
  }

  function timeline(board, history) {
    const titles = new Map(board.divisions.map(({id}) => [id, kt.words(id)]));
    const items = itemsOf(history.events);
    const list = kt.paged({
      label: "the timeline",
      text: itemText,
      draw: (shown) =>
        el(
          "ol.days",
          [...byDay(shown)].map((day) => dayItem(day, titles)),
        ),
      count: countItems,
    });

    function draw() {
      const wanted = new Set(state.list("kind"));
      if (!wanted.size) return list.update(items);
      return list.update(itemsOf(history.events.filter(({kind}) => wanted.has(kind))));
    }

    const present = Object.keys(KINDS).filter((kind) =>
      history.events.some((event) => event.kind === kind),
    );
    const filter = kt.controls.many({
      label: "Events",
      options: present.map((kind) => [kind, KINDS[kind][0]]),
      onChange: (kinds) => state.set({kind: kinds, page: ""}),
    });
    const update = () => {
      filter.set(state.list("kind"));
      draw();
    };
    update();
    return {
      element: section("Timeline", el("div.filters", filter.element), list.element),
      update,
    };
  }

  kt.page(async (main) => {
    const [board, history, index] = await Promise.all([
      kt.load("board"),
      kt.load("history"),
      kt.load("cards-index"),
    ]);
    const [card, label] = [index.columns.indexOf("card"), index.columns.indexOf("label")];
    const titles = new Map([
      ...history.events.filter(({model}) => model).map((event) => [event.card, event.model]),
      ...index.rows.map((row) => [row[card], row[label]]),
    ]);
    const ahead = el("div");
    const events = timeline(board, history);
    replace(
      main,
      el(
        "p.lead",
        board.opened_on ? `Open since ${board.opened_on}. ` : "",
        `${plural(board.counts.cards, "card")} of ${plural(board.counts.models, "model")} by ` +
          `${plural(board.counts.submitters, "submitter")}.`,
      ),
      ahead,
      errata(board, titles),
      events.element,
    );
    const show = () => {
      replace(ahead, bestChart(board, history));
      events.update();
    };
    let drawn = null;
    const onChange = () => {
      if (drawn !== state.get("division")) {
        drawn = state.get("division");
        show();
      } else events.update();
    };
    onChange();
    state.onChange(onChange);
  });
})();
