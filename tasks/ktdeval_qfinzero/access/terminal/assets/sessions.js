// Opening a session, and the sessions of this page. Their workspaces are known to this page only:
// they are given back when it is left.

import {getSymbols, openWorkspace, dropWorkspace} from "./calls.js";
import {close, openSession} from "./broker.js";
import {daysLater, money, when} from "./format.js";
import {actButton, actOnce, errorLine, options, panel, redraw} from "./parts.js";
import {listedStocks, on, page, show} from "./state.js";

const {el, field} = kt;
const MOST_STOCKS = 500;
const DAYS_AT_FIRST = 14;

// -- opening

/** A workspace that no session has yet: it says where clocks start and which stocks are listed. */
const spare = {workspace: "", asOf: ""};

/** Opens a workspace at a moment, or takes the spare one, which may stand there already. */
async function takeWorkspace(asOf) {
  if (spare.workspace && (!asOf || asOf === spare.asOf)) return spare;
  const made = await openWorkspace(asOf);
  if (spare.workspace) await dropWorkspace(spare.workspace);
  spare.workspace = made.workspace_id;
  spare.asOf = made.as_of_ts;
  page.symbols = await getSymbols(spare.workspace);
  return spare;
}

const wordsOf = (text) =>
  text
    .toUpperCase()
    .split(/[\s,]+/)
    .filter(Boolean);

export function openPanel() {
  const error = errorLine();
  const fields = {
    asOf: el("input", {type: "text", id: "open-as-of", maxlength: "40", autocomplete: "off"}),
    end: el("input", {
      type: "text",
      id: "open-end",
      maxlength: "40",
      autocomplete: "off",
      required: true,
    }),
    frequency: el(
      "select",
      {id: "open-frequency"},
      options([
        ["1m", "minutes"],
        ["1d", "days"],
      ]),
    ),
    accountType: el(
      "select",
      {id: "open-account"},
      options([
        ["MARGIN", "margin"],
        ["CASH", "cash"],
      ]),
    ),
    stocks: el("input", {type: "text", id: "open-stocks", maxlength: "4000", autocomplete: "off"}),
    underlyings: el("input", {
      type: "text",
      id: "open-options",
      maxlength: "400",
      autocomplete: "off",
    }),
  };
  const listed = el("datalist", {id: "listed"});
  const fold = el("details.open", {open: true}, el("summary", {}, "Open a session"));
  const submit = el("button.small.send", {type: "submit", id: "open-send"}, "Open the session");

  const offerStocks = () =>
    kt.replace(
      listed,
      listedStocks().map((row) => el("option", {value: row.ticker}, row.name)),
    );
  on("sessions", offerStocks);

  /** Takes a spare workspace where there is none, and fills in what it says. */
  async function prepare() {
    await takeWorkspace(document.body.dataset.start || ""); // while the market trades
    if (!fields.asOf.value) fields.asOf.value = spare.asOf;
    if (!fields.end.value) fields.end.value = daysLater(spare.asOf, DAYS_AT_FIRST);
    if (!fields.underlyings.value)
      fields.underlyings.value = page.symbols.find((row) => row.has_options)?.ticker || "";
    offerStocks();
  }

  async function open() {
    const {workspace, asOf} = await takeWorkspace(fields.asOf.value.trim());
    const all = page.symbols.map((row) => row.ticker).slice(0, MOST_STOCKS);
    const stocks = wordsOf(fields.stocks.value);
    spare.workspace = "";
    try {
      await openSession({
        workspace,
        asOf,
        accountType: fields.accountType.value,
        frequency: fields.frequency.value,
        endTs: fields.end.value.trim(),
        stocks: stocks.length ? stocks : all,
        underlyings: wordsOf(fields.underlyings.value),
      });
    } catch (problem) {
      await dropWorkspace(workspace); // it may have an account of another type already
      throw problem;
    }
    fold.open = false;
    kt.byId("session-title").focus();
  }

  const form = el(
    "form",
    {
      "aria-label": "Open a session",
      submit: (event) => {
        event.preventDefault();
        actOnce(submit, error, open);
      },
    },
    el(
      "div.fields",
      {},
      field("Clock starts at", fields.asOf),
      field("Session ends at", fields.end),
      field("It ticks by", fields.frequency),
      field("Account", fields.accountType),
      field("Stocks (empty: all that are listed)", fields.stocks),
      field("Options on", fields.underlyings),
    ),
    el(
      "p.quiet",
      {},
      "The cash of an account is set by the server. Moments are of UTC unless they name a zone.",
    ),
    submit,
    error.element,
  );
  kt.fill(fold, form, listed);
  return {element: fold, prepare};
}

// -- the sessions of this page

export function listPanel() {
  const error = errorLine();
  const list = el("ul.sessions", {});
  const draw = () =>
    redraw(
      list,
      page.sessions.map((session) => itemOf(session, error)),
    );
  on("sessions", draw);
  on("account", draw);
  return panel("sessions", "Sessions", list, error.element);
}

function itemOf(session, error) {
  const isShown = session === page.active;
  const choose = kt.button(session.name, () => show(session), {
    class: "link",
    "aria-pressed": String(isShown),
    "data-key": `show ${session.number}`,
  });
  const drop = actButton("Close", () => close(session), error, {
    "aria-label": `Close ${session.name}`,
    "data-key": `close ${session.number}`,
  });
  const equity = money(session.account.equity, session.currency);
  const facts = `${when(session.clock)} · ${equity} · ${session.status.toLowerCase()}`;
  return el(
    isShown ? "li.chosen" : "li",
    {},
    el("div", {}, choose, el("div.quiet", {}, facts)),
    drop,
  );
}

/** Gives all workspaces of the page back when it is left for good. */
export function dropAllOnLeave() {
  window.addEventListener("pagehide", (event) => {
    if (event.persisted) return;
    const workspaces = page.sessions.map((session) => session.workspace);
    for (const workspace of [...workspaces, spare.workspace].filter(Boolean))
      dropWorkspace(workspace);
  });
}
