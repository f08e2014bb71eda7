// What all pages of the server share: calls of its API, and the index.
"use strict";

window.pages = (() => {
  const {el, byId, field, replace, section} = kt;

  // Kept here only: a page that is left or loaded again asks anew.
  let token = "";

  /** Answer of the server. Throws an error with its own words, and its status. */
  async function answerTo(path, options = {}) {
    const headers = {...options.headers};
    if (token) headers.authorization = `Bearer ${token}`;
    const answer = await fetch(path, {...options, headers});
    if (answer.ok) return answer;

    const value = await answer.json().catch(() => null);
    const error = new Error(value?.error?.message || `status ${answer.status}`);
    error.status = answer.status;
    throw error;
  }

  /** JSON of an answer. */
  async function ask(path, body, method = body === undefined ? "GET" : "POST") {
    const options = {method, headers: {accept: "application/json"}};
    if (body !== undefined) {
      options.headers["content-type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    return (await answerTo(path, options)).json();
  }

  const trouble = (error) => el("p.trouble", {role: "alert"}, String(error.message || error));

  /** Wait for the token that the server asks for. `isWrong`: whether one was given before. */
  function tokenGiven(content, isWrong) {
    return new Promise((resolve) => {
      const input = el("input", {type: "password", autocomplete: "off", maxlength: "512", pattern: "[!-~]+", title: "visible ASCII characters", required: true});
      const give = (event) => {
        event.preventDefault();
        token = input.value.trim();
        resolve();
      };
      replace(
        content,
        el("h1", {}, document.title),
        el("form", {submit: give}, field("Token of this server", input), el("div.row", {}, el("button.small", {type: "submit"}, "Open"))),
        el("p.quiet", {}, "The server asks for a token. It stays in this page and is forgotten when you leave it."),
        isWrong ? el("p.trouble", {role: "alert"}, "This is not the server's token.") : null,
      );
      content.removeAttribute("aria-busy");
      input.focus();
    });
  }

  /** Content of the page, after the token where one is needed; what fails is said on it. */
  async function show(draw) {
    const content = byId("content");
    for (;;) {
      try {
        replace(content, await draw());
        break;
      } catch (error) {
        if (error.status !== 401) {
          replace(content, el("h1", {}, document.title), trouble(error));
          break;
        }
        await tokenGiven(content, token !== "");
      }
    }
    content.removeAttribute("aria-busy");
  }

  /** Server-sent events of a path, each as JSON, until one that `isLast`; goes on where a connection
      broke. Gives an object whose `close()` ends it. A browser's own EventSource sends no token. */
  function events(path, tell, isLast) {
    const stop = new AbortController();
    let seen = "";
    let isOver = false;

    function take(block) {
      for (const line of block.split("\n")) {
        if (line.startsWith("id: ")) seen = line.slice(4);
        if (line.startsWith("data: ") && !isOver) {
          const event = JSON.parse(line.slice(6));
          isOver = isLast(event);
          tell(event);
        }
      }
    }

    async function read() {
      const headers = seen ? {"last-event-id": seen} : {};
      const answer = await answerTo(path, {headers, signal: stop.signal});
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const {value, done} = await reader.read();
        if (done) return;
        text += value;
        const blocks = text.split("\n\n");
        text = blocks.pop();
        blocks.forEach(take);
      }
    }

    (async () => {
      while (!isOver && !stop.signal.aborted) {
        await read().catch((error) => {
          if (error.status) isOver = true; // the server refuses: asking again would not help
        });
        if (!isOver) await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    })();
    return {close: () => stop.abort()};
  }

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

  document.addEventListener("DOMContentLoaded", () => {
    if (document.body.dataset.page === "index") show(index);
  });

  return {answerTo, ask, events, show, trouble, table};
})();
