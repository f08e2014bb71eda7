// Elements of a page. Texts of models and submitters become text nodes, never markup.
//
// kt.el("td.n", {title: "…"}, "text", …), kt.el("td", "text", …)
//     an element with classes; attributes may be omitted; children are nodes, texts, arrays; null,
//     undefined and false are skipped. An attribute that is a function is an event listener.
//     `style`, on… and an unsafe href are refused.
// kt.svg("path", {d: "…"}, …)
//     the same for drawings
// kt.fill(element, …children), kt.replace(element, …children)
//     add children; replace them
// kt.section("Title", …children), kt.details("Summary", …children)
//     <section> with an <h2>; a fold
// kt.listed("ul.notes", [item, …])
//     a list; nothing where it is empty
// kt.field("Label", control, ".grow")
//     a control under its label
// kt.facts([[term, value], …])
//     <dl> of facts without empty values
// kt.tree(json)
//     any JSON, readable
// kt.scroller("name", …children)
//     a region that scrolls sideways, reachable by keyboard
// kt.button(text, onClick, attributes)
// kt.chip(text, tone, explanation), kt.labelChip(label), kt.tierChip(tier)
// kt.kindLabel("provenance", name), kt.kindMeaning("failures", name)
//     words of cards for who decided a step, and for what failed in it
// kt.unpack(packed)
//     Promise of a text that `pack` of the kit has packed
// kt.restored(base, delta)
//     the text whose differences from a base `text_deltas.py` of the kit has found
// kt.words(name), kt.wordOf("masks", name)
//     a name with spaces instead of low lines; its word of a group, if the group has one
// kt.inline("see [the rules](about.html) of `ktdeval`, {name}", {name: …})
//     a text of the site's own with links, code and values
// kt.loading("the decisions")
//     a place for what is still to come; paper says that it was not loaded
// kt.visible(text)
//     a text with marks for characters that are not seen; children of elements are made so

Object.assign(
  kt,
  (() => {
    const SAFE_ADDRESS = /^(https?:\/\/|mailto:|blob:|[^:]*$|[^:/?#]*[/?#])/i;

    // -- elements

    function adopt(element, attributes, children) {
      for (const [name, value] of Object.entries(attributes || {})) {
        if (value === null || value === undefined || value === false) continue;
        if (typeof value === "function") element.addEventListener(name, value);
        else if (name === "style" || name.startsWith("on"))
          throw new Error(`attribute ${name} is not used on this site`);
        else if (name !== "href" || SAFE_ADDRESS.test(value))
          element.setAttribute(name, value === true ? "" : String(value));
      }
      return fill(element, children);
    }

    // Directions, zero widths, soft hyphens and tags: what nobody sees, but what can turn a text
    // around, or hide a part of it. A narrow space (U+202F) is none of them.
    const UNSEEN =
      /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0]|[\u{e0000}-\u{e007f}]/gu;

    /** A text with a mark for each character that is not seen, as "⟨U+202E⟩". */
    const visible = (text) =>
      String(text).replace(UNSEEN, (one) => {
        const code = one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
        return `\u27e8U+${code}\u27e9`;
      });

    function fill(element, children) {
      for (const child of children.flat(Infinity)) {
        if (child === null || child === undefined || child === false || child === "") continue;
        element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
      }
      return element;
    }

    const isAttributes = (part) => part?.constructor === Object;

    function el(description, ...parts) {
      const [tag, ...classes] = description.split(".");
      const element = document.createElement(tag);
      if (classes.length) element.className = classes.join(" ");
      const attributes = isAttributes(parts[0]) ? parts.shift() : {};
      return adopt(element, attributes, parts);
    }

    const svg = (tag, attributes, ...children) =>
      adopt(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
    const byId = (id) => document.getElementById(id);

    function replace(element, ...children) {
      element.replaceChildren();
      return fill(element, children);
    }

    const section = (title, ...children) => el("section", el("h2", title), children);
    const details = (summary, ...children) =>
      el("details", el("summary", summary), el("div.fold", children));

    const listed = (description, items) =>
      items.length
        ? el(
            description,
            items.map((item) => el("li", item)),
          )
        : null;

    const field = (label, control, classes = "") =>
      el(`label.field${classes}`, el("span", label), control);

    function scroller(name, ...children) {
      const region = el("div.scroll", {role: "group", tabindex: "0", "aria-label": name}, children);
      // More columns stand beyond the edge: the style says so until they are reached.
      const look = () =>
        region.classList.toggle(
          "cut",
          region.scrollLeft + region.clientWidth < region.scrollWidth - 2,
        );
      region.addEventListener("scroll", look, {passive: true});
      new ResizeObserver(look).observe(region);
      return region;
    }

    const button = (text, onClick, attributes) =>
      el("button", {type: "button", click: onClick, ...attributes}, text);

    function facts(pairs) {
      const shown = pairs.filter(
        ([, value]) => value !== null && value !== undefined && value !== "" && value !== false,
      );
      return el(
        "dl.facts",
        shown.map(([term, value]) => el("div", el("dt", term), el("dd", value))),
      );
    }

    const words = (name) => name.replaceAll("_", " ");

    const wordOf = (group, name) => {
      const known = kt.values.words[group];
      return Object.hasOwn(known, name) ? known[name] : words(name);
    };

    function inline(text, values = {}) {
      return text.split(/(\[[^\]]+\]\([^)]+\)|`[^`]+`|\{\w+\})/).map((part) => {
        const link = /^\[(.+)\]\((.+)\)$/.exec(part);
        if (link) return el("a", {href: link[2]}, link[1]);
        if (part.startsWith("`")) return el("code", part.slice(1, -1));
        return part.startsWith("{") ? values[part.slice(1, -1)] : part;
      });
    }

    /**
     * Any JSON as nested lists: what tasks and plugins put into their configs can't be known
     * beforehand.
     */
    function tree(value) {
      if (value === null || value === undefined) return kt.values.words.undefined;
      if (typeof value === "number")
        return value.toLocaleString("en-US", {maximumFractionDigits: 15});
      if (typeof value !== "object")
        return typeof value === "boolean" ? (value ? "yes" : "no") : String(value);
      if (!Array.isArray(value))
        return facts(Object.entries(value).map(([name, part]) => [words(name), tree(part)]));
      if (
        value.every((part) => part === null || typeof part !== "object") &&
        value.join().length < 120
      )
        return value.map(tree).join(", ");
      return listed("ul.tree", value.map(tree));
    }

    /** A place for what is still to come. The browser's own print can't wait for it, and says so. */
    const loading = (what) =>
      el(
        "p.quiet.loading",
        el("span.on-screen", `Loading ${what}…`),
        el(
          "span.on-paper",
          `Not printed: ${what}, not loaded yet. The button “Print this page” loads them first.`,
        ),
      );

    // -- marks

    const chip = (text, tone, explanation) =>
      el(`span.chip${tone ? `.${tone}` : ""}`, {title: explanation || null}, text);

    function marked(marks, name) {
      if (!Object.hasOwn(marks, name)) return chip(name);
      const {tone, meaning, shown} = marks[name];
      return chip(shown || name, tone, meaning);
    }

    const labelChip = (name) => marked(kt.values.words.labels, name);
    // what readers see of a label, whose name is that of its JSON
    const labelText = (name) => kt.values.words.labels[name]?.shown || name;
    const tierChip = (name) => marked(kt.values.words.tiers, name);

    /** Name that readers see for a kind of `provenance` or `failures`. */
    function kindLabel(group, name) {
      const kinds = kt.values.words[group];
      return Object.hasOwn(kinds, name) ? kinds[name].label : words(name);
    }

    /** Meaning of a kind of `provenance` or `failures`; empty for a kind that is not known here. */
    function kindMeaning(group, name) {
      const kinds = kt.values.words[group];
      return Object.hasOwn(kinds, name) ? kinds[name].meaning : "";
    }

    // -- packed data

    function unpack(packed) {
      const letters = atob(packed);
      const bytes = new Uint8Array(letters.length);
      for (let place = 0; place < letters.length; place += 1)
        bytes[place] = letters.charCodeAt(place);
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      return new Response(stream).text();
    }

    /** Parts of a delta are texts, and runs of pieces of the base as [start, count]. */
    function restored(base, delta) {
      const pieces = base.split(",");
      const run = ([start, count]) => pieces.slice(start, start + count).join(",");
      return delta.map((part) => (typeof part === "string" ? part : run(part))).join(",");
    }

    return {
      el,
      svg,
      byId,
      fill: (element, ...children) => fill(element, children),
      replace,
      section,
      details,
      listed,
      field,
      scroller,
      button,
      facts,
      tree,
      words,
      wordOf,
      inline,
      loading,
      visible,
      chip,
      labelChip,
      labelText,
      tierChip,
      kindLabel,
      kindMeaning,
      unpack,
      restored,
    };
  })(),
);
