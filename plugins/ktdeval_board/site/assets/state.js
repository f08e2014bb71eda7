// What a page shows stands in its address after "#", so that a link keeps the view and the
// browser's back button works: #division=blinded&scope=W1&sort=-alpha&model=a,b
//
// kt.state.get("sort")
//     a value, or "" where there is none
// kt.state.list("model")
//     a list, [] where there is none
// kt.state.set({sort: "-alpha", q: ""}, {replace: true})
//     changes these and leaves the others; "", null and [] take a name out. `replace` makes no new
//     step for the back button (typing). Calls what onChange was given.
// kt.state.choice({label, name, options, value, also: {day: ""}})
//     a field of one value of the address, set to `value`; a choice also sets what is in `also`
// kt.state.clear(["q", …])
//     takes these out
// kt.state.sortOf(columns, first), kt.state.sort(now, {key, better}, how)
//     the order in the address, {key, descending}, of one of some columns or of the first; the one
//     after a click on a column: the other way, or the better values first
// kt.state.onChange(show)
//     called after each change: by set, by back and forward, by an address typed in
// kt.state.link("compare.html", {a: id, b: id})
//     the address of a view
"use strict";

kt.state = (() => {
  const shows = [];
  const encode = (text) => encodeURIComponent(text).replaceAll("%2F", "/").replaceAll("%3A", ":");

  function decode(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text; // a lone "%", typed by hand
    }
  }

  function read() {
    const raw = new Map();
    for (const part of location.hash.slice(1).split("&")) {
      const cut = part.indexOf("=");
      if (cut > 0) raw.set(decode(part.slice(0, cut)), part.slice(cut + 1));
    }
    return raw;
  }

  const isEmpty = (value) =>
    value === null ||
    value === undefined ||
    value === "" ||
    value === false ||
    (Array.isArray(value) && !value.length);
  const write = (value) =>
    Array.isArray(value) ? value.map(encode).join(",") : encode(String(value));
  const join = (raw) => [...raw].map(([name, text]) => `${encode(name)}=${text}`).join("&");

  function link(page, values) {
    const raw = Object.entries(values || {})
      .filter(([, value]) => !isEmpty(value))
      .map(([name, value]) => [name, write(value)]);
    return raw.length ? `${page}#${join(raw)}` : page;
  }

  function set(changes, {replace = false} = {}) {
    const raw = read();
    for (const [name, value] of Object.entries(changes)) {
      if (isEmpty(value)) raw.delete(name);
      else raw.set(name, write(value));
    }
    const hash = `#${join(raw)}`;
    if (hash !== (location.hash || "#"))
      history[replace ? "replaceState" : "pushState"](null, "", hash);
    show();
  }

  function choice({label, name, options = [], value, also = {}}) {
    const onChange = (chosen) => set({[name]: chosen, ...also});
    const field = kt.controls.choice({label, options, onChange});
    if (value !== undefined) field.set(value);
    return field;
  }

  const clear = (names) => set(Object.fromEntries(names.map((name) => [name, ""])));

  function sortOf(columns, first) {
    const asked = get("sort");
    const key = asked.replace(/^-/, "");
    return columns.some((one) => one.sorts && one.key === key)
      ? {key, descending: asked.startsWith("-")}
      : {key: first, descending: false};
  }

  function sort(now, {key, better}, {replace = false, ...also} = {}) {
    const descending = now.key === key ? !now.descending : better === "higher";
    const isFirst = key === "rank" && !descending;
    set({sort: isFirst ? "" : `${descending ? "-" : ""}${key}`, ...also}, {replace});
  }

  const get = (name) => decode(read().get(name) || "");
  const show = () => shows.forEach((one) => one());
  // back and forward, an address typed in, a link to another view; not by set itself
  window.addEventListener("hashchange", show);

  return {
    get,
    list: (name) => (read().get(name) || "").split(",").filter(Boolean).map(decode),
    set,
    link,
    choice,
    clear,
    sortOf,
    sort,
    onChange: (one) => shows.push(one),
  };
})();
