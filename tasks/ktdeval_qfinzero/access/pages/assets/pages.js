// The app: calls of the server's API, the token where one is needed, and which view is shown.
"use strict";

window.pages = (() => {
  const {el, byId, field, replace} = kt;
  const VIEWS = {
    "/playground": ["Playground", () => chats.view()],
    "/health": ["Health of data and services", () => health.view()],
  };
  const [title, view] = VIEWS[window.location.pathname] || VIEWS["/health"];

  // Kept here only: a page that is left or loaded again asks anew.
  let token = "";

  /** JSON of an answer. Throws an error with the server's own words, and its status. */
  async function ask(path, body, method = body === undefined ? "GET" : "POST") {
    const headers = {accept: "application/json"};
    if (token) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await fetch(path, {method, headers, body: body && JSON.stringify(body)});
    const value = await answer.json().catch(() => null);
    if (answer.ok) return value;

    const error = new Error(value?.error?.message || `status ${answer.status}`);
    error.status = answer.status;
    throw error;
  }

  const trouble = (error) => el("p.trouble", {role: "alert"}, String(error.message || error));

  /** What is done on a click or a form that is sent; what fails is said in a place. */
  const doing = (place, act) => async (event) => {
    event?.preventDefault();
    try {
      await act();
    } catch (error) {
      replace(place, trouble(error));
    }
  };

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
        el("h1", {}, title),
        el("form", {submit: give}, field("Token of this server", input), el("div.row", {}, el("button.small", {type: "submit"}, "Open"))),
        el("p.quiet", {}, "The server asks for a token. It stays in this page and is forgotten when you leave it."),
        isWrong ? el("p.trouble", {role: "alert"}, "This is not the server's token.") : null,
      );
      content.removeAttribute("aria-busy");
      input.focus();
    });
  }

  /** Draw the view, after the token where one is needed. */
  async function show() {
    const content = byId("content");
    document.title = title;
    for (;;) {
      try {
        replace(content, el("h1", {}, title), await view());
        break;
      } catch (error) {
        if (error.status !== 401) {
          replace(content, el("h1", {}, title), trouble(error));
          break;
        }
        await tokenGiven(content, token !== "");
      }
    }
    content.removeAttribute("aria-busy");
    window.dispatchEvent(new Event("hashchange"));
  }

  document.addEventListener("DOMContentLoaded", show);
  return {ask, doing};
})();
