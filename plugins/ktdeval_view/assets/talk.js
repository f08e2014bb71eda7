// What was said on a day, in order: every message as it was sent, every reply as it came, what was
// withheld when it was sent back.

const UNUSUAL_ENDS = {
  length: "cut off at the longest reply",
  refusal: "refused",
  content_filter: "stopped by the provider's content filter",
};
const ROLES = {
  system: "System prompt",
  user: "User message",
  tool: "Tool result",
  assistant: "Earlier reply",
};
const SHORT_ANSWER = 300; // letters of a tool's answer that is shown without a fold
const [LINE, MOST_LINES] = [95, 20]; // letters in a line, and lines of a text that is shown whole

class Talk {
  /**
   * @param names true names.
   * @param texts texts that days share.
   * @param manner {verbatim, unfolded}: how messages are shown at first.
   */
  constructor(names, texts, manner) {
    this.names = names;
    this.texts = texts;
    this.manner = manner;
  }

  show(day, talk) {
    if (talk.exchanges.length === 0)
      return [el("p.quiet", {}, "There is no conversation on record for this day.")];
    const tools = new Map();
    let before = [];
    return talk.exchanges.map((exchange, place) => {
      const fresh = [...exchange.sent];
      const isContinued = exchange.kept === before.length;
      // the reply that stands above already
      if (place > 0 && isContinued && isReply(fresh[0])) fresh.shift();
      before = [...before.slice(0, exchange.kept), ...exchange.sent];
      const next = talk.exchanges[place + 1];
      const sentBack =
        next && next.kept === before.length && isReply(next.sent[0]) ? next.sent[0] : null;
      noteCalls(tools, exchange.reply, sentBack);
      const number = place + 1;
      const branch =
        `Another conversation: it begins with ${count(exchange.kept, "message")} of ` +
        `the call before.`;
      return el(
        "section.call",
        {id: `call-${number}`, "aria-label": `Call ${number}`},
        this.heading(day, talk.exchanges, place),
        isContinued ? null : el("p.quiet", {}, branch),
        fresh.map((message) => this.message(message, tools)),
        this.reply(exchange, talk.submission, sentBack),
      );
    });
  }

  heading(day, exchanges, place) {
    const exchange = exchanges[place];
    const offered = exchange.tools.join(", ");
    const isNew = place === 0 || offered !== exchanges[place - 1].tools.join(", ");
    const tools = offered
      ? `, with ${offered}${exchange.tool_choice ? " forced" : " on offer"}`
      : ", without tools";
    return el(
      "h4",
      {},
      el("a", {href: `#day=${day}&call=${place + 1}`}, `Call ${place + 1}`),
      el("small", {}, ` of ${exchanges.length}`),
      exchange.role ? el("span.chip.role", {}, exchange.role.replaceAll("_", " ")) : null,
      el("small", {}, isNew || exchange.tool_choice ? tools : ""),
    );
  }

  message(message, tools) {
    const isShared = message.role === "system" && message.text !== undefined;
    const text = isShared ? this.texts[message.text] : message.content;
    const body = this.text(text);
    if (message.role === "system") {
      const size = el("small", {}, ` ${count(text.length, "letter")}`);
      return el(
        "details.turn.system",
        {open: this.manner.unfolded},
        el("summary", {}, ROLES.system, size),
        body.element,
      );
    }
    if (message.role === "tool") return this.toolResult(tools.get(message.tool_call_id), text, body);
    const calls = (message.tool_calls || []).map((call) => this.call(call, null));
    return this.turn(message.role, ROLES[message.role] || message.role, body, calls);
  }

  /** What a tool answered: long answers, such as tables, are folded; what failed is not. */
  toolResult(name, text, body) {
    const failure = member(member(parseJson(text), "error"), "kind");
    const chip =
      failure && failure.kind === "string" ? el("span.chip.bad", {}, failure.value) : null;
    const title = name ? `${name} answered` : ROLES.tool;
    if (chip || text.length <= SHORT_ANSWER) return this.turn("tool", [title, chip], body, null);
    return el(
      "details.turn.tool",
      {open: this.manner.unfolded},
      el("summary", {}, title, el("small", {}, ` ${count(text.length, "letter")}`)),
      body.button,
      body.element,
    );
  }

  turn(kind, title, body, more) {
    const head = el("div.turn-head", {}, el("h5", {}, title), body ? body.button : null);
    return el(`div.turn.${kind}`, {}, head, body ? body.element : null, more);
  }

  reply({error, reply}, submission, sentBack) {
    if (error) {
      return this.turn(
        "reply.trouble",
        ["The call failed", el("span.chip.bad", {}, error)],
        null,
        el(
          "p",
          {},
          "No reply came after as many attempts as the run makes, and nothing was scored as a " +
            "decision.",
        ),
      );
    }
    if (!reply) return this.turn("reply.trouble", "No reply is on record", null, null);
    const calls = reply.tool_calls || [];
    const end = UNUSUAL_ENDS[reply.finish_reason];
    const isEmpty = !reply.content.trim() && calls.length === 0;
    const title = [
      "Model",
      end ? el("span.chip.bad", {}, end) : null,
      el("small", {}, usageWords(reply)),
    ];
    return this.turn("reply", title, reply.content ? this.text(reply.content) : null, [
      reply.reasoning ? this.reasoning(reply.reasoning) : null,
      isEmpty ? el("p.quiet", {}, "An empty reply.") : null,
      calls.map((call) => this.call(call, submission)),
      sentBack ? this.withheld(reply, sentBack) : null,
    ]);
  }

  reasoning(text) {
    const body = this.text(text);
    const size = el("small", {}, ` ${count(text.length, "letter")}`);
    return el(
      "details.reasoning",
      {open: true},
      el("summary", {}, "Reasoning", size),
      body.button,
      body.element,
    );
  }

  call(call, submission) {
    const tree = parseJson(call.arguments.trim());
    const isBare = tree && tree.kind === "object" && tree.entries.length === 0;
    const isTaken = submission !== null && call.arguments === submission;
    const body = this.text(call.arguments);
    const title = [
      el("span.arrow", {"aria-hidden": "true"}, "→ "),
      "calls ",
      el("code", {}, call.name),
    ];
    if (isTaken) title.push(el("span.chip.good", {}, "taken"));
    if (!tree) title.push(el("span.chip.bad", {}, "no JSON"));
    return el(
      "div.tool-call",
      {},
      el("div.turn-head", {}, el("h5", {}, title), isBare ? null : body.button),
      isBare ? el("p.quiet", {}, "without arguments") : body.element,
    );
  }

  /**
   * What went back to the model instead of what it wrote: identities that the mask hides are
   * withheld from it.
   */
  withheld(reply, sent) {
    const pairs = [[reply.content, sent.content]];
    (reply.tool_calls || []).forEach((call, place) => {
      const other = (sent.tool_calls || [])[place];
      if (other)
        pairs.push([call.name, other.name], [call.arguments, other.arguments], [call.id, other.id]);
    });
    const changed = pairs.filter(([raw, back]) => raw !== back).map(([, back]) => back);
    if (changed.length === 0) return null;
    const mark = (place) => (place ? el("mark", {}, "[withheld]") : null);
    const marked = (text) => text.split("[withheld]").flatMap((part, place) => [mark(place), part]);
    return el(
      "div.withheld",
      {},
      el("h5", {}, "Sent back to the model with hidden identities withheld, as"),
      changed.map((text) => el("pre", {}, marked(text))),
    );
  }

  /**
   * {element, button}: a text made readable, and the switch to see it letter by letter; no switch
   * where nothing is arranged.
   */
  text(text) {
    const box = el("div.text", {});
    const letters = () => el("pre", {}, this.names.mark(text));
    if (!/[\n{[]| {2}/.test(text)) {
      fill(box, el("div.words", {}, this.names.mark(text)));
      return {element: this.fold(box, text), button: null};
    }
    let isVerbatim = this.manner.verbatim;
    const button = el(
      "button.small",
      {
        type: "button",
        "aria-pressed": String(isVerbatim),
        click: () => {
          isVerbatim = !isVerbatim;
          button.setAttribute("aria-pressed", String(isVerbatim));
          replace(box, isVerbatim ? letters() : readable(text, this.names));
        },
      },
      "Verbatim",
    );
    fill(box, isVerbatim ? letters() : readable(text, this.names));
    return {element: this.fold(box, text), button};
  }

  /**
   * Long texts are folded until they are asked for. By their letters: to measure them would lay the
   * whole day out at once.
   */
  fold(box, text) {
    const lines = text
      .split("\n")
      .reduce((sum, words) => sum + Math.max(1, Math.ceil(words.length / LINE)), 0);
    if (this.manner.unfolded || lines <= MOST_LINES) return box;
    box.classList.add("folded");
    const button = el(
      "button.small.unfold",
      {
        type: "button",
        click: () => {
          box.classList.remove("folded");
          button.remove();
        },
      },
      "Show all of it",
    );
    return el("div.fold", {}, box, button);
  }
}

const isReply = (message) => message !== undefined && message.role === "assistant";

/**
 * Remember which tool each call is of, also under the id that it was sent back with: an identity in
 * one is withheld.
 */
function noteCalls(tools, reply, sentBack) {
  const calls = (reply || {}).tool_calls || [];
  for (const call of calls) tools.set(call.id, call.name);
  ((sentBack || {}).tool_calls || []).forEach((call, place) => {
    if (calls[place]) tools.set(call.id, calls[place].name);
  });
}

function usageWords({usage, served_by: server}) {
  const words = [];
  if (usage) {
    const cached = usage.cache_read_tokens
      ? ` (${whole(usage.cache_read_tokens)} from the prompt cache)`
      : "";
    const thought = usage.reasoning_tokens
      ? ` (${whole(usage.reasoning_tokens)} of reasoning)`
      : "";
    words.push(
      `${whole(usage.input_tokens)} tokens in${cached}, ${whole(usage.output_tokens)} ` +
        `out${thought}`,
    );
  }
  if (server) words.push(`served by ${server}`);
  return words.length ? ` ${words.join(" · ")}` : "";
}

/**
 * Elements for a text: JSON in it is arranged where it is the whole text, a line, or a fenced
 * block; the rest stays as words.
 */
function readable(text, names) {
  const all = structure(text);
  if (all) return [showJson(all, names)];
  const parts = [];
  let plain = [];
  const flush = () => {
    const words = plain.join("\n").replace(/^\n+|\n+$/g, "");
    if (words) parts.push(el("div.words", {}, names.mark(words)));
    plain = [];
  };
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const isFence = /^\s*```/.test(lines[at]);
    const end = isFence
      ? lines.findIndex((line, place) => place > at && /^\s*```\s*$/.test(line))
      : -1;
    const tree = end > 0 ? structure(lines.slice(at + 1, end).join("\n")) : structure(lines[at]);
    if (tree) {
      flush();
      parts.push(showJson(tree, names));
      if (end > 0) at = end;
    } else {
      plain.push(lines[at]);
    }
  }
  flush();
  return parts;
}

/** The tree of a text that is one JSON object or list with something in it, or null. */
function structure(text) {
  const trimmed = text.trim();
  return trimmed.length > 2 && "{[".includes(trimmed[0]) ? parseJson(trimmed) : null;
}
