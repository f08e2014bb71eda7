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

  const show = () => shows.forEach((one) => one());
  // back and forward, an address typed in, a link to another view; not by set itself
  window.addEventListener("hashchange", show);

  return {
    get: (name) => decode(read().get(name) || ""),
    list: (name) => (read().get(name) || "").split(",").filter(Boolean).map(decode),
    set,
    link,
    onChange: (one) => shows.push(one),
  };
})();
