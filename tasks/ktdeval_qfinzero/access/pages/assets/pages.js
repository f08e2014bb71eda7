// What all pages of the server share: calls of its API, and the index.
"use strict";

window.pages = (() => {
  const {el, byId, replace, section} = kt;

  /** JSON of an answer. Throws an error with the server's own words. */
  async function ask(path, body, method = body === undefined ? "GET" : "POST") {
    const options = {method, headers: {accept: "application/json"}};
    if (body !== undefined) {
      options.headers["content-type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    const answer = await fetch(path, options);
    const value = await answer.json().catch(() => null);
    if (!answer.ok) throw new Error(value?.error?.message || `status ${answer.status}`);
    return value;
  }

  const trouble = (error) => el("p.trouble", {role: "alert"}, String(error.message || error));

  /** Content of the page; what fails is said on it. */
  async function show(draw) {
    const content = byId("content");
    try {
      replace(content, await draw());
    } catch (error) {
      replace(content, el("h1", {}, document.title), trouble(error));
    }
    content.removeAttribute("aria-busy");
  }

  const field = (label, control, classes = "") =>
    el(`label.field${classes}`, {}, el("span", {}, label), control);

  const table = (caption, heads, rows) =>
    kt.scroller(
      `Table: ${caption}`,
      el(
        "table.grid",
        {},
        el("caption", {}, caption),
        el("thead", {}, el("tr", {}, heads.map((head) => el("th", {scope: "col"}, head)))),
        el(
          "tbody",
          {},
          rows.map(([first, ...others]) =>
            el("tr", {}, el("th", {scope: "row"}, first), others.map((cell) => el("td", {}, cell))),
          ),
        ),
      ),
    );

  const ABOUT = {
    "/health": ["Health", "Data by day, freshness, checks, probes, news and the economic calendar."],
    "/playground": ["Playground", "Chat with a model that calls the tools; each chat is a run on disk."],
    "/terminal/": ["Terminal", "Broker terminal: charts, orders, positions."],
  };

  async function index() {
    const known = await ask("/");
    return [
      el("h1", {}, known.name),
      kt.facts([
        ["dataset", known.dataset.name],
        ["id", known.dataset.content_id.slice(0, 16)],
      ]),
      section(
        "Pages",
        el(
          "dl.terms",
          {},
          known.pages.map((path) =>
            el(
              "div",
              {},
              el("dt", {}, el("a", {href: path}, ABOUT[path]?.[0] || path)),
              el("dd", {}, ABOUT[path]?.[1] || ""),
            ),
          ),
        ),
      ),
      section(
        "For programs",
        el("p", {}, el("a", {href: known.openapi}, "OpenAPI document"), " · Model Context Protocol at ", el("code", {}, known.mcp)),
      ),
    ];
  }

  document.addEventListener("DOMContentLoaded", async () => {
    if (document.body.dataset.page === "index") await show(index);
    const known = await ask("/").catch(() => null);
    if (known?.pages.includes("/terminal/"))
      replace(byId("further"), el("a", {href: "/terminal/"}, "Terminal"));
  });

  return {ask, show, trouble, field, table};
})();
