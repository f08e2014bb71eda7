"""Second computation of the nine published boards, independent of ktdeval and its plugins.

Only numpy, pandas, scipy, statsmodels and the standard library are imported. `compute.py` writes one JSON
file a board. Shares are fractions (0.05 is 5 %), money is in the board's currency, null is undefined.

Definitions
===========
Sharpe ratio
    Mean over standard deviation (divisor n-1) of the returns of a period, risk-free rate 0, times √252
    (US and A-shares) or √365 (coins). A NAV path begins with the start cash, so the first day counts.
interval95
    Ratio ± 1.96 errors of Mertens (2002): error² = (1 - skew·SR + (kurtosis - 1)/4·SR²) / (n - 1) a period.
psr0, dsr
    Bailey and López de Prado. DSR: the floor is best_of(N) × standard deviation of the N entrants' ratios.
    ceiling_by_spread is that floor, annual; ceiling_by_noise puts 1/√(n - 1) for the deviation.
max_drawdown
    Largest fall from a running peak over the peak; `money_drawdown` in USD, peak from 0.
declared (accounts)
    Cash + positions of the last row up to a day, valued at the files' last close of that day.
executed (accounts)
    The same actions at the honest price, under the venue's rules, with fees. An order that breaks a rule
    is cut to what is allowed (`refuse_whole_orders`: refused). Gap by cause, in this order: rows_left_out
    (abandoned rows and rounding of states), price, rules, fees; declared + causes = executed.
honest price
    US hourly: open of the bar at the stamp (stamps are starts). A-shares daily and coins: open of the day
    (rows have only a date). A-shares hourly: close of the bar at the stamp (stamps are ends).
rules, fees
    A-shares: T+1, lots of 100, STAR at least 200, ±10 % (STAR ±20 %) of the previous close, 5 bp on buys,
    15 bp on sales, at least CNY 5. US: whole shares, cash; 0.005 USD a share, at least 1 USD, at most 1 %.
    Coins: cash; 10 bp a side.
surviving chain
    A row begins from the latest row whose id is one less. The chain is what the last row follows from.
convention
    Price of a fill = change of cash / quantity; it matches a named price within 1e-4 + 0.0051/quantity.
    One fill may match several names.
t1_rows
    Sales of more than what was held at the start of the day and not yet sold.
known before
    agent-stock-benchmark: first commit of the file < entry day 20:00 UTC (the close of New York in summer;
    no short session lies in the period). Other boards: clocks inside the logs, see `log_scan`.
changed, targets, round_trip (agent-stock-benchmark costs)
    Three ways to trade the ladder: yesterday's grown holdings are changed into today's; the same without
    growth; opened at each entry and closed at each exit. Opening and closing at the ends are traded too.
cost ladder (accounts)
    Declared gain less 0, 1, 5, 10 bp of all money traded; break-even is gain over money traded.
random symbols, random names
    Chance that the same trades in randomly permuted symbols end as high. 199 draws, one seed.
"""
