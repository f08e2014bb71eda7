"""Articles about a company's own news, analysts, its dividends, splits, listing, halt and bid."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktdeval_qfinzero.data.rows import DividendRow, SplitRow
from ktdeval_qfinzero.data.synthetic.corporate import BID_PREMIUM, Life
from ktdeval_qfinzero.data.synthetic.grid import new_york, stream
from ktdeval_qfinzero.data.synthetic.happenings import ACTIONS, KINDS, Happening
from ktdeval_qfinzero.data.synthetic.names import Size, Stock
from ktdeval_qfinzero.data.synthetic.news_base import (
    Draft,
    Quotes,
    chief,
    choose,
    dollars,
    long_day,
    sentiment,
    short_day,
)
from ktdeval_qfinzero.data.synthetic.news_templates import PARTNERS, WORDINGS
from ktdeval_qfinzero.moments import MINUTE, moment_text

_AMOUNTS: dict[Size, float] = {"mega": 2.2e9, "large": 4.5e8, "mid": 9.0e7, "thin": 2.0e7}
_BIDDERS = ("Oakhollow Group", "Altamere Holdings", "Castellane Partners")


def happening_article(seed: int, stock: Stock, happening: Happening, quotes: Quotes) -> Draft | None:
    """The article about a piece of news, or about what an analyst did; None where there is no price to speak of yet."""
    last = float(quotes.before[stock.ticker][happening.row])
    if not np.isfinite(last):
        return None
    return _action(stock, happening, last) if happening.kind in ACTIONS else _news(seed, stock, happening, last)


def life_articles(seed: int, life: Life, quotes: Quotes) -> Iterator[Draft]:
    """Articles about what happens to a company's shares."""
    stock = life.stock
    for dividend in life.dividends:
        if dividend.declared_ns >= int(quotes.grid.open_ns[0]):
            yield _dividend(stock, dividend)
    for split in life.splits:
        yield _split(seed, stock, split)
        yield _split_day(stock, split)
    if life.first_row:
        yield _listing(stock, quotes, life.first_row)
    if life.halted_row is not None:
        yield from _halt(seed, life, quotes, life.halted_row)
    if life.bid_row is not None:
        yield from _bid(seed, life, quotes, life.bid_row)


def _news(seed: int, stock: Stock, happening: Happening, last: float) -> Draft:
    key = f"{happening.kind} {stock.ticker} {moment_text(happening.time_ns)}"
    rng = stream(seed, "news of", key)
    wording, kind = WORDINGS[happening.kind], KINDS[happening.kind]
    scale = 0.002 if happening.kind == "insider_buying" else 1.0
    slots = {
        "name": stock.name,
        "ticker": stock.ticker,
        "business": stock.business,
        "chief": chief(seed, stock.ticker),
        "amount": dollars(float(np.round(_AMOUNTS[stock.size] * scale * rng.uniform(0.4, 1.8), -4 if scale < 1 else -6))),
        "partner": choose(rng, PARTNERS),
        "percent": str(int(rng.integers(3, 12))),
        "years": str(int(rng.integers(2, 6))),
    }
    opening = choose(rng, wording.openings).format(**slots)
    return Draft(
        key=key,
        event_type="breaking_news",
        time_ns=happening.time_ns,
        importance=kind.importance,
        tickers=(stock.ticker,),
        title=choose(rng, wording.titles).format(**slots),
        description=opening,
        paragraphs=(
            opening,
            choose(rng, wording.remarks).format(**slots),
            f"{stock.name} is a company in the {stock.sector} sector known for {stock.business}. "
            f"Before the news its shares had last closed at {dollars(last)}.",
        ),
        keywords=wording.keywords,
        insights=((stock.ticker, sentiment(kind.size), wording.reasoning),),
    )


def _action(stock: Stock, happening: Happening, last: float) -> Draft:
    up = happening.shock.size > 0
    target, before = _target(happening.target * last), _target(happening.target_before * last)
    broker, name = happening.broker, stock.name
    rating = f"{happening.rating_before} to {happening.rating}"
    title = {
        "upgrade": f"{broker} upgrades {name} to {happening.rating}",
        "downgrade": f"{broker} downgrades {name} to {happening.rating}",
        "target_raised": f"{broker} raises {name} price target to {dollars(target)}",
        "target_cut": f"{broker} cuts {name} price target to {dollars(target)}",
    }[happening.kind]
    changes = happening.rating != happening.rating_before
    did = f"changed its rating of {name} ({stock.ticker}) from {rating}" if changes else (
        f"kept its {happening.rating} rating of {name} ({stock.ticker})"
    )  # fmt: skip
    reason = _reason(stock, up, target > last)
    return Draft(
        key=f"{happening.kind} {stock.ticker} {moment_text(happening.time_ns)} {broker}",
        event_type="analyst_action",
        time_ns=happening.time_ns,
        importance="medium" if changes else "low",
        tickers=(stock.ticker,),
        title=title,
        description=f"{broker} {did}; its price target goes from {dollars(before)} to {dollars(target)}.",
        paragraphs=(
            f"{broker} {did} and moved its price target from {dollars(before)} to {dollars(target)}.",
            f"In a note to clients its analyst points to {reason}. The shares last closed at {dollars(last)}, so that the "
            f"target is {abs(target / last - 1) * 100:.0f}% {'above' if target > last else 'below'} the price.",
        ),
        keywords=("analysts", happening.kind.replace("_", " ")),
        insights=((stock.ticker, sentiment(happening.shock.size), f"{broker} sees {reason}."),),
    )


def _reason(stock: Stock, up: bool, above: bool) -> str:
    """Why an analyst moved, in keeping with where the target lies."""
    if up:
        ending = "a share price that does not show them yet" if above else "a share price that shows most of them already"
        return f"better prospects in {stock.business} and {ending}"
    ending = "less room for the shares than before" if above else "a share price that leaves no room for it"
    return f"slower growth in {stock.business} and {ending}"


def _target(price: float) -> float:
    """Analysts round: to a dollar, below twenty dollars to half a one."""
    return round(price) if price >= 20 else round(price * 2) / 2


def _dividend(stock: Stock, dividend: DividendRow) -> Draft:
    amount = dollars(dividend.amount_e4 / 1e4)
    return Draft(
        key=f"dividend {stock.ticker} {dividend.ex_day}",
        event_type="daily_news",
        time_ns=dividend.declared_ns + 5 * MINUTE,
        importance="low",
        tickers=(stock.ticker,),
        title=f"{stock.name} declares quarterly dividend of {amount}",
        description=f"The shares trade without the dividend from {short_day(dividend.ex_day)} on.",
        paragraphs=(
            f"The board of {stock.name} ({stock.ticker}) has declared a quarterly dividend of {amount} a share.",
            f"It is paid on {long_day(dividend.pay_day)}. The shares trade without it from {long_day(dividend.ex_day)} on.",
        ),
        keywords=("dividend",),
        insights=((stock.ticker, "neutral", "A regular payment."),),
    )


def _terms(split: SplitRow) -> str:
    return f"{split.new}-for-{split.old} {'reverse ' if split.new < split.old else ''}stock split"


def _split(seed: int, stock: Stock, split: SplitRow) -> Draft:
    reverse = split.new < split.old
    why = (
        "A higher price for each share is meant to keep the listing in good standing and to draw institutions."
        if reverse
        else "A lower price for each share is meant to open the stock to more investors."
    )
    each = f"For each {split.old} shares held, investors will have {split.new}" if split.old > 1 else (
        f"For each share held, investors will have {split.new}"
    )  # fmt: skip
    return Draft(
        key=f"split {stock.ticker} {split.ex_day}",
        event_type="breaking_news",
        time_ns=split.announced_ns,
        importance="medium",
        tickers=(stock.ticker,),
        title=f"{stock.name} announces {_terms(split)}",
        description=f"The shares trade on the new basis from {short_day(split.ex_day)} on.",
        paragraphs=(
            f"{stock.name} ({stock.ticker}) will carry out a {_terms(split)}. {each} from the open of {long_day(split.ex_day)} on; "
            "the value of what they hold does not change by it.",
            f"{why} “It changes nothing in how we run the business,” said {chief(seed, stock.ticker)}, the chief executive.",
        ),
        keywords=("split",),
        insights=(
            (stock.ticker, "neutral" if reverse else "positive", "The number of shares changes, the company’s value does not."),
        ),
    )


def _split_day(stock: Stock, split: SplitRow) -> Draft:
    return Draft(
        key=f"split day {stock.ticker} {split.ex_day}",
        event_type="daily_news",
        time_ns=new_york(split.ex_day, 8),
        importance="low",
        tickers=(stock.ticker,),
        title=f"{stock.name} shares trade on a split basis from today",
        description=f"The {_terms(split)} takes effect at the open.",
        paragraphs=(
            f"Shares of {stock.name} ({stock.ticker}) trade on a split basis from today’s open. The {_terms(split)} was announced "
            "earlier; prices before today have to be read with that in mind.",
        ),
        keywords=("split",),
        insights=((stock.ticker, "neutral", "A technical change of the price."),),
    )


def _listing(stock: Stock, quotes: Quotes, row: int) -> Draft:
    close = float(quotes.close[stock.ticker][row])
    change = (close / stock.price - 1.0) * 100.0
    return Draft(
        key=f"listing {stock.ticker}",
        event_type="breaking_news",
        time_ns=int(quotes.grid.close_ns[row]) + 15 * MINUTE,
        importance="medium",
        tickers=(stock.ticker,),
        title=f"{stock.name} {'gains' if change > 0 else 'loses'} {abs(change):.0f}% in first session",
        description=f"Shares of {stock.name} were sold at {dollars(stock.price)} and closed at {dollars(close)}.",
        paragraphs=(
            f"Shares of {stock.name} ({stock.ticker}) closed their first session at {dollars(close)}. "
            f"They had been sold to investors at {dollars(stock.price)} the evening before.",
            f"The company is known for {stock.business}. Its first report as a listed company is still to come.",
        ),
        keywords=("listing", "ipo"),
        insights=((stock.ticker, sentiment(change, 0.5), "First session after the listing."),),
    )


def _halt(seed: int, life: Life, quotes: Quotes, row: int) -> Iterator[Draft]:
    stock, grid = life.stock, quotes.grid
    good = bool(life.shocks) and life.shocks[0].size > 0
    yield Draft(
        key=f"halt {stock.ticker}",
        event_type="breaking_news",
        time_ns=new_york(grid.days[row], 9),
        importance="high",
        tickers=(stock.ticker,),
        title=f"Trading in {stock.name} halted, news pending",
        description=f"The exchange has halted trading in {stock.ticker} before the open.",
        paragraphs=(
            f"The exchange halted trading in {stock.name} ({stock.ticker}) before today’s open at the company’s request.",
            "The company said it would publish results of a study and that trading would stay halted until then.",
        ),
        keywords=("halt",),
        insights=((stock.ticker, "neutral", "News is pending."),),
    )
    if row + 1 >= len(grid):
        return
    leader = chief(seed, stock.ticker)
    remark = f"“The data are as clear as we could hope for,” said {leader}." if good else f"“We are disappointed,” said {leader}."
    yield Draft(
        key=f"halt result {stock.ticker}",
        event_type="breaking_news",
        time_ns=new_york(grid.days[row], 18, 30),
        importance="high",
        tickers=(stock.ticker,),
        title=f"{stock.name} study {'meets' if good else 'misses'} its main goal; trading resumes tomorrow",
        description=f"A late-stage study of {stock.name} has {'met' if good else 'missed'} its main goal.",
        paragraphs=(
            f"{stock.name} ({stock.ticker}) said a late-stage study in {stock.business} had {'met' if good else 'missed'} "
            "its main goal.",
            f"{remark} Trading, halted for the whole of today’s session, resumes at the next open.",
        ),
        keywords=("halt", "study"),
        insights=((stock.ticker, sentiment(life.shocks[0].size), "Outcome of a late-stage study."),),
    )


def _bid(seed: int, life: Life, quotes: Quotes, row: int) -> Iterator[Draft]:
    stock, grid = life.stock, quotes.grid
    bidder = choose(stream(seed, "bidder", stock.ticker), _BIDDERS)
    offer = dollars(round(float(quotes.before[stock.ticker][row]) * (1.0 + BID_PREMIUM), 2))
    yield Draft(
        key=f"bid {stock.ticker}",
        event_type="breaking_news",
        time_ns=new_york(grid.days[row], 7),
        importance="high",
        tickers=(stock.ticker,),
        title=f"{bidder} to buy {stock.name} for {offer} a share",
        description=f"{bidder} offers {offer} in cash for each share of {stock.name}.",
        paragraphs=(
            f"{bidder}, which is privately held, has agreed to buy {stock.name} ({stock.ticker}) for {offer} a share in cash, "
            f"{BID_PREMIUM * 100:.0f}% above the last close.",
            "Both boards support the offer. The buyers expect to close within two months, after which the shares will be delisted.",
        ),
        keywords=("acquisition", "bid"),
        insights=((stock.ticker, "positive", "A cash offer well above the last price."),),
    )
    if life.last_row < len(grid) - 1:
        yield Draft(
            key=f"delisting {stock.ticker}",
            event_type="daily_news",
            time_ns=int(grid.close_ns[life.last_row]) + 40 * MINUTE,
            importance="medium",
            tickers=(stock.ticker,),
            title=f"{bidder} completes purchase of {stock.name}",
            description=f"Shares of {stock.name} traded for the last time today.",
            paragraphs=(
                f"{bidder} has completed its purchase of {stock.name} ({stock.ticker}). The shares traded for the last time today.",
                f"Holders receive the agreed {offer} in cash for each share.",
            ),
            keywords=("acquisition", "delisting"),
            insights=((stock.ticker, "neutral", "The shares are delisted."),),
        )
