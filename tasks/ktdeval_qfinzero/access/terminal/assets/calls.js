// HTTP calls of the page. Each acts on a workspace, whose id travels in a header. The token of the
// server, where it asks for one, is kept in this module only.

import {during} from "./busy.js";

const WORKSPACE = "Qfinzero-Workspace";
const PAGE_ROWS = 1000;
const CHAIN_ROWS = 10_000; // a page of a chain: each page costs as much as the whole
let token = "";

/** A call that the server refused, or did not answer. `message` is one line. */
class Refusal extends Error {
  constructor(status, {code, message, field}) {
    super(field ? `${field}: ${message}` : message);
    this.status = status;
    this.code = code;
  }
}

export const useToken = (text) => {
  token = text;
};

function headersOf(workspace, hasBody) {
  const headers = {accept: "application/json"};
  if (workspace) headers[WORKSPACE] = workspace;
  if (hasBody) headers["content-type"] = "application/json";
  if (token) headers.authorization = `Bearer ${token}`;
  return headers;
}

function addressOf(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const parameters = new URLSearchParams(given);
  return given.length ? `${path}?${parameters}` : path;
}

async function answerTo(method, path, {workspace = "", query = {}, body = null} = {}) {
  let answer;
  try {
    answer = await fetch(addressOf(path, query), {
      method,
      headers: headersOf(workspace, body !== null),
      body: body === null ? null : JSON.stringify(body),
    });
  } catch {
    throw new Refusal(0, {code: "unreachable", message: "the server does not answer"});
  }
  const value = await answer.json().catch(() => null);
  if (answer.ok && value !== null) return value;
  throw new Refusal(answer.status, value?.error || {message: `status ${answer.status}`});
}

const send = (method, path, given) => during(answerTo(method, path, given));
const get = (path, workspace, query) => send("GET", path, {workspace, query});
const post = (path, workspace, body) => send("POST", path, {workspace, body});

/** All rows of an operation that answers in pages. */
async function allRows(path, workspace, query, name) {
  const rows = [];
  let cursor = null;
  do {
    const answer = await get(path, workspace, {limit: PAGE_ROWS, ...query, cursor});
    rows.push(...answer[name]);
    cursor = answer.next_cursor;
  } while (cursor);
  return rows;
}

// -- workspaces, and what the terminal adds to them

export const openWorkspace = (asOf) => post("/workspaces", "", asOf ? {as_of_ts: asOf} : {});

/** Gives a workspace back, also while the page is being left. */
export const dropWorkspace = (workspace) =>
  during(
    fetch(`/workspaces/${encodeURIComponent(workspace)}`, {
      method: "DELETE",
      headers: headersOf("", false),
      keepalive: true,
    }).catch(() => null),
  );

export const openBranch = (workspace, asOf) =>
  post("/terminal/branches", workspace, {as_of_ts: asOf});
export const getLineage = (workspace) => get("/terminal/lineage", workspace);
export const previewOrder = (session, order) =>
  post("/terminal/preview", session.workspace, {...idsOf(session), order});

// -- the broker

const idsOf = (session) => ({session_id: session.sessionId, account_id: session.accountId});
const ofAccount = (session, what) => `/v1/accounts/${session.accountId}/${what}`;
const ofSession = (session, what) => `/v1/sessions/${session.sessionId}/${what}`;

export const createAccount = (workspace, accountType) =>
  post("/v1/accounts", workspace, {account_type: accountType});
export const createSession = (workspace, terms) => post("/v1/sessions", workspace, terms);
export const listAccounts = (workspace) => get("/v1/accounts", workspace);
export const getAccount = (session) => get(`/v1/accounts/${session.accountId}`, session.workspace);
export const getSession = (workspace, id) => get(`/v1/sessions/${id}`, workspace);
export const getPositions = async (session) =>
  (await get(ofAccount(session, "positions"), session.workspace)).positions;
export const getOrders = (session) =>
  allRows(ofAccount(session, "orders"), session.workspace, {}, "orders");
export const getTrades = (session) =>
  allRows(ofAccount(session, "trades"), session.workspace, {}, "trades");
export const getMarket = (session) => get(ofSession(session, "market"), session.workspace);

/** Goes forward. `distance`: {step} in ticks, or {until_ts}. */
export const stepSession = (session, distance) =>
  post(ofSession(session, "step"), session.workspace, distance);
export const stopSession = (session) => post(ofSession(session, "stop"), session.workspace, {});

export const placeOrder = (session, order) =>
  post("/v1/orders", session.workspace, {...idsOf(session), order});
export const cancelOrder = (session, orderId) =>
  post(`/v1/orders/${orderId}/cancel`, session.workspace, idsOf(session));
export const getLog = (session, cursor, limit) =>
  get("/v1/log", session.workspace, {cursor, limit});

// -- prices

export const getSymbols = (workspace) =>
  allRows("/symbols", workspace, {asset_class: "stock"}, "symbols");

/** Last complete day with prices of options; undefined where there is none yet. */
export async function getOptionDay(workspace) {
  const {sources} = await get("/health/freshness", workspace);
  return sources.option_daily?.latest_date;
}

export const getDays = async (workspace, query) =>
  (await get("/stock/daily", workspace, query)).bars;
export const getMinutes = async (workspace, query) => (await get("/stock", workspace, query)).bars;
export const getChain = (workspace, query) =>
  allRows("/option/chain_query", workspace, {limit: CHAIN_ROWS, ...query}, "contracts");
