// What a reader chooses on the board: division and window, entrants, columns, fees, intervals. All
// of it stands in the address.
//
// kt.choices.pickers(view), kt.choices.filters(view)
//     {element, show()}; view: {board(), data(), division(), scope(), metrics()}
// kt.choices.wantedRows(rows)
//     entrants that the filters let through, and every baseline
// kt.choices.FILTERS
//     [[name in the address, label, value of a row], …]
// kt.choices.FEES
//     options of a field: after fees, before them
"use strict";

kt.choices = (() => {
  const {el, replace, state} = kt;
  const FACETS = [
    ["task", "Task"],
    ["mask", "Mask"],
    ["mode", "Mode"],
    ["snapshot", "Data"],
  ];
  const FILTERS = [
    ["model", "Models", (row) => row.model],
    ["agent", "Agents", (row) => row.agent],
    ["strategy", "Strategies", (row) => row.strategy],
    ["tier", "Tiers", (row) => row.tier],
    ["knowledge", "Could know the market", (row) => row.knowledge],
  ];

  const FEES = [
    ["", "after fees"],
    ["before", "before fees"],
  ];
  const RANGES = [
    ["", "as bars"],
    ["numbers", "as numbers"],
    ["off", "off"],
  ];

  // -- which division and window

  /** A facet of a division; "" where it has none, or none is known before a card is there. */
  const facet = (one, name) =>
    one[name] === null || one[name] === undefined ? "" : String(one[name]);

  /** The division that has the chosen facet and most of the others as they are. */
  function nearest(board, now, name, value) {
    const likeness = (one) =>
      FACETS.filter(([other]) => facet(one, other) === facet(now, other)).length;
    return board.divisions
      .filter((one) => facet(one, name) === value)
      .sort((one, other) => likeness(other) - likeness(one))[0];
  }

  const allWindows = (n) => (n === 1 ? "1 window" : `all ${n} windows`);

  function pickers({board: boardOf, division, scope}) {
    const board = boardOf();
    const hasNone = (name) =>
      board.divisions.some((one) => !facet(one, name) && (name === "snapshot" || one.task_config));
    const move = (id) =>
      state.set({division: id === board.divisions[0].id ? "" : id, rows: "", pick: ""});
    const made = FACETS.map(([name, label]) => {
      const values = [...new Set(board.divisions.map((one) => facet(one, name)))];
      if (values.length < 2) {
        if (!values[0]) return {element: null, show() {}};
        return {
          element: el("div.field.fixed", el("span", label), el("strong", kt.words(values[0]))),
          show() {},
        };
      }
      const field = kt.controls.choice({
        label,
        options: values.map((value) => [
          value,
          kt.words(value) || (hasNone(name) ? "none" : "not known yet"),
        ]),
        onChange: (value) => move(nearest(board, division(), name, value).id),
      });
      return {element: field.element, show: () => field.set(facet(division(), name))};
    });
    const sameFacets = (one) =>
      FACETS.every(([name]) => facet(one, name) === facet(division(), name));
    const twins = kt.controls.choice({label: "Division", options: [], onChange: move});
    made.push({
      element: twins.element,
      show() {
        const alike = board.divisions.filter(sameFacets);
        twins.element.hidden = alike.length < 2;
        twins.options(alike.map(({id, version}) => [id, `${id} (version ${version})`]));
        twins.set(division().id);
      },
    });
    const windows = kt.controls.choice({
      label: "Window",
      options: [],
      onChange: (value) => state.set({scope: value === "all" ? "" : value, rows: ""}),
    });
    made.push({
      element: windows.element,
      show() {
        windows.element.hidden = !division().windows.length;
        windows.options(
          division().scopes.map((name, place) => {
            const one = division().windows[place - 1]; // the first scope is that of all windows
            return [name, one ? kt.windowWords(one) : allWindows(division().windows.length)];
          }),
        );
        windows.set(scope());
      },
    });
    return {
      element: el(
        "div.pickers",
        {role: "group", "aria-label": "What is compared"},
        made.map(({element}) => element),
      ),
      show: () => made.forEach((one) => one.show()),
    };
  }

  // -- which rows and columns

  const isEntrant = (row) => row.baseline === null;
  const text = (row) =>
    [row.label, row.model, row.agent, row.strategy, row.submitter, row.settings, row.card || ""]
      .join(" ")
      .toLowerCase();

  /**
   * Entrants of these rows that the filters let through, and every baseline whatever the filters.
   */
  function wantedRows(rows) {
    const words = state.get("q").toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = FILTERS.map(([name, , of]) => [new Set(state.list(name)), of]).filter(
      ([chosen]) => chosen.size,
    );
    const onlyRanked = state.get("ranked") === "1";
    return rows.filter(
      (row) =>
        !isEntrant(row) ||
        ((!onlyRanked || row.ranked) &&
          wanted.every(([chosen, of]) => chosen.has(of(row))) &&
          words.every((one) => text(row).includes(one))),
    );
  }

  function filters({board, data, metrics}) {
    const fields = FILTERS.map(([name, label, of]) => {
      const field = kt.controls.many({
        label,
        options: [],
        onChange: (values) => state.set({[name]: values, rows: ""}),
      });
      return {
        element: field.element,
        show() {
          const values = (data().facts.names[name] ||= [
            ...new Set(data().rows.filter(isEntrant).map(of)),
          ]
            .filter(Boolean)
            .sort(kt.table.compare));
          field.options(values.map((value) => [value, value]));
          field.element.hidden = values.length < 2 && !state.list(name).length;
          field.set(state.list(name));
        },
      };
    });
    const words = kt.controls.search({
      label: "Search",
      onInput: (value) => state.set({q: value, rows: ""}, {replace: true}),
    });
    const ranked = kt.controls.check({
      label: "hide unranked",
      onChange: (on) => state.set({ranked: on ? "1" : "", rows: ""}),
    });
    const fees = state.choice({label: "Return", name: "fees", options: FEES});
    const bars = state.choice({label: "Ranges", name: "intervals", options: RANGES});
    const columns = kt.controls.many({
      label: "Columns",
      options: [],
      none: "default",
      reset: "Default columns",
      onChange: (values) => state.set({columns: values}),
    });
    const plain = [
      [words, "q"],
      [fees, "fees"],
      [bars, "intervals"],
    ];
    const inside = el(
      "div.filters",
      {role: "group", "aria-label": "What is shown"},
      words.element,
      fields.map((one) => one.element),
      columns.element,
      ranked.element,
      fees.element,
      bars.element,
    );
    const active = el("span.quiet");
    const element = el(
      "details.filter-fold",
      el("summary", "Filters and columns ", active),
      inside,
    );
    // folded where the screen is narrow, so that the table is seen first
    const wide = window.matchMedia("(min-width: 761px)");
    const unfold = () => {
      element.open = wide.matches;
    };
    wide.addEventListener("change", unfold);
    unfold();
    return {
      element,
      show() {
        const set = ["q", "ranked", "fees", "columns", ...FILTERS.map(([name]) => name)].filter(
          (name) => state.get(name),
        ).length;
        replace(active, set ? `(${set} set)` : "");
        fields.forEach((one) => one.show());
        plain.forEach(([field, name]) => field.set(state.get(name)));
        ranked.set(state.get("ranked") === "1");
        fees.element.hidden = !data().columns.includes("gross_return");
        columns.options([
          ...metrics().map((name) => [name, board().metrics[name].title]),
          ...kt.columns.INFO.map(({key, title}) => [key, title]),
        ]);
        columns.set(state.list("columns"));
      },
    };
  }

  return {pickers, filters, wantedRows, isEntrant, FILTERS, FEES};
})();
