"""Names of the files of a run folder, here or at a URL."""

from __future__ import annotations

LEDGER, ANSWERS, TRANSCRIPT, MARK = (
    "ledger.parquet",
    "answers.jsonl.zst",
    "transcript.jsonl.zst",
    "episode.json",
)
"""Files of a finished episode, in its folder."""
JOURNAL = "journal.jsonl"  #: Of an unfinished one
MANIFEST = "manifest.json"
#: File in the user's cache folder with the replies that runs share
REPLIES = "replies.sqlite"
CANARY = "canary.json"
CERTIFICATE = "certificate.json"  #: The certificate that a run was given
#: Folder of the task files that belong to no package, each named by its hash
TASK_FILES = "task-files"
#: Decisions that were made elsewhere, as the model `declared/…` read them
DECLARED_FILE = "declared.json"
CARDS = "cards"
EPISODES = "episodes"
AGENT_FILES = (
    "files"  #: Folder of what agents keep beside their memory, such as folders of programs
)
