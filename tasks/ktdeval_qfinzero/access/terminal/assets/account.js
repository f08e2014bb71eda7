// Figures of the account on show.

import {money, tone} from "./format.js";
import {figure, panel} from "./parts.js";
import {on, page} from "./state.js";

const {el} = kt;

/** [term, value, signed] of an account. */
const figuresOf = (account) => [
  ["Equity", account.equity],
  ["Profit and loss", account.total_pnl, true],
  ["Cash", account.cash],
  ["Unsettled cash", account.unsettled_cash],
  ["Buying power", account.buying_power],
  ["Tied up by orders", account.reserved],
  ["Initial margin", account.initial_requirement],
  ["Maintenance margin", account.maintenance_requirement],
  ["Long value", account.long_value],
  ["Short value", account.short_value],
  ["Unrealized", account.unrealized_pnl, true],
  ["Realized", account.realized_pnl, true],
  ["Fees", account.fees],
  ["Interest and borrowing", account.interest + account.borrow_fees],
];

export function accountPanel() {
  const figures = el("dl.figures", {});
  const call = el("p.trouble", {role: "status", hidden: true});
  on("account", () => {
    const session = page.active;
    if (!session) return;
    const {account} = session;
    const amounts = figuresOf(account).map(([term, value, signed]) => {
      const text = money(value, account.base_currency, {signed});
      return figure(term, text, signed ? `.n${tone(value)}` : ".n");
    });
    kt.replace(figures, figure("Account", account.account_type.toLowerCase(), ".n"), amounts);
    const isCalled = account.margin_status === "MARGIN_CALL";
    call.hidden = !isCalled;
    const text = isCalled ? `Margin call: due at the close of ${account.margin_call_due}` : "";
    if (call.textContent !== text) kt.replace(call, text);
  });
  return panel("account", "Account", call, figures);
}
