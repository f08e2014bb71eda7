// What pages of a board's site share beside the kit. Plain scripts, no modules, no build step: the
// site also works from file://.
//
// kt.page(async (main) => { … })
//     runs a page once the document is read; what it throws is shown through kt.fail
// kt.load("division/x/all")
//     Promise of data/division/x/all.js, each file asked for once; rejects when it is not there
// kt.cardText(id)
//     Promise of a card's file, byte for byte as it was submitted
// kt.address.model(name, {agent, division}), kt.address.card(id), kt.address.compare(a, b),
// kt.address.task(division), kt.address.board({division, …}), kt.address.market(snapshot)
// kt.modelLink(name, text, more), kt.cardLink(id, text), kt.compareLink(a, b, text)
//     links to these addresses
// kt.modelKey(name)
//     first 16 hex digits of the SHA-256 of a name: kt.load(`model/${kt.modelKey(name)}`)
// kt.rankRange(rank), kt.alphaRange(rank)
//     "3", or "1–4, 6" of a tie group: the rank by the division's figure, and by selection alpha
// kt.tieWords(rank)
//     "tied with the leader (not distinguishable)", or "tied with 17 others (not distinguishable)"
// kt.rankWords(rank)
//     "3 of 20", or "1–18 of 20, tied with the leader (not distinguishable)"
// kt.cutoffWord(cutoff), kt.isCutoffDay(cutoff)
//     a day, "nothing trained" or "not known"; whether it is a day
// kt.taskField(divisions, division)
//     a field with one of some divisions, which stands in the address
// kt.windowWords(window)
//     "W1 · 2024-01-02 to 2024-02-01"
// kt.fail(error)
//     replaces the page by a message
// kt.failedWords(card), kt.failedLine(card)
//     what failed, was repaired or was rejected, in a line, empty if nothing did; as a paragraph or null
// kt.state
//     what stands in the address after "#": see state.js
"use strict";

Object.assign(
  kt,
  (() => {
    const {el, byId, format, replace} = kt;

    const isCutoffDay = (cutoff) => /^\d/.test(cutoff || "");

    /* The end of training data as a word: a day, or one of two states that are never mixed. */
    const cutoffWord = (cutoff) =>
      cutoff === "none" ? "nothing trained" : isCutoffDay(cutoff) ? cutoff : "not known";

    /** Ranks that a card may have: entrants of one tie group share those of the group. */
    const rankRange = (rank) => rank.group_ranks;
    const alphaRange = (rank) => rank.alpha_group_ranks;

    /** Entrants whose daily returns don't differ significantly from those of a tied entrant. */
    function tieWords(row) {
      const leads = row.shared_rank === 1 && row.rank !== 1;
      const whom = leads ? "the leader" : kt.plural(row.tied_with, "other");
      return `tied with ${whom} (not distinguishable)`;
    }

    function rankWords(row) {
      const place = `${rankRange(row)} of ${row.of}`;
      return row.tied_with ? `${place}, ${tieWords(row)}` : place;
    }

    // -- data files: scripts, because a page of a file:// address may not fetch

    const waiting = new Map();
    const loads = new Map();

    window.ktdevalReceive = (name, content) => {
      const receive = waiting.get(name);
      if (receive) receive(content);
    };

    /** Long values come packed: JSON, through zlib, in base64. */
    window.ktdevalReceivePacked = (name, packed) => receiveText(name, kt.unpack(packed));

    /** Documents of a division come as their differences from one of them, the base. */
    window.ktdevalReceiveDelta = (name, base, packed) =>
      receiveText(
        name,
        Promise.all([load(base), kt.unpack(packed)]).then(([text, delta]) =>
          kt.restored(text, JSON.parse(delta)),
        ),
      );

    // Cards can be had as the texts that they are; other texts are not held twice.
    const texts = new Map();

    function receiveText(name, text) {
      if (name.startsWith("card/")) texts.set(name, text);
      window.ktdevalReceive(name, text.then(JSON.parse));
    }

    /** Text of a card as it was submitted, byte for byte. */
    /** What failed, was repaired or was rejected on a card, in a line; empty if nothing did. */
    function failedWords({kind, decisions, failures, orders, roles = []}) {
      const {fallback = 0, error = 0, model_after_retry: retried = 0} = decisions;
      const all = Object.values(decisions).reduce((sum, number) => sum + number, 0);
      const steps = kt.plural(all, kind === "scoring" ? "sample" : "step");
      const silent = roles.reduce((sum, role) => sum + (role.silent || 0), 0);
      const turns = roles.reduce((sum, role) => sum + (role.turns || 0), 0);
      const {count} = format;
      const kinds = Object.entries(failures).filter(
        ([kind, number]) => number && kind !== "silent_role",
      );
      const rejected = orders ? orders.rejected + orders.partially_filled : 0;
      const rules = Object.entries(orders?.rules || {}).map(([rule, n]) => `${rule} ${count(n)}`);
      const named = kinds.map(([kind, n]) => `${kt.kindLabel("failures", kind)} ${count(n)}`);
      const failed = kinds.reduce((sum, [, number]) => sum + number, 0);
      return [
        retried ? `${count(retried)} of ${steps} decided after a retry` : "",
        fallback + error ? `${count(fallback + error)} of ${steps} not decided` : "",
        silent ? `${count(silent)} of ${kt.plural(turns, "turn")} of roles without an answer` : "",
        failed ? `${kt.plural(failed, "failure")}: ${named.join(", ")}` : "",
        rejected
          ? `${count(rejected)} of ${kt.plural(orders.submitted, "order")} rejected or cut: ` +
            rules.join(", ")
          : "",
      ]
        .filter(Boolean)
        .join("; ");
    }

    /** `failedWords` as a paragraph; null if nothing failed. */
    function failedLine(card) {
      const words = failedWords(card);
      const lead = el("strong", "Failures and repairs: ");
      return words ? el("p.trouble", lead, words, ".") : null;
    }

    async function cardText(id) {
      const {card_length: length} = await load(`card/${id}`);
      const start = '{"card":'.length;
      return (await texts.get(`card/${id}`)).slice(start, start + length);
    }

    function load(name) {
      if (!loads.has(name)) {
        loads.set(
          name,
          new Promise((resolve, reject) => {
            const path = name.split("/").map(encodeURIComponent).join("/");
            const script = el("script", {src: `data/${path}.js`});
            const refuse = () =>
              reject(
                new Error(
                  `data/${path}.js can't be read; the board has no such page, or its site is not ` +
                    `whole`,
                ),
              );
            waiting.set(name, resolve);
            script.addEventListener("error", refuse);
            script.addEventListener("load", () => {
              script.remove();
              waiting.delete(name);
              refuse(); // without effect where the data have come
            });
            document.head.append(script);
          }),
        );
      }
      return loads.get(name);
    }

    // -- addresses

    const at = (page, values) => kt.state.link(page, values);
    const address = {
      model: (name, more) => at("model.html", {model: name, ...more}),
      card: (id) => at("card.html", {card: id}),
      compare: (a, b) => at("compare.html", {a, b}),
      task: (division) => at("task.html", {division}),
      market: (snapshot) => at("market.html", {snapshot}),
      board: (values) => at("index.html", values),
    };
    /**
     * A name that may go on in the next line after its slashes, dashes and low lines and before
     * its parameters, and not inside a word.
     */
    const breakable = (name) =>
      name.split(/(?<=[/_,-])|(?=[({@=])/).flatMap((part, at) => (at ? [el("wbr"), part] : [part]));
    const modelLink = (name, text, more) =>
      el("a", {href: address.model(name, more)}, breakable(text || name));
    const cardLink = (id, text) => el("a", {href: address.card(id)}, text || format.short(id));
    const compareLink = (a, b, text) =>
      el("a", {href: address.compare(a, b)}, text || "head-to-head");

    const windowWords = ({name, first, last}) => `${name} · ${first} to ${last}`;

    const taskField = (divisions, {id: value}) =>
      kt.state.choice({
        label: "Task",
        name: "division",
        options: divisions.map(({id, task, version, open_book: isOpen}) => [
          id,
          `${kt.words(task)}${isOpen ? " (open book)" : ""} · version ${version}`,
        ]),
        value,
      });

    // -- a page and its failure

    function fail(error) {
      const main = byId("content");
      main.removeAttribute("aria-busy");
      replace(
        main,
        el(
          "div.trouble",
          {role: "alert"},
          el(
            "p",
            el("strong", "This can't be shown. "),
            error instanceof Error ? error.message : String(error),
          ),
          el("p", el("a", {href: "index.html"}, "Go to the board")),
        ),
      );
    }

    function page(show) {
      const run = async () => {
        const main = byId("content");
        try {
          await show(main);
          main.removeAttribute("aria-busy");
        } catch (error) {
          fail(error);
        }
      };
      if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", run);
      else run();
    }

    document.addEventListener("DOMContentLoaded", () => {
      byId("skip").addEventListener("click", (event) => {
        event.preventDefault(); // the address holds the view and must not become "#main"
        byId("main").focus();
      });
      // On a narrow screen the row of pages scrolls: the page on show is in view.
      const tab = document.querySelector(".site-head [aria-current]");
      if (tab) tab.scrollIntoView({block: "nearest", inline: "center"});
    });

    return {
      page,
      load,
      cardText,
      address,
      modelLink,
      cardLink,
      compareLink,
      taskField,
      windowWords,
      tieWords,
      rankWords,
      rankRange,
      alphaRange,
      cutoffWord,
      isCutoffDay,
      failedWords,
      failedLine,
      fail,
    };
  })(),
);
