"""`ktdeval qfinzero data news-to-mongodb`: a dataset's news into a MongoDB server, for news too many for a file."""

from __future__ import annotations

from pathlib import Path

import click

from ktdeval_qfinzero.access.commands.options import mongodb_address
from ktdeval_qfinzero.data.folder import open_dataset
from ktdeval_qfinzero.data.mongo_news import open_mongo_news, write_mongo_news
from ktdeval_qfinzero.data.stores import Page, Span, Tags

_ALWAYS = 2**62
_EVERYTHING = 10_000_000


@click.command("news-to-mongodb")
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@click.argument("variable", metavar="NAME")
@click.option("--replace", "is_replaced", is_flag=True, help="articles that are stored with other content are replaced")
def news_to_mongodb(folder: Path, variable: str, is_replaced: bool) -> None:
    """Copy the news of a dataset into a MongoDB server.

    FOLDER is a dataset's; NAME an environment variable with a mongodb:// address, which may hold a password. Articles that are
    there already are passed over, so that the command can be run again after an update, or after a broken connection.
    """
    rows = open_dataset(folder).news.news(Span(0, _ALWAYS), Tags(), Page(_EVERYTHING), _ALWAYS)
    store = open_mongo_news(mongodb_address(variable))
    try:
        written = write_mongo_news(store, rows, replace=is_replaced)
    finally:
        store.close()
    click.echo(f"{written.new} articles added, {written.same} were there, {written.replaced} replaced")
