// Playground: chats, their turns as they come, and items made of them. All texts of models become
// text nodes: no markup, no image, no link of theirs is ever followed.
"use strict";

window.chats = (() => {
  const {el, byId, field, replace, section, facts, button, details} = kt;
  const CHATS = "/playground/chats";
  const LOOK_MS = 300;
  let drawn = 0; // number of the latest chat that was asked for: an answer to an earlier one is void

  const chosen = () => window.location.hash.slice(1);
  const text = (name, attributes) => el("input", {type: "text", name, autocomplete: "off", ...attributes});
  const send = (words) => el("div.row", {}, el("button.small", {type: "submit"}, words));

  // -- a turn

  function pretty(json) {
    try {
      return JSON.stringify(JSON.parse(json), null, 1);
    } catch {
      return json;
    }
  }

  const pre = (label, content) => el("pre", {tabindex: "0", role: "region", "aria-label": label}, pretty(content));

  function callBox(call, answer) {
    return el(
      "details.call",
      {"data-call": call.id},
      el("summary", {}, el("code", {}, call.name), " ", el("span.quiet", {}, call.arguments.slice(0, 120))),
      el("p.quiet", {}, "Arguments"),
      pre("Arguments", call.arguments),
      el("p.quiet", {}, "Answer"),
      answer === undefined ? el("p.quiet", {}, "…") : pre("Answer", answer),
    );
  }

  /** What a turn's model calls said, with the answers that later ones brought. */
  function talk(exchanges) {
    const sent = exchanges.flatMap((exchange) => exchange.sent);
    const answers = new Map(sent.filter((one) => one.role === "tool").map((one) => [one.tool_call_id, one.content]));
    return exchanges.map(({sent: added, reply, error}) => [
      added.filter((one) => one.role === "user").map((one) => el("div.said.feedback", {}, one.content)),
      reply?.reasoning ? details("Reasoning", el("div.said", {}, reply.reasoning)) : null,
      reply?.content ? el("div.said.answer", {}, reply.content) : null,
      (reply?.tool_calls || []).map((call) => callBox(call, answers.get(call.id))),
      error ? el("div.said.feedback", {}, `The call of the model failed: ${error}`) : null,
    ]);
  }

  function turnBlock(chat, turn) {
    const failures = Object.entries(turn.failures).map(([kind, number]) => `${kind} ${number}`);
    const scores = Object.entries(turn.scores).map(([name, value]) => `${name} ${value === null ? "—" : value.toFixed(2)}`);
    const figures = [`${turn.calls} calls`, ...failures, ...scores].join(" · ");
    return el(
      "div.turn",
      {},
      el("h3", {}, `Turn ${turn.number}`),
      el("div.said.user", {}, turn.instruction),
      talk(turn.exchanges),
      turn.is_complete ? el("p.quiet", {}, figures, " ", button("Make this a sample", () => sampleForm(chat, turn), {class: "small"})) : null,
    );
  }

  function sampleForm(chat, turn) {
    const id = text("id", {value: `chat-${chat.id.slice(0, 6)}-${turn.number}`, maxlength: "64"});
    const suite = el("select", {}, ["planning", "calling"].map((name) => el("option", {value: name}, name)));
    const words = el("textarea", {rows: "4", maxlength: "8000"});
    words.value = `${turn.instruction.trim()} (The clock stands at ${chat.as_of}.)`;
    const done = el("div", {"aria-live": "polite"});
    const keep = pages.doing(done, async () => {
      const body = {turn: String(turn.number), suite: suite.value, item_id: id.value, instruction: words.value};
      const {file, command, row} = await pages.ask(`${CHATS}/${chat.id}/samples`, body);
      const calls = row.expected_steps.map((call) => el("li", {}, el("code", {}, call.tool_name), " ", JSON.stringify(call.required_params)));
      replace(done, el("p", {}, `Kept in ${file}. Expected calls:`), el("ol", {}, calls), el("p", {}, "Ask it of a model:"), kt.command(command));
    });
    replace(
      byId("sample"),
      section(
        `Sample of turn ${turn.number}`,
        el("p.quiet", {}, "Its expected calls are those that the services carried out."),
        el("form", {submit: keep}, el("div.row", {}, field("Id", id), field("Suite", suite)), field("Instruction", words), send("Keep the sample")),
        done,
      ),
    );
    id.focus();
  }

  // -- a chat

  function askForm(chat, trouble) {
    const words = el("textarea", {rows: "3", maxlength: "8000", id: "instruction"});
    const submit = pages.doing(trouble, async () => {
      await pages.ask(`${CHATS}/${chat.id}/turns`, {instruction: words.value});
      await draw();
    });
    words.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) words.form.requestSubmit();
    });
    return el("form", {submit}, field("Your message (Ctrl+Enter sends it)", words), send("Send"));
  }

  function drawTurns(place, chat) {
    const open = new Set([...place.querySelectorAll("details.call[open]")].map((one) => one.dataset.call));
    replace(place, chat.turns.map((turn) => turnBlock(chat, turn)));
    for (const one of place.querySelectorAll("details.call")) one.open = open.has(one.dataset.call);
  }

  /** Look at a running chat until it has ended; turns are drawn anew where they have changed. */
  async function follow(chat, turns, coming, mine) {
    let seen = JSON.stringify(chat.turns);
    for (let now = chat; now.state === "running"; now = await pages.ask(`${CHATS}/${chat.id}`)) {
      if (mine !== drawn) return;
      if (JSON.stringify(now.turns) !== seen) drawTurns(turns, now);
      seen = JSON.stringify(now.turns);
      replace(coming, now.coming);
      await new Promise((done) => window.setTimeout(done, LOOK_MS));
    }
    if (mine === drawn) await draw();
  }

  async function drawChat(place, id) {
    drawn += 1;
    const mine = drawn;
    const chat = await pages.ask(`${CHATS}/${encodeURIComponent(id)}`);
    if (mine !== drawn) return;
    const turns = el("div", {});
    const coming = el("div.said.coming", {id: "coming", "aria-label": "Coming reply"});
    const trouble = el("div", {}, chat.message ? el("p.trouble", {role: "alert"}, chat.message) : null);
    const act = (path, words) =>
      button(words, pages.doing(trouble, async () => {
        await pages.ask(`${CHATS}/${chat.id}/${path}`, {});
        await draw();
      }), {class: "small"});
    const isRunning = chat.state === "running";
    replace(
      place,
      el("h2", {}, chat.title || "New chat"),
      facts([["model", chat.model], ["clock starts at", chat.as_of]]),
      turns,
      isRunning ? [coming, el("p.quiet", {role: "status"}, "The model is asked …")] : null,
      trouble,
      el("div.row", {}, isRunning ? act("stop", "Stop") : null, chat.state === "unfinished" ? act("resume", "Resume") : null),
      chat.state === "new" || chat.state === "ready" ? askForm(chat, trouble) : null,
      el("div", {id: "sample"}),
      chat.turns.length ? details("This chat is a run on disk", chat.commands.map((line) => kt.command(line))) : null,
    );
    drawTurns(turns, chat);
    place.dataset.state = chat.state;
    if (isRunning) pages.doing(trouble, () => follow(chat, turns, coming, mine))();
    byId("instruction")?.focus();
  }

  // -- all chats

  async function draw() {
    const place = byId("chat");
    if (chosen()) await drawChat(place, chosen());
    else replace(place, el("p.empty", {}, "Begin a chat, or choose one."));
    const all = await pages.ask(CHATS);
    replace(
      byId("chats"),
      all.map((chat) => el("li", {}, el("a", {href: `#${chat.id}`, "aria-current": chat.id === chosen() ? "page" : null}, chat.title || "New chat", el("br"), el("span.quiet", {}, chat.model)))),
    );
  }

  function newForm(choices) {
    const model = text("model", {list: "models", maxlength: "500", value: choices.own[0] || "builtin/chaos"});
    const asOf = text("as_of", {maxlength: "40", value: choices.as_of});
    const place = el("div", {});
    const begin = pages.doing(place, async () => {
      const made = await pages.ask(CHATS, {model: model.value.trim(), as_of: asOf.value.trim()});
      replace(place);
      window.location.hash = made.id;
    });
    return section(
      "New chat",
      el(
        "form",
        {submit: begin},
        field("Model (PROVIDER/NAME)", model),
        el("datalist", {id: "models"}, Object.entries(choices.models).map(([name, summary]) => el("option", {value: name}, summary.slice(0, 90)))),
        field(`Clock, from ${choices.first} to ${choices.last}`, asOf),
        send("Begin"),
        place,
      ),
    );
  }

  async function view() {
    const choices = await pages.ask("/playground/choices");
    const chat = el("section", {id: "chat", "aria-label": "Chat"});
    window.addEventListener("hashchange", pages.doing(chat, draw));
    return el("div.chats", {}, el("div", {}, newForm(choices), el("h2", {}, "Chats"), el("ul.list", {id: "chats", tabindex: "0", "aria-label": "Chats"})), chat);
  }

  return {view};
})();
