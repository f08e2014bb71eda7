// Playground: chats, their turns as they come, and items made of them. All texts of models become
// text nodes: no markup, no image, no link of theirs is ever followed.
"use strict";

(() => {
  const {el, byId, field, replace, section, facts, button, details} = kt;
  const {ask, events, show, trouble} = pages;
  const CHATS = "/playground/chats";
  let source = null;
  let closing = 0;

  const chosen = () => window.location.hash.slice(1);

  // -- parts of a turn

  function pretty(text) {
    try {
      return JSON.stringify(JSON.parse(text), null, 1);
    } catch {
      return text;
    }
  }

  const cutNote = (part) => (part.cut ? el("p.quiet", {}, `${part.cut} further characters are in the record`) : null);

  function callBox(part) {
    const result = el("div", {}, el("p.quiet", {}, "…"));
    const box = el(
      "details.call",
      {"data-call": part.call_id},
      el("summary", {}, el("code", {}, part.tool), " ", el("span.quiet", {}, part.text.slice(0, 120))),
      el("p.quiet", {}, "Arguments"),
      el("pre", {tabindex: "0", role: "region", "aria-label": "Arguments"}, pretty(part.text)),
      el("p.quiet", {}, "Answer"),
      result,
    );
    return {box, result};
  }

  /** Adds parts of a turn to a place, results to their calls. */
  function teller(place) {
    const calls = new Map();
    return (part) => {
      if (part.kind === "call") {
        const {box, result} = callBox(part);
        calls.set(part.call_id, result);
        place.append(box);
      } else if (part.kind === "result" && calls.has(part.call_id)) {
        kt.replace(
          calls.get(part.call_id),
          el("pre", {tabindex: "0", role: "region", "aria-label": "Answer"}, pretty(part.text)),
          cutNote(part),
        );
      } else if (part.kind === "thought") place.append(details("Reasoning", el("div.said", {}, part.text)));
      else place.append(el(`div.said.${part.kind === "feedback" ? "feedback" : "answer"}`, {}, part.text), ...[cutNote(part)].filter(Boolean));
    };
  }

  function turnBlock(chat, turn) {
    const parts = el("div", {});
    const tell = teller(parts);
    turn.parts.forEach(tell);
    const failures = Object.entries(turn.failures).map(([kind, number]) => `${kind} ${number}`).join(", ");
    const scores = turn.scores.map((score) => `${score.name} ${score.value === null ? "—" : score.value.toFixed(2)}`).join(" · ");
    return el(
      "div.turn",
      {},
      el("h3", {}, `Turn ${turn.number}`),
      el("div.said.user", {}, turn.instruction),
      parts,
      turn.is_complete
        ? el("p.quiet", {}, [`${turn.calls} calls`, failures && `failures: ${failures}`, scores].filter(Boolean).join(" · "), " ", button("Make this a sample", () => sampleForm(chat, turn), {class: "small"}))
        : null,
    );
  }

  // -- an item of one's own

  async function sampleForm(chat, turn) {
    const place = byId("sample");
    try {
      const made = await ask(`${CHATS}/${chat.id}/sample?turn=${turn.number}`);
      const row = made.row;
      const id = el("input", {type: "text", value: row.id, maxlength: "64"});
      const suite = el("select", {}, ["planning", "calling"].map((name) => el("option", {value: name}, name)));
      const words = el("textarea", {rows: "4", maxlength: "8000"});
      words.value = row.natural_language_instruction;
      const done = el("div", {"aria-live": "polite"});
      const keep = async (event) => {
        event.preventDefault();
        try {
          const body = {turn: turn.number, suite: suite.value, id: id.value, instruction: words.value};
          const kept = await ask(`${CHATS}/${chat.id}/samples`, body);
          replace(done, el("p", {}, `Kept in ${kept.file}. Ask it of a model:`), kt.command(kept.command));
        } catch (error) {
          replace(done, trouble(error));
        }
      };
      const calls = row.expected_steps.map((call) => el("li", {}, el("code", {}, call.tool_name), " ", JSON.stringify(call.required_params)));
      replace(
        place,
        section(
          `Sample of turn ${turn.number}`,
          el("form", {submit: keep}, el("div.row", {}, field("Id", id), field("Suite", suite)), field("Instruction", words), el("p.quiet", {}, `Expected calls${made.left_out ? `; ${made.left_out} that the services refused are left out` : ""}:`), el("ol", {}, calls), el("button.small", {type: "submit"}, "Keep the sample")),
          done,
        ),
      );
      id.focus();
    } catch (error) {
      replace(place, trouble(error));
    }
  }

  // -- a chat

  /** Shows the reply that is being received: each part grows, or is replaced. */
  function comer(place) {
    return (parts) => {
      while (place.children.length > parts.length) place.lastChild.remove();
      parts.forEach((part, at) => {
        let box = place.children[at];
        if (!box || box.dataset.kind !== part.kind) {
          const fresh = el("div.said.coming", {"data-kind": part.kind}, el("code", {}), el("span", {}));
          if (box) box.replaceWith(fresh);
          else place.append(fresh);
          box = fresh;
        }
        box.firstChild.textContent = part.tool ? `${kt.visible(part.tool)} ` : "";
        if (part.adds) box.lastChild.append(kt.visible(part.text));
        else box.lastChild.textContent = kt.visible(part.text);
      });
    };
  }

  function follow(chat, place, redraw) {
    if (source) source.close();
    const told = el("div", {});
    const tell = teller(told);
    const coming = el("div", {id: "coming"});
    const come = comer(coming);
    const waiting = el("p.quiet", {role: "status"}, "The model is asked …");
    place.append(told, coming, waiting);
    const shown = (event) => {
      if (event.kind === "part") tell(event.part);
      if (event.kind === "coming") come(event.parts);
      if (event.kind === "note") told.append(el("p.quiet", {}, event.message));
      if (event.kind === "ended") {
        source = null;
        redraw(event.message);
      }
    };
    source = events(`${CHATS}/${chat.id}/events`, shown, (event) => event.kind === "ended");
  }

  async function drawChat(place, id, said = "") {
    closing += 1;
    const mine = closing;
    const chat = await ask(`${CHATS}/${encodeURIComponent(id)}`);
    if (mine !== closing) return;
    const live = el("div", {id: "live"});
    const message = said || chat.message;
    const act = (path, words) =>
      button(words, async () => {
        try {
          await ask(`${CHATS}/${chat.id}/${path}`, {});
          await drawChat(place, chat.id);
        } catch (error) {
          replace(byId("said"), trouble(error));
        }
      }, {class: "small"});
    replace(
      place,
      el("h2", {}, chat.title || "New chat"),
      facts([["model", chat.model], ["clock starts at", chat.as_of]]),
      chat.turns.map((turn) => turnBlock(chat, turn)),
      live,
      el("div", {id: "said"}, message ? el("p.trouble", {role: "alert"}, message) : null),
      el("div.row", {}, chat.state === "running" ? act("stop", "Stop") : null, chat.state === "unfinished" ? act("resume", "Resume") : null),
      chat.state === "new" || chat.state === "ready" ? askForm(place, chat) : null,
      el("div", {id: "sample"}),
      chat.turns.length ? details("This chat is a run on disk", Object.values(chat.commands).map((line) => kt.command(line))) : null,
    );
    if (chat.state === "running") follow(chat, live, (text) => drawChat(place, chat.id, text));
    place.dataset.state = chat.state;
  }

  function askForm(place, chat) {
    const words = el("textarea", {rows: "3", maxlength: "8000", id: "instruction"});
    const send = async (event) => {
      event.preventDefault();
      try {
        await ask(`${CHATS}/${chat.id}/turns`, {instruction: words.value});
        await drawChat(place, chat.id);
        await drawList();
      } catch (error) {
        replace(byId("said"), trouble(error));
      }
    };
    words.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) words.form.requestSubmit();
    });
    return el("form", {submit: send}, field("Your message (Ctrl+Enter sends it)", words), el("div.row", {}, el("button.small", {type: "submit"}, "Send")));
  }

  // -- all chats

  async function drawList() {
    const chats = await ask(CHATS);
    replace(
      byId("chats"),
      chats.map((chat) =>
        el("li", {}, el("a", {href: `#${chat.id}`, "aria-current": chat.id === chosen() ? "page" : null}, chat.title || chat.problem || "New chat", el("br"), el("span.quiet", {}, chat.model))),
      ),
    );
  }

  function newForm(choices, chatPlace) {
    const own = choices.models.filter((model) => model.summary === "offered by this server");
    const model = el("input", {type: "text", list: "models", maxlength: "500", autocomplete: "off", value: own.length ? own[0].name : "builtin/chaos"});
    const asOf = el("input", {type: "text", maxlength: "40", value: choices.as_of});
    const place = el("div", {});
    const begin = async (event) => {
      event.preventDefault();
      try {
        const made = await ask(CHATS, {model: model.value.trim(), as_of: asOf.value.trim()});
        replace(place);
        window.location.hash = made.id;
      } catch (error) {
        replace(place, trouble(error));
      }
    };
    return section(
      "New chat",
      el(
        "form",
        {submit: begin},
        field("Model (PROVIDER/NAME)", model),
        el("datalist", {id: "models"}, choices.models.map((one) => el("option", {value: one.name}, one.summary.slice(0, 90)))),
        field(`Clock, from ${choices.first} to ${choices.last}`, asOf),
        el("div.row", {}, el("button.small", {type: "submit"}, "Begin")),
        place,
      ),
    );
  }

  document.addEventListener("DOMContentLoaded", async () => {
    const chatPlace = el("section", {id: "chat", "aria-label": "Chat"});
    const open = async () => {
      if (source) source.close();
      source = null;
      try {
        if (chosen()) {
          await drawChat(chatPlace, chosen());
          byId("instruction")?.focus();
        } else replace(chatPlace, el("p.empty", {}, "Begin a chat, or choose one."));
        await drawList();
      } catch (error) {
        replace(chatPlace, trouble(error));
      }
    };
    await show(async () => {
      const choices = await ask("/playground/choices");
      return [
        el("h1", {}, "Playground"),
        el("div.chats", {}, el("div", {}, newForm(choices, chatPlace), el("h2", {}, "Chats"), el("ul.list", {id: "chats", tabindex: "0", "aria-label": "Chats"})), chatPlace),
      ];
    });
    await open();
    window.addEventListener("hashchange", open);
  });
})();
