// Broker terminal: puts its panels together, and asks for the server's token where it wants one.

import {accountPanel} from "./account.js";
import {useToken} from "./calls.js";
import {chainPanel} from "./chain.js";
import {chartPanel} from "./chart.js";
import {money, tone, whenWithWeekday} from "./format.js";
import {actOnce, errorLine, figure} from "./parts.js";
import {playPanel} from "./play.js";
import {dropAllOnLeave, listPanel, openPanel} from "./sessions.js";
import {on, page} from "./state.js";
import {tablesPanel} from "./tables.js";
import {ticketPanel} from "./ticket.js";
import {watchPanel} from "./watch.js";

const {el, byId, field, replace} = kt;
const NAME = "Broker terminal";

/** Name, clock and main figures of the session on show. */
function statusLine() {
  const title = el("h1.session", {id: "session-title", tabindex: "-1"}, NAME);
  const figures = el("dl.strip", {});
  const draw = () => {
    const session = page.active;
    replace(title, session ? session.name : NAME);
    document.title = session ? `${session.name} · ${NAME}` : NAME;
    if (!session) return replace(figures);
    const {account} = session;
    const cash = (value, signed) => money(value, account.base_currency, {signed});
    const pairs = [
      ["Clock", whenWithWeekday(session.clock), ""],
      ["Equity", cash(account.equity), ""],
      ["Profit and loss", cash(account.total_pnl, true), tone(account.total_pnl)],
      ["Buying power", cash(account.buying_power), ""],
    ];
    return replace(
      figures,
      pairs.map((pair) => figure(...pair)),
    );
  };
  for (const topic of ["sessions", "account", "market"]) on(topic, draw);
  return el("div.status", {}, title, figures);
}

/** A field for the server's token, shown where the server asks for it; kept in memory only. */
function tokenForm(retry) {
  const error = errorLine();
  const input = el("input", {type: "password", id: "token", autocomplete: "off", required: true});
  const use = async () => {
    useToken(input.value.trim());
    await retry();
    form.remove();
    byId("open-as-of").focus();
  };
  const form = el(
    "form.row",
    {
      "aria-label": "Token",
      submit: (event) => {
        event.preventDefault();
        actOnce(form, error, use);
      },
    },
    field("Token of the server (kept in this page's memory only)", input),
    el("button.small", {type: "submit"}, "Use it"),
    error.element,
  );
  return form;
}

async function start() {
  const opening = openPanel();
  const error = errorLine();
  const desk = el(
    "div.desk",
    {hidden: true},
    playPanel(),
    el("div.left", {}, listPanel(), watchPanel()),
    chartPanel(),
    chainPanel(),
    el("div.right", {}, ticketPanel(), accountPanel()),
    tablesPanel(),
  );
  on("sessions", () => {
    desk.hidden = !page.active;
  });
  const content = byId("content");
  const asking = el("div", {});
  replace(content, statusLine(), asking, error.element, opening.element, desk);
  try {
    await opening.prepare();
  } catch (problem) {
    if (problem.code === "unauthorized") {
      replace(asking, tokenForm(opening.prepare));
      byId("token").focus();
    } else error.show(problem);
  }
  content.removeAttribute("aria-busy");
}

dropAllOnLeave();
start();
