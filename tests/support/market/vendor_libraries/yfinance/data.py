"""Where `yfinance` keeps pages."""


class YfData:
    def cache_get(self) -> None: ...

    cache_get.cache_clear = lambda: None
