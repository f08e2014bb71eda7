// Frame of the pages of Agent Market Arena and DeepFund: one division at a time, its entrants by
// agent, their curves, their figures.
//
// kt.arena({needs, lead, facets, reference, figures, sections})
//     needs: figure that divisions of this page have
//     facets: [[label, of(division)], …], by which a reader picks a division
//     reference: {name, of(frame)}: [n + 1] line that the curves lie over, or null
//     figures: names of columns, as a RegExp
//     sections(view): [{title, words, draw(element)}, …], drawn below, and drawn again whenever
//         the view changes
// kt.arena.bars(element, view, figure, {title, description, axis, unit})
//     median over the cards of each agent, a stroke for each card
//
// view: {board, division, window, frame, table, rows, cards, agents, fees, figure(row, name),
//     agentOf(row), paint(agent, theme)}
//     rows: entrants and baselines that the filters let through
//     cards: [{row, curve}, …], those of them that have curves
"use strict";

kt.arena = (() => {
  const {el, replace, state, plural, format, known} = kt;
  const {FILTERS, wantedRows, isEntrant} = kt.choices;
  const BASELINES = "baselines";
  const DASHES = [
    [1, 0],
    [7, 3],
    [2, 2],
    [8, 3, 2, 3],
  ];
  const KEYS = [
    ...FILTERS.map(([name]) => name),
    "q",
    "ranked",
    "fees",
    "lines",
    "focus",
    "sort",
    "card",
  ];
  const LAYOUTS = [
    ["", "as many as fit"],
    ["panels", "a panel for each agent"],
    ["together", "all together"],
  ];
  const FEW = 12; // lines that can be told apart without dimming any

  const agentOf = (row) => (isEntrant(row) ? row.agent : BASELINES);
  const median = (values) => kt.stats.median(values.filter(known));

  // -- which division, window and entrants

  function pickDivision(divisions, facets) {
    const asked = divisions.find(({id}) => id === state.get("division")) || divisions[0];
    const likeness = (one) => facets.filter(([, of]) => of(one) === of(asked)).length;
    const fields = facets.map(([label, of]) => {
      const values = [...new Set(divisions.map(of))];
      const field = kt.controls.choice({
        label,
        options: values.map((value) => [value, value]),
        onChange: (value) =>
          state.set({
            division: divisions
              .filter((one) => of(one) === value)
              .sort((one, other) => likeness(other) - likeness(one))[0].id,
            window: "",
          }),
      });
      field.set(of(asked));
      return field.element;
    });
    const same = divisions.filter((one) => likeness(one) === facets.length);
    if (same.length > 1) {
      const options = same.map(({id}) => [id, id]);
      const twins = state.choice({label: "Division", name: "division", options, value: asked.id});
      fields.push(twins.element);
    }
    return {division: asked, fields};
  }

  function pickWindow(division) {
    const names = division.windows.map(({name}) => name);
    const place = Math.max(0, names.indexOf(state.get("window")));
    const field = state.choice({
      label: "Window",
      name: "window",
      options: division.windows.map((one) => [one.name, kt.windowWords(one)]),
      value: names[place],
    });
    return {
      window: names[place],
      scope: division.scopes[place + 1] || division.scopes[0],
      field: field.element,
    };
  }

  /** Fields that stay while the view changes, so that an open list keeps the focus. */
  function filters() {
    const lists = FILTERS.map(([name, label, of]) => ({
      name,
      of,
      ...kt.controls.many({label, options: [], onChange: (values) => state.set({[name]: values})}),
    }));
    const words = kt.controls.search({
      label: "Search",
      onInput: (value) => state.set({q: value}, {replace: true}),
    });
    const fees = state.choice({label: "Curves", name: "fees", options: kt.choices.FEES});
    const lines = state.choice({label: "Lines", name: "lines", options: LAYOUTS});
    const clear = () => state.clear([...FILTERS.map(([name]) => name), "q", "focus"]);
    return {
      element: el(
        "div.filters",
        {role: "group", "aria-label": "What is shown"},
        words.element,
        lists.map((one) => one.element),
        fees.element,
        lines.element,
        kt.button("Clear filters", clear, {class: "small"}),
        kt.button("Copy link to this view", () => kt.copy(location.href), {class: "small"}),
      ),
      show(rows) {
        for (const {name, of, element, options, set} of lists) {
          const values = [...new Set(rows.filter(isEntrant).map(of))]
            .filter(Boolean)
            .sort(kt.table.compare);
          options(values.map((value) => [value, value]));
          element.hidden = values.length < 2 && !state.list(name).length;
          set(state.list(name));
        }
        words.set(state.get("q"));
        fees.set(state.get("fees"));
        lines.set(state.get("lines"));
      },
    };
  }

  // -- what is lit: an agent or a card, at the pointer or the focus; `focus` in the address keeps
  // an agent lit

  let lit = "";
  let equityFigure = null;

  function light(name) {
    lit = name || state.get("focus");
    const view = equityFigure?.querySelector(".chart-plot").vega;
    if (view) view.signal("lit", lit).run();
    for (const button of document.querySelectorAll(".agents button")) {
      button.classList.toggle(
        "dim",
        Boolean(lit) && button.dataset.agent !== lit && !button.dataset.cards.includes(lit),
      );
    }
  }

  const lights = (name) => ({
    pointerenter: () => light(name),
    pointerleave: () => light(""),
    focusin: () => light(name),
    focusout: () => light(""),
  });

  function swatch(stroke, dash, width = 3) {
    return kt.svg(
      "svg",
      {width: 30, height: 10, "aria-hidden": "true"},
      kt.svg("line", {
        x1: 0,
        x2: 30,
        y1: 5,
        y2: 5,
        stroke,
        "stroke-width": width,
        "stroke-dasharray": dash[1] ? dash.join(" ") : null,
      }),
    );
  }

  function legend(view, reference) {
    const theme = {colors: kt.charts.colors(), muted: "currentColor"};
    const pinned = state.get("focus");
    return el(
      "div.agents",
      {role: "group", "aria-label": "Agents: point at one, or choose it, to light its lines"},
      view.agents.map((name) => {
        const own = view.cards.filter(({row}) => agentOf(row) === name);
        const {color, dash} = view.paint(name, theme);
        return el(
          "button.small",
          {
            type: "button",
            "aria-pressed": String(name === pinned),
            "data-agent": name,
            disabled: !own.length,
            "data-cards": own.map(({row}) => row.card).join(" "),
            click: () => state.set({focus: name === pinned ? "" : name}),
            ...lights(name),
          },
          swatch(color, dash),
          " ",
          name,
          el("span.quiet", ` ${own.length}`),
        );
      }),
      reference ? el("span.fixed", swatch("currentColor", [5, 2], 2.5), ` ${reference}`) : null,
    );
  }

  // -- curves

  /**
   * Many lines of several agents are drawn with a panel for each agent, unless the reader says
   * otherwise.
   */
  const arePanels = (view) =>
    state.get("lines") ? state.get("lines") === "panels" : view.cards.length > FEW;
  const curveOf = (view, curve) => curve[view.fees === "before" ? "before" : "after"];

  /** Lowest and highest value of the cards of an agent, and of their seeds, on each day. */
  function bandsOf(view) {
    return view.agents
      .filter((name) => name !== BASELINES)
      .flatMap((agent) => {
        const lines = view.cards
          .filter(({row}) => agentOf(row) === agent)
          .flatMap(({curve}) => curveOf(view, curve));
        if (lines.length < 2) return [];
        return view.frame.days.map((day, at) => {
          const values = lines.map((line) => line[at]);
          return {
            day: Date.parse(day),
            agent,
            id: "",
            low: Math.min(...values),
            high: Math.max(...values),
          };
        });
      });
  }

  function equity(element, view, {name, of}) {
    const levels = of(view.frame);
    const drawn = levels ? levels.map((level) => level / levels[0] - 1) : null;
    const points = view.cards.flatMap(({row, curve}) =>
      curveOf(view, curve)[0].map((value, at, line) => ({
        day: Date.parse(view.frame.days[at]),
        value,
        id: row.card,
        agent: agentOf(row),
        label: row.label,
        end: format.percent(line.at(-1), 2, true),
        gap: drawn ? format.percent(line.at(-1) - drawn.at(-1), 2, true) : kt.format.NONE,
      })),
    );
    const shown = view.agents.filter((name) => points.some(({agent}) => agent === name));
    const bands = bandsOf(view);
    const [few, panels] = [view.cards.length <= FEW, arePanels(view)];
    const isShaded = panels || shown.length < 4;
    const seeds = Math.max(...view.cards.map(({curve}) => curve.seeds));
    const named = kt.charts.distinct(view.cards.map(({row}) => ({label: row.label})));
    equityFigure = kt.charts.figure(element, panels ? "arena_panels" : "arena_lines", {
      title: drawn ? `Return since the start, over ${name}` : "Return since the start",
      description: equityWords(view, {bands, isShaded, seeds}),
      height: panels ? 240 : 440,
      points: [...bands, ...points],
      index: drawn?.map((value, at) => ({day: Date.parse(view.frame.days[at]), value})),
      days: kt.charts.dayAxis(view.frame.days, panels ? {room: 60, short: true} : {}),
      agents: view.agents,
      shown,
      lit,
      ahead: `Ahead of ${name}`,
      shade: isShaded ? 0.12 : 0,
      thickness: few ? 1.8 : 1.1,
      indexThickness: panels ? 2 : 2.6,
      faint: few ? 0.25 : panels ? 0.15 : 0.07,
      strong: few ? 0.95 : panels ? 0.7 : 0.42,
      look: (theme) => ({
        ...paintsOf(view, theme),
        ...panelsIn(theme.width, shown.length),
        plot: theme.width < 600 ? 300 : 400,
      }),
      table: {
        columns: [
          ["Day", ""],
          ...(drawn ? [[name, "fraction"]] : []),
          ...named.map(({label}) => [label, "fraction"]),
        ],
        rows: view.frame.days.map((day, at) => [
          day,
          ...(drawn ? [drawn[at]] : []),
          ...view.cards.map(({curve}) => curveOf(view, curve)[0][at]),
        ]),
      },
    });
  }

  /** Colours and dashes of the agents of a view, in their order. */
  function paintsOf(view, theme) {
    const paints = view.agents.map((agent) => view.paint(agent, theme));
    return {paints: paints.map(({color}) => color), dashes: paints.map(({dash}) => dash)};
  }

  /** Columns of so many panels, the width of one, and the room of its heading. */
  function panelsIn(width, count) {
    const most = Math.max(1, Math.floor(width / 300));
    const columns = Math.ceil(count / Math.ceil(count / most));
    return {columns, panel: (width - 56) / columns - 22, room: width / columns - 60};
  }

  function equityWords(view, {bands, isShaded, seeds}) {
    const median = seeds > 1 ? " (median over seeds)" : "";
    const fees = view.fees === "before" ? "before" : "after";
    const withSeeds = seeds > 1 ? " and their seeds" : "";
    const of = isShaded ? "" : " of an agent that is lit";
    const band = bands.length ? `Band${of}: lowest to highest of its cards${withSeeds}. ` : "";
    return (
      `${plural(view.cards.length, "card")}, a line each${median}, ` +
      `${fees} fees, in the colour of its agent. ${band}Point at a line to read it.`
    );
  }

  // -- figures

  const rankWord = (row) => (row.rank === null ? format.NONE : kt.rankRange(row));

  function ranking(view, figures) {
    const names = view.table.columns.filter(
      (name) => figures.test(name) && Object.hasOwn(view.board.metrics, name),
    );
    const cell = (row, name) =>
      format.cell(view.figure(row, name), view.board.metrics[name].unit, "not defined", {
        bare: true,
      });
    const figureColumns = names.map((name) => ({
      key: name,
      title: view.board.metrics[name].title,
      unit: format.unit(view.board.metrics[name].unit),
      hint: view.board.metrics[name].description,
      n: true,
      sorts: true,
      of: (row) => view.figure(row, name),
    }));
    // The figures come before the agent, so that a narrow screen shows the one that ranks.
    const columns = [
      {key: "rank", title: "Rank", n: true, sorts: true, of: (row) => row.rank},
      {key: "name", title: "Entrant", sorts: true, of: (row) => row.label},
      ...figureColumns,
      {key: "agent", title: "Agent", sorts: true, of: agentOf},
      {key: "report", title: "Report"},
    ];
    const sort = state.sortOf(columns, "rank");
    const onSort = (key) =>
      state.sort(sort, {key, better: view.board.metrics[key]?.better}, {replace: true});
    const table = kt.table.sortable({caption: "Ranking", onSort});
    const {of} = columns.find(({key}) => key === sort.key);
    const told = view.rows.filter(
      (row) => row.card || names.some((name) => known(view.figure(row, name))),
    );
    const rows = told
      .map((row) => [of(row), row])
      .sort(([one], [other]) => kt.table.compare(one, other, sort.descending));
    table.head(columns, sort);
    table.rows(
      rows.map(([, row]) =>
        el(
          "tr",
          {class: row.baseline ? "base" : null, "data-card": row.card, ...lights(row.card || "")},
          el("td.n", rankWord(row)),
          el("th", {scope: "row"}, row.card ? kt.cardLink(row.card, row.label) : row.label),
          names.map((name) => el("td.n", cell(row, name))),
          el("td", agentOf(row)),
          el("td", row.card ? kt.modelLink(row.model, "report", {card: row.card}) : null),
        ),
      ),
    );
    table.element.classList.add("ranking");
    table.element.classList.toggle("tall", rows.length > 40);
    return table.element;
  }

  // -- a figure by agent

  function bars(element, view, name, {title, description, axis, unit = "fraction"}) {
    const cards = view.rows
      .filter((row) => row.card && known(view.figure(row, name)))
      .map((row) => ({agent: view.agentOf(row), value: view.figure(row, name), label: row.label}));
    const agents = [...new Set(cards.map(({agent}) => agent))]
      .map((agent) => {
        const values = cards.filter((one) => one.agent === agent).map(({value}) => value);
        return {
          agent,
          value: view.median(values),
          low: Math.min(...values),
          high: Math.max(...values),
          n: values.length,
        };
      })
      .sort((one, other) => other.value - one.value);
    if (!agents.length) {
      const missing = `${title}: n/a for each of these entrants; their cells in the table say why.`;
      kt.replace(element, el("p.quiet", {}, missing));
      return;
    }

    const signed = axis.startsWith("+");
    const labels = axis.endsWith("%") ? kt.charts.percentAxis({signed}) : {format: axis};
    const say = (value) => format.value(value, unit, {signed});
    const spreads = signed ? [0.01, -0.01] : [0.1];
    kt.charts.figure(element, "agent_bars", {
      title,
      heading: title,
      description,
      unit,
      rows: agents.map((one) => ({...one, shown: say(one.value)})),
      cards: cards.map((one) => ({...one, shown: say(one.value)})),
      // Those that are not seen keep differences of rounding small.
      ends: [{zero: 0, seen: 1}, ...spreads.map((zero) => ({zero, seen: 0}))],
      height: 30 * Math.max(2, agents.length),
      axis: labels,
      agents: view.agents,
      look: (theme) => ({...paintsOf(view, theme), labels: theme.width < 420 ? 90 : 150}),
    });
  }

  // -- the page

  function viewOf(board, division, window, table, curves, fees) {
    const rows = wantedRows(table.rows);
    const own = (row) =>
      row.card && Object.hasOwn(curves.cards, row.card) && curves.cards[row.card][window];
    const agents = [...new Set(table.rows.filter(isEntrant).map((row) => row.agent))].sort(
      kt.table.compare,
    );
    const cards = rows.filter(own).map((row) => ({row, curve: own(row)}));
    if (cards.some(({row}) => !isEntrant(row))) agents.push(BASELINES);
    return {
      board,
      division,
      window,
      table,
      rows,
      cards,
      agents,
      fees,
      agentOf,
      median,
      frame: curves.windows[window],
      figure: (row, name) => row.values[table.columns.indexOf(name)] ?? null,
      paint: (agent, {colors, muted}) => {
        const place = agents.indexOf(agent);
        if (agent === BASELINES) return {color: muted, dash: DASHES[2]};
        return {
          color: colors[place % colors.length],
          dash: DASHES[Math.floor(place / colors.length) % DASHES.length],
        };
      },
    };
  }

  const start = ({needs, lead, facets, reference, figures, sections}) =>
    kt.page(async (main) => {
      const board = await kt.load("board");
      const divisions = board.divisions.filter(({columns}) => columns.includes(needs));
      const parts = {
        pickers: el("div.pickers", {role: "group", "aria-label": "What is compared"}),
        filters: filters(),
        count: el("p.count", {role: "status"}),
        legend: el("div"),
        chart: el("div"),
        ranking: el("div"),
        own: el("div"),
      };
      replace(
        main,
        el("p.lead", lead),
        parts.pickers,
        parts.filters.element,
        parts.count,
        parts.legend,
        parts.chart,
        kt.section("Ranking", parts.ranking),
        parts.own,
      );
      let [turn, redraw, shown] = [0, null, ""];
      kt.theme.onChange(() => redraw?.());

      async function show() {
        const mine = (turn += 1);
        const picked = pickDivision(divisions, facets);
        const {window, scope, field} = pickWindow(picked.division);
        const key = [picked.division.id, window, ...KEYS.map(state.get)].join("\n");
        if (key === shown) return; // another part of the page follows what has changed
        shown = key;
        const [table, curves] = await Promise.all([
          kt.load(`division/${picked.division.id}/${scope}`),
          kt.load(`curves/${picked.division.id}`),
        ]);
        if (mine !== turn) return;
        const view = viewOf(board, picked.division, window, table, curves, state.get("fees"));
        const focused = parts.pickers.contains(document.activeElement)
          ? [...parts.pickers.querySelectorAll("select")].indexOf(document.activeElement)
          : -1;
        replace(
          parts.pickers,
          picked.fields,
          field,
          el("a", {href: kt.address.task(picked.division.id)}, "About this task"),
        );
        parts.pickers.querySelectorAll("select")[focused]?.focus();
        parts.filters.show(table.rows);
        lit = state.get("focus");
        const missing = view.rows.filter((row) => row.card).length - view.cards.length;
        replace(
          parts.count,
          `${plural(view.rows.filter(isEntrant).length, "entrant")}, ` +
            `${plural(view.cards.length, "curve")}`,
          missing
            ? `; ${plural(missing, "card")} without curves: the board has not executed their ` +
                `records`
            : "",
        );
        const sorted = parts.ranking.contains(document.activeElement)
          ? document.activeElement.dataset.key
          : null;
        replace(parts.ranking, ranking(view, figures));
        if (sorted)
          [...parts.ranking.querySelectorAll("[data-key]")]
            .find(({dataset}) => dataset.key === sorted)
            ?.focus();
        redraw = () => {
          const at = parts.legend.contains(document.activeElement)
            ? document.activeElement.dataset.agent
            : null;
          replace(
            parts.legend,
            view.cards.length ? legend(view, reference.of(view.frame) ? reference.name : "") : null,
          );
          if (at)
            [...parts.legend.querySelectorAll("button")]
              .find(({dataset}) => dataset.agent === at)
              ?.focus();
          light("");
        };
        if (view.cards.length) equity(parts.chart, view, reference);
        else replace(parts.chart, el("p.empty", "No entrant with curves passes these filters."));
        redraw();
        const made = view.cards.length ? sections(view) : [];
        replace(
          parts.own,
          made.map(({title, words, element}) =>
            kt.section(title, words ? el("p.quiet", words) : null, element),
          ),
        );
        made.forEach(({draw}) => draw());
      }

      state.onChange(() => show().catch(kt.fail));
      await show();
    });
  return Object.assign(start, {bars});
})();
