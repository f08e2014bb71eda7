"""Documents of a source that comes in files."""

from __future__ import annotations

from pathlib import Path

from ktdeval.errors import UsageError
from ktdeval.market import NO_DOCUMENTS, Close, Documents, read_documents
from ktdeval_data.params import DocumentParams


def documents_of(params: DocumentParams) -> Documents:
    """Read the documents that `params` names; none without a file. Raises DataError as of `read_documents`, UsageError: entities
    without documents.
    """
    if params.documents is None:
        if params.entities is not None:
            raise UsageError("--entities are of documents; give --documents too")
        return NO_DOCUMENTS
    entities = None if params.entities is None else Path(params.entities)
    return read_documents(Path(params.documents), Close.parse(params.documents_close), entities)
