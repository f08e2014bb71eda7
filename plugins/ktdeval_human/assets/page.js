// A person's page: draws the moment that the run waits at, and sends what the person does. All
// texts become text nodes. Values are sent as they were typed; the server reads and checks them.

"use strict";

(() => {
  const {el, byId, replace, section, details, button, field} = kt;
  const AGAIN_MS = 1000;
  const UNITS = {pct: "%", cny: "CNY", usd: "USD", bps: "bp"}; // ends of names
  const WORDS = {
    account: "Your account",
    positions: "Your holdings",
    performance: "Result so far",
    last_step: "What became of your last orders",
    constraints: "Limits and costs",
    day: "Today is called",
    stock_id: "Stock",
    asset_id: "Asset",
    nav: "Net asset value",
    nav_cny: "Net asset value, CNY",
    cash_weight: "Cash, as a share of the account",
    max_weight: "Largest position, as a share of the account",
    target_weight: "Target share of the account",
    portfolio_return_pct: "Your account, %",
    benchmark_return_pct: "Benchmark, %",
    benchmark_return_1d_pct: "Benchmark on this day, %",
    reason: "Why",
    overall_reason: "Why, for the whole decision",
  };
  const VALUES = {decided_by: {model: "you"}};
  const FOLDED = ["constraints"]; // sections that are the same on every day
  const PAST = "last_step"; // section of what has become of orders
  const HELD = "positions"; // part of the titles of holdings
  const FILLED_IN = "input[type=text], textarea"; // what a picked order leaves to be filled in
  const NAMED = ["stock_id", "asset_id", "symbol"]; // columns whose cells an order can name
  const LONG = 300; // letters of a fact that is folded
  const CHART = 150; // pixels
  const NAMES = "known-names"; // id of the list of what orders can name
  const OTHER = "\u2026"; // choice of a name that is in no table
  const MOST_OPTIONS = 6; // choices that are shown at once; more are a list that opens
  let version = -1;
  let step = null;
  let drafts = {}; // texts of the ticket, kept until the step is over
  const openTools = new Set();
  let known = []; // names that orders can name
  let ordering = null; // how a name in a table becomes an order; null where there is no such ticket

  /** A name of the request in words: "buy_fee_bps" is "Buy fee, bp". */
  function label(name) {
    if (Object.hasOwn(WORDS, name)) return WORDS[name];
    const parts = name.split("_");
    const unit = parts.length > 1 && UNITS[parts.at(-1)];
    const words = (unit ? parts.slice(0, -1) : parts).join(" ");
    const first = words.charAt(0).toUpperCase() + words.slice(1);
    return unit ? `${first}, ${unit}` : first;
  }

  const titleOf = (title) => title.split(" · ").map(label).join(" · ");

  // -- charts

  /** Lines over numbers of steps or days. rows: [[x, …one value a name]]. */
  function chart(rows, names, {title, description, x}) {
    const values = rows.flatMap(([at, ...given]) =>
      given.map((value, place) => ({at, value, name: names[place]})).filter((row) => kt.known(row.value)),
    );
    const spec = ({colors}) => ({
      height: CHART,
      data: {values},
      mark: {type: "line", point: rows.length < 30, tooltip: true},
      encoding: {
        x: {
          field: "at",
          type: "quantitative",
          scale: {zero: false, nice: false},
          axis: {title: x, tickMinStep: 1, format: "d"},
        },
        y: {field: "value", type: "quantitative", scale: {zero: false}, axis: {title: null}},
        color: {
          field: "name",
          type: "nominal",
          scale: {domain: names, range: colors},
          legend: names.length > 1 ? {} : null,
        },
      },
    });
    const place = el("div", {});
    const columns = [[x, ""], ...names.map((name) => [name, ""])];
    const table = rows.map(([at, ...given]) => [String(at), ...given]);
    kt.charts.draw(place, spec, {title, description, columns, rows: table, height: CHART + 60});
    return place;
  }

  function worthChart(path) {
    if (path.length < 2) return null;
    const figures = Object.keys(path[0][1]);
    const rows = path.map(([at, worth]) => [at, ...figures.map((name) => worth[name] ?? null)]);
    return chart(rows, figures.map(label), {
      title: "Your account so far",
      description: `at steps ${path[0][0]} to ${path.at(-1)[0]}`,
      x: "step",
    });
  }

  /** Closes of a table: of several names as the change since their first day. */
  function closesChart(lines) {
    const [{title, values}] = lines;
    const most = Math.max(...lines.map((line) => line.values.length));
    const isOne = lines.length === 1;
    const shown = lines.map((line) =>
      isOne ? line.values : line.values.map((value) => 100 * (value / line.values[0] - 1)),
    );
    const rows = Array.from({length: most}, (_, back) => {
      const at = back + 1 - most; // all lines end today
      return [at, ...shown.map((line) => line.at(line.length - 1 + at) ?? null)];
    });
    rows.forEach((row, back) => {
      shown.forEach((line, place) => {
        if (most - back > line.length) row[place + 1] = null;
      });
    });
    return chart(rows, lines.map((line) => line.title), {
      title: isOne ? `${title}: ${values.length} days` : "Closes: change since the first day shown, %",
      description: "the latest at the right",
      x: "days before the latest",
    });
  }

  // -- what is shown

  const isFigure = (text) => text === "–" || /^[-+]?[\d,]*\.?\d+(e[-+]?\d+)?$/i.test(text);

  function tableOf({title, columns, rows, lines}) {
    if (!rows.length) return el("p.quiet", {}, "none");
    const head = columns.map((name, place) => ({
      text: label(name),
      n: place > 0 && rows.every((row) => isFigure(row[place])),
    }));
    return [
      lines.length ? closesChart(lines) : null,
      kt.table.plain({
        caption: title ? titleOf(title) : "table",
        head,
        rows: withPicks(title, columns, rows),
      }),
    ];
  }

  /** Rows with a button to order beside each name, unless a name has several rows, as bars have. */
  function withPicks(title, columns, rows) {
    const place = columns.findIndex((name) => NAMED.includes(name));
    const sides = pickedSides(title);
    if (place < 0 || new Set(rows.map((row) => row[place])).size < rows.length) return rows;
    const picks = (name) => sides.map((side) => pickButton(name, side));
    return rows.map((row) =>
      row.map((text, at) => (at === place ? [text, picks(text)] : text)),
    );
  }

  /** Sides of orders that a table's names can have: holdings can be sold, too. */
  function pickedSides(title) {
    if (!ordering || title.startsWith(PAST)) return [];
    const sides = title.includes(HELD) ? ["SELL", "BUY"] : ["BUY"];
    return sides.filter((side) => ordering.sides.includes(side));
  }

  const pickButton = (name, side) =>
    button(optionText(side), () => pick(name, side), {
      class: "small pick",
      "aria-label": `${optionText(side)} ${name}`,
    });

  /** Put an order of a name into the ticket, and go to the first field that is still to be filled. */
  function pick(name, side) {
    const rows = (drafts[ordering.tool].rows[ordering.list] ||= []);
    let place = rows.findIndex((row) => row[ordering.named] === name);
    if (place < 0) place = rows.push({[ordering.named]: name}) - 1;
    rows[place].side = side;
    ordering.form.redraw();
    const fields = [...ordering.form.querySelectorAll(".row")[place].querySelectorAll(FILLED_IN)];
    (fields.find((one) => !one.value) || fields[0]).focus();
  }

  function sectionOf({title, facts, tables}) {
    const isLong = ([name, value]) => name && value.length > LONG;
    const short = facts.filter((fact) => !isLong(fact));
    return [
      title ? el("h3", {}, titleOf(title)) : null,
      short.every(([name]) => name === "")
        ? short.map(([, value]) => el("p.words", {}, value))
        : kt.facts(short.map(([name, value]) => [label(name), VALUES[name]?.[value] || value])),
      facts.filter(isLong).map(([name, value]) => details(label(name), el("p.words", {}, value))),
      tables.map(tableOf),
    ];
  }

  const resultOf = ({tool, arguments: given, sections}, place, all) => {
    const fold = details(`${label(tool)} ${given}`, sections.map(sectionOf));
    fold.open = place === all.length - 1;
    return fold;
  };

  /** Names in the tables on the page, for the fields that take one. */
  function namesOf(moment) {
    const names = new Set();
    for (const {facts, tables} of [moment, ...moment.results].flatMap(({sections}) => sections)) {
      const listed = facts.filter(([name]) => name === "universe");
      listed.flatMap(([, value]) => value.split(", ")).forEach((name) => names.add(name));
      for (const {columns, rows} of tables) {
        const place = columns.findIndex((name) => NAMED.includes(name));
        if (place >= 0) rows.forEach((row) => names.add(row[place]));
      }
    }
    return [...names];
  }

  /** How names become orders under a submit tool: its list, its field of a name, its sides. */
  function orderingOf(tool) {
    for (const {name: list, fields} of tool ? tool.rows : []) {
      const named = fields.find(({name}) => NAMED.includes(name));
      const side = fields.find(({name}) => name === "side");
      if (named && side) return {tool: tool.name, list, named: named.name, sides: side.choices};
    }
    return null;
  }

  // -- forms

  let numbers = 0;

  /** A choice in words: "BUY" is "Buy". */
  const optionText = (word) =>
    word === word.toUpperCase() ? word.charAt(0) + word.slice(1).toLowerCase() : word;

  /** A field of a form under its label, with its hint and what is wrong with it. */
  function control(given, texts, place) {
    numbers += 1;
    const {name, hint, required} = given;
    const about = `hint-${numbers}`;
    const said = el("div.wrong", {});
    const whole = el("div", {});
    const set = (text) => {
      texts[name] = text;
      whole.querySelector("[data-place]").removeAttribute("aria-invalid");
      replace(said);
    };
    const attributes = {"data-place": [...place, name].join(" "), "aria-describedby": about};
    const title = required ? label(name) : `${label(name)} (may be empty)`;
    const part = {...given, id: numbers, title, attributes, set, text: texts[name] || ""};
    return kt.fill(whole, partOf(part), el("div.hint", {id: about}, said, hint));
  }

  function partOf(part) {
    const {name, choices, many, is_text: isText} = part;
    if (many || (choices.length && choices.length <= MOST_OPTIONS)) return optionsPart(part);
    if (choices.length) return listPart(part, choices);
    if (isText && name.includes("reason")) return areaPart(part);
    return NAMED.includes(name) ? namePart(part) : typedPart(part);
  }

  /** Few choices, or choices of which several may hold: all are on the page. */
  function optionsPart({id, title, choices, many, required, attributes, set, text}) {
    const chosen = new Set(text.split(",").map((word) => word.trim()));
    const boxes = [];
    const change = () => set(boxes.filter((box) => box.checked).map((box) => box.value).join(", "));
    const option = (value, shown) => {
      const box = el("input", {
        type: many ? "checkbox" : "radio",
        name: `option-${id}`,
        value,
        checked: value === text || (many && chosen.has(value)),
        required: required && !many,
        change,
      });
      boxes.push(box);
      return el("label.tick", {}, box, " ", shown);
    };
    const free = many || required ? [] : [["", "none"]];
    const pairs = [...choices.map((word) => [word, optionText(word)]), ...free];
    return el(
      "fieldset.options",
      {...attributes, role: many ? "group" : "radiogroup", tabindex: "-1"},
      el("legend", {}, title),
      pairs.map(([value, shown]) => option(value, shown)),
    );
  }

  function listPart({name, title, required, attributes, set, text}, words, more = []) {
    const pairs = [["", "choose …"], ...words.map((word) => [word, word]), ...more];
    const list = el(
      "select",
      {...attributes, name, required, change: () => set(list.value)},
      pairs.map(([value, shown]) => el("option", {value, selected: value === text}, shown)),
    );
    return field(title, list);
  }

  /** A name of the tables on the page, or one that is typed. */
  function namePart(part) {
    const {text, set} = part;
    if (!known.length || (text && !known.includes(text))) return typedPart(part);
    const box = el("div", {});
    const choose = (name) => {
      set(name === OTHER ? "" : name);
      if (name !== OTHER) return;
      replace(box, typedPart({...part, text: ""}));
      box.querySelector("input").focus();
    };
    return kt.fill(box, listPart({...part, set: choose}, known, [[OTHER, "another …"]]));
  }

  function areaPart({name, title, required, attributes, set, text}) {
    const area = el("textarea", {...attributes, name, required, rows: "2", input: () => set(area.value)});
    area.value = text;
    return field(title, area);
  }

  function typedPart({name, title, required, attributes, set, text}) {
    const list = NAMED.includes(name) ? NAMES : null;
    const typed = {type: "text", autocomplete: "off", spellcheck: "false", list};
    const box = el("input", {...attributes, ...typed, name, required, input: () => set(box.value)});
    box.value = text;
    return field(title, box);
  }

  /** A form; `draft` is {fields: {name: text}, rows: {name: [{name: text}]}}, and is kept up. */
  function formOf(tool, draft, buttons) {
    const problem = el("div.problem", {role: "alert", hidden: true});
    const submit = () => act({tool: tool.name, ...draft}, problem);
    const form = el("form.form", {
      submit: (event) => {
        event.preventDefault();
        submit();
      },
    });
    const draw = () => {
      replace(
        form,
        tool.rows.map((rows) => rowsOf(rows, draft.rows, draw)),
        tool.fields.map((one) => control(one, draft.fields, [])),
        problem,
        el("div.buttons", {}, buttons(submit)),
      );
    };
    draw();
    form.redraw = draw;
    return form;
  }

  /** One word for an entry of a list: "order" of "orders". */
  const singular = (name) => kt.words(name).replace(/s$/, "");

  function rowsOf({name, about, choices, fields}, all, draw) {
    all[name] = all[name] || [];
    const change = (act) => () => {
      act();
      draw();
    };
    const row = (texts, place) =>
      el(
        "fieldset.row",
        {},
        el("legend", {}, `${label(singular(name))} ${place + 1}`),
        fields
          .filter((each) => !choices.includes(each.name) || each.name === chosenOf(texts, choices))
          .map((each) => {
            const at = [name, place + 1];
            if (!choices.includes(each.name)) return control(each, texts, at);
            return [amountChoice(texts, choices, draw), control({...each, required: true}, texts, at)];
          }),
        el(
          "div.buttons",
          {},
          button(`Remove ${singular(name)} ${place + 1}`, change(() => all[name].splice(place, 1)), {
            class: "small",
          }),
        ),
      );
    return el(
      "div.form",
      {},
      el("div.hint", {}, about),
      all[name].map(row),
      button(`Add ${singular(name)}`, change(() => all[name].push({})), {class: "small"}),
    );
  }

  // of fields that exclude each other, one is on the page

  const chosenOf = (texts, choices) => choices.find((name) => Object.hasOwn(texts, name)) || choices[0];

  function amountChoice(texts, choices, draw) {
    const {element, set} = kt.controls.choice({
      label: "Amount by",
      options: choices.map((name) => [name, label(name)]),
      onChange: (chosen) => {
        choices.forEach((name) => delete texts[name]);
        texts[chosen] = "";
        draw();
      },
    });
    set(chosenOf(texts, choices));
    return element;
  }

  const send = (text) => el("button.small", {type: "submit"}, text);

  function toolForm(tool) {
    const fold = details(
      label(tool.name),
      el("p.words.quiet", {}, tool.about),
      formOf(tool, {fields: {}, rows: {}}, () => send("Look up")),
    );
    fold.open = openTools.has(tool.name);
    fold.addEventListener("toggle", () =>
      fold.open ? openTools.add(tool.name) : openTools.delete(tool.name),
    );
    return fold;
  }

  function ticket(tool) {
    const draft = (drafts[tool.name] ||= {fields: {}, rows: {}});
    const hold = (submit) => () => {
      draft.rows = {};
      submit();
    };
    const hasRows = tool.rows.length > 0;
    const [what] = hasRows ? tool.rows.map(({name}) => kt.words(name)) : ["answer"];
    const form = formOf(tool, draft, (submit) => [
      send(`Submit ${what}`),
      hasRows ? button("Hold: change nothing", hold(submit), {class: "small"}) : null,
    ]);
    if (ordering) ordering.form = form;
    return section(
      `Your ${what}`,
      el(
        "p.quiet",
        {},
        hasRows ? `Add what you want to change, or hold: without ${what} all stays as it is. ` : null,
        "What is accepted is final for this step. What breaks a rule comes back, to be corrected.",
      ),
      form,
    );
  }

  function wordsForm() {
    const problem = el("div.problem", {role: "alert", hidden: true});
    const area = el("textarea", {rows: "8", "aria-label": "Answer in words"});
    return el(
      "form.form",
      {
        submit: (event) => {
          event.preventDefault();
          act({text: area.value}, problem);
        },
      },
      area,
      problem,
      el("div.buttons", {}, send("Answer")),
    );
  }

  // -- the moment

  function progress({step: at, steps}) {
    if (at === null || !steps) return null;
    return el("progress", {max: steps, value: at, "aria-label": `${at} of ${steps} steps done`});
  }

  /** What is asked: in full without figures, else its first words, and the request in a fold. */
  function asked({task, rules, sections}) {
    if (!sections.length) return [el("p.words", {}, task), rules ? details("Rules", el("p.words", {}, rules)) : null];
    const [first] = task.split("\n\n");
    return [
      el("p.words", {}, first),
      details(
        "Rules, and the request in its own words",
        el("p.quiet", {}, "A model is sent the same words."),
        el("p.words", {}, rules),
        el("p.words", {}, task),
      ),
    ];
  }

  function figures({sections, path}) {
    const isFolded = ({title}) => FOLDED.includes(title.split(" · ")[0]);
    const folded = sections.filter(isFolded);
    return [
      worthChart(path),
      sections.filter((one) => !isFolded(one)).map(sectionOf),
      folded.length ? details(label(FOLDED[0]), folded.map(sectionOf)) : null,
    ];
  }

  function draw(moment) {
    if (moment.step !== step) {
      step = moment.step;
      drafts = {};
      openTools.clear();
      window.scrollTo(0, 0);
    }
    known = namesOf(moment);
    ordering = orderingOf(moment.submit);
    replace(byId("title"), moment.title);
    replace(byId("progress"), progress(moment));
    document.title = `${moment.title} – ktdeval`;
    const problems = moment.notes.slice(-1).map((note) => el("p.problem", {role: "alert"}, note));
    const left = el(
      "div",
      {},
      problems,
      section("What you know today", asked(moment), figures(moment)),
      moment.results.length
        ? section("Looked up in this step", moment.results.map(resultOf))
        : null,
    );
    const right = el(
      "div",
      {},
      moment.submit ? ticket(moment.submit) : null,
      moment.tools.length ? section("Look something up", moment.tools.map(toolForm)) : null,
      moment.wants_text ? section("Your answer", wordsForm()) : null,
      section(
        "Leave",
        el("p.quiet", {}, "Finished steps are saved; the same command resumes at this one."),
        button("Leave the run", () => act({leave: true}, null), {class: "small"}),
      ),
    );
    const names = el("datalist", {id: NAMES}, known.map((value) => el("option", {value})));
    replace(byId("content"), el("div.desk", {}, left, right), names);
    byId("content").removeAttribute("aria-busy");
  }

  function wait(text) {
    byId("content").setAttribute("aria-busy", "true");
    replace(byId("content"), el("p.quiet", {}, text));
  }

  function end(text) {
    replace(byId("title"), "ktdeval");
    replace(byId("progress"));
    replace(byId("content"), el("p", {}, text));
    byId("content").removeAttribute("aria-busy");
    document.body.dataset.over = "true";
  }

  // -- the server

  async function act(what, problem) {
    let answer;
    try {
      answer = await fetch("/act", {
        method: "POST",
        headers: {"Content-Type": "application/json"},
        body: JSON.stringify({version, ...what}),
      });
    } catch {
      kt.notice("The run can't be reached.");
      return;
    }
    if (answer.ok) return;
    const {problem: told, place = [], at_field: atField} = await answer.json();
    if (!problem || answer.status !== 422) {
      kt.notice(told);
      return;
    }
    replace(problem, sentence(place, atField));
    problem.hidden = false;
    const wrong = problem.closest("form").querySelector(`[data-place="${place.join(" ")}"]`);
    if (!wrong) {
      problem.scrollIntoView({block: "nearest"});
      return;
    }
    wrong.setAttribute("aria-invalid", "true");
    replace(byId(wrong.getAttribute("aria-describedby")).firstChild, atField);
    wrong.focus();
  }

  /** A problem with the words of the page: "Order 1, Why: is missing". */
  function sentence(place, problem) {
    const words = place.map((part, at) => (at ? part : label(place.length > 1 ? singular(part) : part)));
    if (words.length > 2) words[2] = label(place[2]);
    const where = words.length > 1 ? [`${words[0]} ${words[1]}`, ...words.slice(2)] : words;
    return [where.join(", "), problem].filter(Boolean).join(": ");
  }

  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  async function follow() {
    let failures = 0;
    while (true) {
      try {
        const answer = await fetch(`/state?seen=${version}`);
        if (!answer.ok) {
          end((await answer.json()).problem);
          return;
        }
        const now = await answer.json();
        failures = 0;
        if (now.left) {
          end("You have left the run. The same command resumes where you left it.");
          return;
        }
        if (now.version !== version) {
          version = now.version;
          if (now.moment) draw(now.moment);
          else wait("The run continues; the next step appears automatically …");
        }
      } catch {
        failures += 1;
        if (failures > 2) {
          end("The run has ended or was stopped; see its terminal.");
          return;
        }
        await pause(AGAIN_MS);
      }
    }
  }

  document.addEventListener("DOMContentLoaded", follow);
})();
