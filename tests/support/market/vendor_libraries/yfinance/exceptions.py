"""Errors of `yfinance`."""


class YFException(Exception): ...


class YFDataException(YFException): ...


class YFTzMissingError(YFException): ...


class YFPricesMissingError(YFException): ...


class YFRateLimitError(YFException):
    def __init__(self) -> None:
        super().__init__("Too Many Requests. Rate limited. Try after a while.")
