// The `kt` object that every page of the site shares. Plain scripts, no modules, no build step: the site also works from file://.
//
// kt.page(async (main) => { … })         runs a page once the document is read; what it throws is shown through kt.fail
// kt.load("division/x/all")              Promise of data/division/x/all.js, each file asked for once; rejects when it is not there
// kt.el("td.n", {title: "…"}, "text", …) an element with classes; children are nodes, texts, arrays. Texts stay texts: nothing
//                                        here makes markup of a string. An attribute that is a function is an event listener;
//                                        null, undefined and false are left out; `style` and on… are refused, as is an unsafe href
// kt.svg("path", {d: "…"}, …)            the same for drawings;   kt.replace(element, …children)   empties it first
// kt.section("Title", …children)         <section> with an <h2>;  kt.details("Summary", …children) a fold
// kt.facts([[term, value], …])           <dl> of facts; empty values are left out;  kt.tree(json)  any JSON, readable
// kt.scroller("name", …children)         a region that scrolls sideways, reachable by keyboard
// kt.format.value(number, unit, {signed, bare, digits})  "12.30 %", "1.52", "$0.0140"; null is "—"; bare leaves the unit out
// kt.format.cell(number, unit, reason, options)          the same as a node; "—" carries its reason as a title and for readers
// kt.format.percent(fraction, digits = 2, signed) .number(number, digits = 2, signed) .count(number) .short(cardId)
// kt.format.range(low, high, unit)       "−1.08 … 1.16 %";        kt.format.unit(unit)  for a heading, such as "%" or "/year"
// kt.format.list(["a", "b"])             "a, b";                  kt.plural(3, "window")  "3 windows";  kt.format.tie(1)  "A"
// kt.address.model(name, {agent, division}) .card(id) .compare(a, b) .task(division) .board({division, …}) .market(snapshot)
// kt.modelLink(name, text, more) kt.cardLink(id, text) kt.compareLink(a, b, text)        links to these addresses
// kt.modelKey(name)                      first 16 hex digits of the SHA-256 of a name: kt.load(`model/${kt.modelKey(name)}`)
// kt.cutoffWord(cutoff)                  a day, "nothing trained" or "not known"; kt.isCutoffDay(cutoff): whether it is a day
// kt.chip(text, kind, explanation)       kind: "", good, warn, bad; kt.tierChip(tier), kt.labelChip(label); kt.TIERS, kt.LABELS
// kt.notice(text)                        says something for a moment; kt.fail(error) replaces the page by a message
// kt.button(text, onClick, attributes), kt.copy(text, what), kt.download(fileName, text, type)
// kt.command(lines)                      lines of a shell with a button that copies them
// kt.theme.current() "light" or "dark" as shown; kt.theme.onChange(draw) is called after each change, to draw charts again
// kt.state                               what stands in the address after "#": see state.js
// kt.table, kt.controls                  tables and fields: see table.js and controls.js;    kt.charts   see charts.js
"use strict";

window.kt = (() => {
  const SAFE_ADDRESS = /^(https?:\/\/|mailto:|blob:|[^:]*$|[^:/?#]*[/?#])/i;

  // -- elements

  function adopt(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (typeof value === "function") element.addEventListener(name, value);
      else if (name === "style" || name.startsWith("on")) throw new Error(`attribute ${name} is not used on this site`);
      else if (name !== "href" || SAFE_ADDRESS.test(value)) element.setAttribute(name, value === true ? "" : String(value));
    }
    return fill(element, children);
  }

  function fill(element, children) {
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false || child === "") continue;
      element.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return element;
  }

  function el(description, attributes, ...children) {
    const [tag, ...classes] = description.split(".");
    const element = document.createElement(tag);
    if (classes.length) element.className = classes.join(" ");
    return adopt(element, attributes, children);
  }

  const svg = (tag, attributes, ...children) =>
    adopt(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  const byId = (id) => document.getElementById(id);

  function replace(element, ...children) {
    element.replaceChildren();
    return fill(element, children);
  }

  const section = (title, ...children) => el("section", {}, el("h2", {}, title), children);
  const details = (summary, ...children) => el("details", {}, el("summary", {}, summary), el("div.fold", {}, children));
  function scroller(name, ...children) {
    const region = el("div.scroll", {role: "region", tabindex: "0", "aria-label": name}, children);
    // More columns stand beyond the edge: the style says so until they are reached.
    const look = () => region.classList.toggle("cut", region.scrollLeft + region.clientWidth < region.scrollWidth - 2);
    region.addEventListener("scroll", look, {passive: true});
    new ResizeObserver(look).observe(region);
    return region;
  }
  const button = (text, onClick, attributes) => el("button", {type: "button", click: onClick, ...attributes}, text);

  function facts(pairs) {
    const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
    return el(
      "dl.facts",
      {},
      shown.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))),
    );
  }

  const words = (name) => name.replaceAll("_", " ");

  const isCutoffDay = (cutoff) => /^\d/.test(cutoff || "");

  /* The end of training data as a word: a day, or one of two states that are never mixed. */
  const cutoffWord = (cutoff) => (cutoff === "none" ? "nothing trained" : isCutoffDay(cutoff) ? cutoff : "not known");

  /** Any JSON as nested lists: what tasks and plugins put into their configs can't be known beforehand. */
  function tree(value) {
    if (value === null || value === undefined) return "—";
    if (typeof value === "number") return value.toLocaleString("en-US", {maximumFractionDigits: 15});
    if (typeof value !== "object") return typeof value === "boolean" ? (value ? "yes" : "no") : String(value);
    if (!Array.isArray(value)) return facts(Object.entries(value).map(([name, part]) => [words(name), tree(part)]));
    if (value.every((part) => part === null || typeof part !== "object") && value.join().length < 120)
      return value.map(tree).join(", ");
    return el(
      "ul.tree",
      {},
      value.map((part) => el("li", {}, tree(part))),
    );
  }

  // -- figures

  const NONE = "—";
  const NARROW = "\u202f";
  const known = (value) => typeof value === "number" && Number.isFinite(value);

  /** Written out: Intl would cost a long table a good part of its time. */
  function number(value, digits = 2, signed = false) {
    if (!known(value)) return NONE;
    const [whole, decimals] = Math.abs(value).toFixed(digits).split(".");
    const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (decimals ? `.${decimals}` : "");
    const isZero = !/[1-9]/.test(text);
    return `${isZero ? "" : value < 0 ? "−" : signed ? "+" : ""}${text}`;
  }

  const UNITS = {
    fraction: {digits: 2, scale: 100, sign: "%"},
    ratio: {digits: 2},
    index: {digits: 3},
    probability: {digits: 3},
    score: {digits: 3},
    "per year": {digits: 1, sign: "/year"},
    years: {digits: 1, sign: "years"},
    count: {digits: 0},
    usd: {digits: 4, before: "$"},
    days: {digits: 0, sign: "days"},
    tokens: {digits: 0, sign: "tokens"},
    times: {digits: 1, sign: "×"},
  };
  const isFraction = (unit) => /^fraction\b/.test(unit); // also "fraction of probes"
  const kindOf = (unit) =>
    isFraction(unit) ? UNITS.fraction : UNITS[String(unit || "").toLowerCase()] || {digits: 3, sign: unit || ""};

  function digitsOf(kind, figure) {
    if (kind.before) return figure === 0 ? 0 : Math.abs(figure) < 1 ? kind.digits : 2; // cents are too coarse below a dollar
    return kind.digits === 0 && !Number.isInteger(figure) ? 1 : kind.digits;
  }

  function value(figure, unit, {signed = false, bare = false, digits = null} = {}) {
    if (!known(figure)) return NONE;
    const kind = kindOf(unit);
    const scaled = figure * (kind.scale || 1);
    const text = number(scaled, digits ?? digitsOf(kind, scaled), signed);
    if (bare) return text;
    return `${kind.before || ""}${text}${kind.sign ? NARROW + kind.sign : ""}`;
  }

  function cell(figure, unit, reason, options) {
    if (known(figure)) return document.createTextNode(value(figure, unit, options));
    return el("span.none", {title: reason || "not defined"}, NONE, el("span.unseen", {}, ` ${reason || "not defined"}`));
  }

  const format = {
    value,
    cell,
    number,
    count: (figure) => number(figure, 0),
    percent: (fraction, digits = 2, signed = false) => value(fraction, "fraction", {digits, signed}),
    range: (low, high, unit, options) => `${value(low, unit, {...options, bare: true})} … ${value(high, unit, options)}`,
    unit: (unit) => kindOf(unit).before || kindOf(unit).sign || "",
    short: (id) => String(id || "").slice(0, 10),
    list: (items) => (items || []).join(", "),
    /** What low and high of some figures are, of the kinds that they have: a median of several episodes has no interval. */
    bounds: (kinds) => {
      const quartiles = kinds.filter((kind) => kind === "interquartile").length;
      return !quartiles ? "Interval" : quartiles === kinds.filter(Boolean).length ? "Interquartile range" : "Quartiles or interval";
    },
    tie: (group) => (group <= 26 ? String.fromCharCode(64 + group) : String(group)),
  };
  const plural = (n, one, many = `${one}s`) => `${number(n, 0)} ${n === 1 ? one : many}`;

  // -- data files: scripts, because a page of a file:// address may not fetch

  const waiting = new Map();
  const loads = new Map();

  window.ktdevalReceive = (name, content) => {
    const receive = waiting.get(name);
    if (receive) receive(content);
  };

  /** Long values come packed: JSON, through zlib, in base64. */
  window.ktdevalReceivePacked = (name, packed) => window.ktdevalReceive(name, unpack(packed));

  function unpack(packed) {
    const letters = atob(packed);
    const bytes = new Uint8Array(letters.length);
    for (let place = 0; place < letters.length; place += 1) bytes[place] = letters.charCodeAt(place);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  }

  function load(name) {
    if (!loads.has(name)) {
      loads.set(
        name,
        new Promise((resolve, reject) => {
          const path = name.split("/").map(encodeURIComponent).join("/");
          const script = el("script", {src: `data/${path}.js`});
          const refuse = () =>
            reject(new Error(`data/${path}.js can't be read; the board has no such page, or its site is not whole`));
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
  /** A name that may go on in the next line after its slashes, dashes and low lines, and not inside a word. */
  const breakable = (name) => name.split(/(?<=[/_-])/).flatMap((part, at) => (at ? [el("wbr"), part] : [part]));
  const modelLink = (name, text, more) => el("a", {href: address.model(name, more)}, breakable(text || name));
  const cardLink = (id, text) => el("a", {href: address.card(id)}, text || format.short(id));
  const compareLink = (a, b, text) => el("a", {href: address.compare(a, b)}, text || "head-to-head");

  // -- marks

  const TIERS = {
    unchecked: ["", "The board's check has not looked at this card yet; it is not ranked."],
    "self-reported": [
      "warn",
      "Valid and complete, but its records or its market are not at hand: the figures are the submitter's.",
    ],
    "re-executed": ["good", "Every figure follows from the recorded replies, executed again on the board's own market."],
    "re-run": ["good", "The board's maintainers ran the same plan themselves, too."],
  };
  const LABELS = {
    synthetic: ["", "The market is generated, not real; never compared with cards of real markets."],
    "never traded": ["warn", "None of its orders was filled, so its account stood still: listed, never ranked."],
    placebo: ["bad", "A market made so that there is nothing to select; never ranked."],
    limited: ["bad", "Episodes were cut short; never ranked."],
    incomplete: ["bad", "Planned episodes are missing."],
    "low coverage": ["bad", "The model decided fewer than 95 % of the planned steps."],
    "before cutoff": ["warn", "Every window lies in the model's training time: it may remember these days."],
    "spans cutoff": ["warn", "Figures pool days before and after the end of the model's training data: it may remember the former."],
    "price claimed": ["", "The price of the model's tokens is the submitter's; hold its day and source, on the card's page, against the provider's list."],
    "certificate claimed": ["warn", "The mask's certificate is the submitter's: this board has not verified the runs of its attacks."],
    "certificate verified": ["good", "This board has verified the runs of the attacks that the mask's certificate rests on."],
    "own key": ["bad", "The board did not draw this card's mask key, which could have been chosen for its luck; never ranked where the board draws keys."],
    "mask not certified": ["warn", "Identities are hidden, but no certificate shows that the model could not find them out."],
    "no adjustment factor": ["warn", "Adjusted prices were traded as they are."],
    "no entity list": ["warn", "Stocks are hidden, but no list names the products, persons and nicknames that tell them in the documents."],
  };
  const chip = (text, kind, explanation) => el(`span.chip${kind ? `.${kind}` : ""}`, {title: explanation || null}, text);
  const marked = (table, name) => chip(name, ...(Object.hasOwn(table, name) ? table[name] : ["", ""]));

  // -- what a page says

  let silence = 0;
  function notice(text) {
    const place = byId("notice");
    replace(place, text);
    window.clearTimeout(silence);
    silence = window.setTimeout(() => replace(place), 6000);
  }

  function fail(error) {
    const main = byId("content");
    main.removeAttribute("aria-busy");
    replace(
      main,
      el(
        "div.trouble",
        {role: "alert"},
        el("p", {}, el("strong", {}, "This can't be shown. "), error instanceof Error ? error.message : String(error)),
        el("p", {}, el("a", {href: "index.html"}, "Go to the board")),
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

  async function copy(text, what = "Link") {
    try {
      await navigator.clipboard.writeText(text);
      notice(`${what} copied.`);
    } catch {
      // the clipboard is not there without https, or not allowed
      const field = el("textarea.unseen", {"aria-hidden": "true", tabindex: "-1"});
      field.value = text;
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      notice(done ? `${what} copied.` : `Not allowed to copy: ${text}`);
    }
  }

  function download(fileName, text, type = "text/plain") {
    const link = el("a", {
      href: URL.createObjectURL(new Blob([text], {type: `${type};charset=utf-8`})),
      download: fileName,
      hidden: true,
    });
    document.body.append(link);
    link.click();
    link.remove();
    window.setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function command(lines) {
    const text = [lines].flat().join("\n");
    return el(
      "div.command",
      {},
      el("pre", {tabindex: "0", role: "region", "aria-label": "Command"}, text),
      button("Copy", () => copy(text, "Command"), {class: "small"}),
    );
  }

  // -- light and dark

  const THEMES = ["auto", "light", "dark"];
  const darkScreen = window.matchMedia("(prefers-color-scheme: dark)");
  const drawers = [];
  let chosen = "auto";
  try {
    const kept = window.localStorage.getItem("ktdeval-theme");
    if (THEMES.includes(kept)) chosen = kept;
  } catch {
    /* storage is not allowed: the theme is that of the system on each page */
  }
  const changed = () => drawers.forEach((draw) => draw());
  const theme = {
    current: () => (chosen === "auto" ? (darkScreen.matches ? "dark" : "light") : chosen),
    onChange: (draw) => drawers.push(draw),
    choose(name) {
      chosen = name;
      document.documentElement.dataset.theme = name;
      try {
        window.localStorage.setItem("ktdeval-theme", name);
      } catch {
        /* as above */
      }
      changed();
    },
  };
  document.documentElement.dataset.theme = chosen; // before the first paint
  darkScreen.addEventListener("change", () => chosen === "auto" && changed());

  function themeField() {
    const field = el(
      "select",
      {"aria-label": "Colours", change: () => theme.choose(field.value)},
      THEMES.map((name) => el("option", {value: name, selected: name === chosen}, name === "auto" ? "auto colours" : name)),
    );
    return field;
  }

  document.addEventListener("DOMContentLoaded", () => {
    replace(byId("theme"), themeField());
    byId("skip").addEventListener("click", (event) => {
      event.preventDefault(); // the address holds the view and must not become "#main"
      byId("main").focus();
    });
  });

  return {
    el,
    svg,
    byId,
    replace,
    section,
    details,
    facts,
    tree,
    words,
    cutoffWord,
    isCutoffDay,
    scroller,
    button,
    format,
    plural,
    known,
    load,
    address,
    modelLink,
    cardLink,
    compareLink,
    TIERS,
    LABELS,
    chip,
    tierChip: (name) => marked(TIERS, name),
    labelChip: (name) => marked(LABELS, name),
    page,
    fail,
    notice,
    copy,
    download,
    command,
    theme,
  };
})();
