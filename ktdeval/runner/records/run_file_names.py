"""Names of the files of a run folder, here or at a URL."""

from __future__ import annotations

LEDGER, ANSWERS, TRANSCRIPT, MARK = (
    "ledger.parquet",
    "answers.jsonl.zst",
    "transcript.jsonl.zst",
    "episode.json",
)
"""Files of a finished episode, in its folder."""
JOURNAL = "journal.jsonl"  #: file of an unfinished episode
MANIFEST = "manifest.json"
#: file in the user's cache folder with the replies that runs share
REPLIES = "replies.sqlite"
CANARY = "canary.json"
CERTIFICATE = "certificate.json"  #: certificate that a run was given
#: folder of task files that belong to no package, each named by its hash
TASK_FILES = "task-files"
#: decisions that were made elsewhere, as read by the model `declared/…`
DECLARED_FILE = "declared.json"
JUDGEMENT = "judge.json"  #: findings of `ktdeval judge` on the decisions in `DECLARED_FILE`
TEAR_SHEET = "tear-sheet.html"  #: page about a judged account
CARDS = "cards"
EPISODES = "episodes"
#: folder for what agents keep in addition to their memory, such as program folders
AGENT_FILES = "files"

RUN_FILES = (MANIFEST, CANARY, CERTIFICATE, DECLARED_FILE, JUDGEMENT, TEAR_SHEET)
"""Files at the top of a run folder, apart from those of calls. Code that writes another file there
must add its name: `ktdeval files check` calls every other file an orphan.
"""
#: folders at the top of a run folder, likewise
RUN_FOLDERS = (CARDS, EPISODES, TASK_FILES, AGENT_FILES)
