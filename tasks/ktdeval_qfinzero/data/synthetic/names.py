"""The invented companies and coins, and what distinguishes them. No name, ticker or business is meant to be anybody's."""

from __future__ import annotations

from typing import Literal, NamedTuple

Size = Literal["mega", "large", "mid", "thin"]
Role = Literal["plain", "split", "new", "acquired", "halted"]


class Stock(NamedTuple):
    """A company.

    Attributes:
        ticker, name, sector, business: what texts call it.
        price: dollars at the start.
        beta: exposure to the market.
        volatility: standard deviation of a day's return of its own.
        size: how much it is traded.
        yield_pct: dividends of a year in percent of the first price; 0 pays none.
        role: what happens to it; `role_at` says when, as a fraction of the days.
        new, old: terms of its split.
        hard_to_borrow: whether shares to sell short are few and dear.
    """

    ticker: str
    name: str
    sector: str
    business: str
    price: float
    beta: float
    volatility: float
    size: Size
    yield_pct: float = 0.0
    role: Role = "plain"
    role_at: float = 0.0
    new: int = 1
    old: int = 1
    hard_to_borrow: bool = False

    @property
    def optionable(self) -> bool:
        """Whether it may have options: no split, listing, bid or halt ever touches its contracts."""
        return self.role == "plain" and self.size in ("mega", "large")


class Coin(NamedTuple):
    """A coin: dollars at the start, exposure to the coins' common move, volatility of its own, mean number traded a day."""

    ticker: str
    name: str
    price: float
    beta: float
    volatility: float
    coins_a_day: float


STOCKS: tuple[Stock, ...] = (
    Stock("AVLN", "Avalon Systems", "technology", "cloud software", 224.0, 1.15, 0.012, "mega", 0.6),
    Stock("BRKT", "Bracket Corp", "industrials", "factory automation", 96.0, 1.05, 0.011, "large", 1.6),
    Stock("CSTL", "Castle Holdings", "financials", "asset management", 312.0, 1.10, 0.012, "large", 1.2, "split", 0.765, 2, 1),
    Stock("DUVN", "Duvane Foods", "consumer", "frozen foods", 38.0, 0.60, 0.013, "thin", 2.8),
    Stock("EMBQ", "Emberquay Robotics", "technology", "warehouse robots", 27.0, 1.45, 0.026, "mid", 0, "new", 0.30, 1, 1, True),
    Stock("FNXO", "Fennox Biologics", "health care", "gene therapies", 19.0, 1.10, 0.034, "thin", 0, "halted", 0.71, 1, 1, True),
    Stock("GYRM", "Gyrmont Logistics", "industrials", "freight brokerage", 54.0, 0.95, 0.014, "mid", 0, "acquired", 0.74),
    Stock("HXLV", "Hexalva Mining", "materials", "lithium mining", 3.1, 1.30, 0.033, "mid", 0, "split", 0.70, 1, 10, True),
    Stock("IVRD", "Iverdale Hardware", "consumer", "hardware stores", 187.0, 0.90, 0.012, "large", 1.5, "split", 0.40, 3, 2),
    Stock("JNQR", "Junquor Energy", "energy", "natural gas production", 61.0, 0.85, 0.015, "large", 3.4),
    Stock("KVLT", "Kavelt Semiconductor", "technology", "graphics chips", 141.0, 1.70, 0.020, "mega", 0.1),
    Stock("LORM", "Lormont Bank", "financials", "retail banking", 47.0, 1.10, 0.011, "mega", 2.7),
    Stock("MQVA", "Maquiva Pharma", "health care", "diabetes medicines", 118.0, 0.60, 0.012, "large", 2.1),
    Stock("NDRL", "Nederlo Retail", "consumer", "discount stores", 83.0, 0.70, 0.010, "large", 1.4),
    Stock("OVSK", "Ovaskar Oil", "energy", "oil refining", 109.0, 0.80, 0.013, "mega", 3.6),
    Stock("PLQN", "Polquin Motors", "consumer", "electric vehicles", 203.0, 1.80, 0.028, "mega"),
    Stock("QRDX", "Quardix Networks", "communications", "fibre networks", 72.0, 0.90, 0.012, "large", 2.2),
    Stock("RVNO", "Ravenor Air", "industrials", "passenger flights", 43.0, 1.30, 0.018, "large"),
    Stock("TMBQ", "Tambrique Media", "communications", "video streaming", 158.0, 1.20, 0.017, "large"),
    Stock("UXLR", "Uxlore Games", "communications", "video games", 66.0, 1.25, 0.021, "mid"),
    Stock("VZMR", "Vizmar Health", "health care", "hospital operation", 91.0, 0.75, 0.012, "mid", 1.1),
    Stock("WQLT", "Walquist Utilities", "utilities", "regulated power supply", 58.0, 0.45, 0.008, "mid", 3.9),
    Stock("XDRL", "Xandrel Water", "utilities", "water supply", 74.0, 0.40, 0.008, "thin", 2.6),
    Stock("YRLM", "Yarlmoor Packaging", "materials", "cardboard packaging", 51.0, 0.85, 0.012, "mid", 3.0),
    Stock("ZIMQ", "Zimquist Chemicals", "materials", "specialty chemicals", 127.0, 1.00, 0.013, "mid", 1.9),
    Stock("AQVD", "Aquavard Marine", "industrials", "container shipping", 34.0, 1.15, 0.022, "mid", 4.2),
    Stock("BLGV", "Bolgrave Insurance", "financials", "property insurance", 176.0, 0.65, 0.010, "mid", 1.7),
    Stock("CRVQ", "Crevaquel Apparel", "consumer", "sportswear", 88.0, 1.15, 0.017, "mid", 0.9),
    Stock("DWLM", "Dwulmar Realty", "real estate", "apartment rental", 64.0, 0.80, 0.011, "mid", 4.0),
    Stock("ELVQ", "Elvaquist Devices", "health care", "surgical instruments", 233.0, 0.85, 0.013, "mid", 0.7),
    Stock("FYLQ", "Fylquor Brewing", "consumer", "beer brewing", 49.0, 0.55, 0.011, "thin", 2.4),
    Stock("GUNQ", "Gunderquay Rail", "industrials", "rail freight", 207.0, 0.95, 0.010, "mid", 1.8),
    Stock("HLVQ", "Halverque Hotels", "consumer", "hotel operation", 113.0, 1.20, 0.014, "mid", 0.6),
    Stock("IOSK", "Ioskar Payments", "financials", "card payments", 79.0, 1.30, 0.018, "mid", 0, "plain", 0.0, 1, 1, True),
    Stock("JRNV", "Jarnvik Paper", "materials", "paper milling", 22.0, 0.80, 0.016, "thin", 3.3),
    Stock("KEVQ", "Kevanque Fusion", "energy", "grid batteries", 31.0, 1.50, 0.030, "mid", 0, "new", 0.80, 1, 1, True),
    Stock("LUNQ", "Lunaquist Labs", "health care", "laboratory testing", 134.0, 0.80, 0.012, "mid", 1.3),
    Stock("MYRQ", "Myrquil Data", "technology", "data centres", 97.0, 1.25, 0.016, "large", 2.0),
    Stock("NYMQ", "Nymquay Security", "technology", "network security", 146.0, 1.35, 0.020, "mid"),
    Stock("OSQL", "Osquale Offices", "real estate", "office rental", 29.0, 1.00, 0.017, "thin", 5.1, "plain", 0.0, 1, 1, True),
)  # fmt: skip

COINS: tuple[Coin, ...] = (
    Coin("BTCX", "Bitcrux", 44_000.0, 1.0, 0.012, 24_000.0),
    Coin("ETHV", "Ethervane", 2_350.0, 1.15, 0.016, 260_000.0),
    Coin("NEBQ", "Nebriq", 104.0, 1.4, 0.027, 2_900_000.0),
    Coin("ZENQ", "Zenquil", 14.5, 1.3, 0.034, 6_500_000.0),
)

SECTORS: tuple[str, ...] = tuple(dict.fromkeys(stock.sector for stock in STOCKS))


def stock_table(count: int) -> tuple[Stock, ...]:
    """The first companies of the table."""
    return STOCKS[:count]


def option_underlyings(count: int, stocks: tuple[Stock, ...]) -> tuple[Stock, ...]:
    """The first of them that may have options."""
    return tuple(stock for stock in stocks if stock.optionable)[:count]
