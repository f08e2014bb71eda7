// A person's page: draws the moment that the run waits at, and sends what the person does. All
// texts become text nodes. Values are sent as they were typed; the server reads and checks them.

"use strict";

(() => {
  const {el, byId, replace, section, details, button, field} = kt;
  const AGAIN_MS = 1000;
  let version = -1;
  let step = null;
  let drafts = {}; // texts of the ticket, kept until the step is over
  const openTools = new Set();

  // -- what is shown

  function lineFigure({title, values}) {
    const size = {width: 320, height: 120};
    const [low, high] = kt.drawing.ends(values);
    const room = 0.06 * (high - low || Math.abs(high) || 1);
    const ends = [low - room, high + room];
    const margin = {left: 52, right: 8, top: 8, bottom: 8};
    const scale = kt.drawing.scale({...size, margin, ends, span: [0, values.length - 1]});
    const say = (value) => value.toLocaleString("en-US", {maximumFractionDigits: 4});
    return el(
      "figure",
      {},
      el("figcaption", {}, `${title}, ${values.length} days, the latest at the right`),
      kt.drawing.picture(
        {...size, label: `${title}: from ${say(values[0])} to ${say(values.at(-1))}`},
        kt.drawing.valueAxis(scale, ends, {most: 4, say}).flat(),
        kt.svg("path", {d: kt.drawing.line(values, scale.x, scale.y)}),
      ),
    );
  }

  const isFigure = (text) => text === "–" || /^[-+]?[\d,]*\.?\d+(e[-+]?\d+)?$/i.test(text);

  function tableOf({title, columns, rows, lines}) {
    if (!rows.length) return el("p.quiet", {}, "none");
    const head = columns.map((text, place) => ({
      text,
      n: place > 0 && rows.every((row) => isFigure(row[place])),
    }));
    return [
      kt.table.plain({caption: title || "table", head, rows}),
      lines.length ? el("div.lines", {}, lines.map(lineFigure)) : null,
    ];
  }

  const sectionsOf = (sections) =>
    sections.map(({title, facts, tables}) => [
      title ? el("h3", {}, title) : null,
      facts.every(([name]) => name === "")
        ? facts.map(([, value]) => el("p.words", {}, value))
        : kt.facts(facts),
      tables.map(tableOf),
    ]);

  const resultOf = ({tool, arguments: given, sections}, place, all) => {
    const fold = details(`${tool} ${given}`, sectionsOf(sections));
    fold.open = place === all.length - 1;
    return fold;
  };

  // -- forms

  let numbers = 0;

  function control({name, hint, choices, is_long: isLong, required}, texts) {
    numbers += 1;
    const about = `hint-${numbers}`;
    const given = texts[name] || "";
    const set = () => {
      texts[name] = input.value;
    };
    const attributes = {name, "aria-describedby": about, "aria-required": required, input: set};
    let input;
    if (choices.length) {
      const options = ["", ...choices].map((word) =>
        el("option", {value: word, selected: word === given}, word),
      );
      input = el("select", {...attributes, change: set}, options);
    } else if (isLong && name.includes("reason")) {
      input = el("textarea", {...attributes, rows: "2"});
      input.value = given;
    } else {
      input = el("input", {...attributes, type: "text", autocomplete: "off", spellcheck: "false"});
      input.value = given;
    }
    return el("div", {}, field(name, input), el("div.hint", {id: about}, hint));
  }

  /** A form; `draft` is {fields: {name: text}, rows: {name: [{name: text}]}}, and is kept up. */
  function formOf(tool, draft, onSend, buttons) {
    const problem = el("div.problem", {role: "alert", hidden: true});
    const form = el("form.form", {
      submit: (event) => {
        event.preventDefault();
        onSend(draft, problem);
      },
    });
    const draw = () => {
      replace(
        form,
        tool.rows.map((rows) => rowsOf(rows, draft.rows, draw)),
        tool.fields.map((one) => control(one, draft.fields)),
        problem,
        el("div.buttons", {}, buttons(draft, problem)),
      );
    };
    draw();
    return form;
  }

  function rowsOf({name, about, choices, fields}, all, draw) {
    all[name] = all[name] || [];
    const one = choices.length ? `; fill one of ${choices.join(", ")}` : "";
    return el(
      "div.form",
      {},
      el("div", {}, el("strong", {}, name), el("span.hint", {}, ` ${about}${one}`)),
      all[name].map((texts, place) =>
        el(
          "fieldset.row",
          {},
          el("legend", {}, `${name} ${place + 1}`),
          fields.map((each) => control(each, texts)),
          el(
            "div.buttons",
            {},
            button(
              `Remove ${name} ${place + 1}`,
              () => {
                all[name].splice(place, 1);
                draw();
              },
              {class: "small"},
            ),
          ),
        ),
      ),
      button(
        `Add to ${name}`,
        () => {
          all[name].push({});
          draw();
        },
        {class: "small"},
      ),
    );
  }

  const send = (text) => el("button.small", {type: "submit"}, text);

  function toolForm(tool) {
    const fold = details(
      tool.name,
      el("p.words.quiet", {}, tool.about),
      formOf(
        tool,
        {fields: {}, rows: {}},
        (draft, problem) => act({tool: tool.name, ...draft}, problem),
        () => send(`Ask ${tool.name}`),
      ),
    );
    fold.open = openTools.has(tool.name);
    fold.addEventListener("toggle", () =>
      fold.open ? openTools.add(tool.name) : openTools.delete(tool.name),
    );
    return fold;
  }

  function ticket(tool) {
    drafts[tool.name] = drafts[tool.name] || {fields: {}, rows: {}};
    const hold = (draft, problem) => {
      draft.rows = {};
      act({tool: tool.name, ...draft}, problem);
    };
    return [
      el("p.quiet", {}, tool.about),
      formOf(
        tool,
        drafts[tool.name],
        (draft, problem) => act({tool: tool.name, ...draft}, problem),
        (draft, problem) => [
          send("Submit"),
          tool.rows.length
            ? button("Hold: submit no row", () => hold(draft, problem), {class: "small"})
            : null,
        ],
      ),
    ];
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

  function draw(moment) {
    if (moment.step !== step) {
      step = moment.step;
      drafts = {};
      openTools.clear();
      window.scrollTo(0, 0);
    }
    replace(byId("title"), moment.title);
    document.title = `${moment.title} – ktdeval`;
    const problems = moment.notes.slice(-1).map((note) => el("p.problem", {role: "alert"}, note));
    const left = el(
      "div",
      {},
      problems,
      section(
        "The day",
        moment.task ? el("p.words", {}, moment.task) : null,
        sectionsOf(moment.sections),
      ),
      moment.results.length
        ? section("Looked up in this step", moment.results.map(resultOf))
        : null,
      moment.rules ? section("Rules", details("Read the rules", el("p.words", {}, moment.rules))) : null,
    );
    const right = el(
      "div",
      {},
      moment.submit ? section("Ticket", ticket(moment.submit)) : null,
      moment.tools.length ? section("Research", moment.tools.map(toolForm)) : null,
      moment.wants_text ? section("Answer", wordsForm()) : null,
      section(
        "Leave",
        el("p.quiet", {}, "Finished days are kept; the same command goes on at this one."),
        button("Leave the run", () => act({leave: true}, null), {class: "small"}),
      ),
    );
    replace(byId("content"), el("div.desk", {}, left, right));
    byId("content").removeAttribute("aria-busy");
  }

  function wait(text) {
    byId("content").setAttribute("aria-busy", "true");
    replace(byId("content"), el("p.quiet", {}, text));
  }

  function end(text) {
    replace(byId("title"), "ktdeval");
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
    const said = (await answer.json()).problem;
    if (problem && answer.status === 422) {
      replace(problem, said);
      problem.hidden = false;
      problem.scrollIntoView({block: "nearest"});
    } else kt.notice(said);
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
          end("You have left the run. The same command goes on where you left it.");
          return;
        }
        if (now.version !== version) {
          version = now.version;
          if (now.moment) draw(now.moment);
          else wait("The run goes on …");
        }
      } catch {
        failures += 1;
        if (failures > 2) {
          end("The run has ended, or was stopped: its terminal says which.");
          return;
        }
        await pause(AGAIN_MS);
      }
    }
  }

  document.addEventListener("DOMContentLoaded", follow);
})();
