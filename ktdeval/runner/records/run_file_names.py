"""File names in a run folder, either local or at a URL."""

from __future__ import annotations

LEDGER, ANSWERS, TRANSCRIPT, MARK = (
    "ledger.parquet",
    "answers.jsonl.zst",
    "transcript.jsonl.zst",
    "episode.json",
)
"""Files in the folder of a finished episode."""
JOURNAL = "journal.jsonl"  #: file of an unfinished episode
MANIFEST = "manifest.json"
#: file in the user's cache folder with replies that are shared between runs
REPLIES = "replies.sqlite"
CANARY = "canary.json"
CERTIFICATE = "certificate.json"  #: the run's certificate
ANCHORS = "anchors.jsonl"  #: chain of hashes over what the run recorded (`--anchor`)
#: folder for task files from outside packages, each named by its hash
TASK_FILES = "task-files"
#: decisions made outside ktdeval, as read by the model `declared/…`
DECLARED_FILE = "declared.json"
JUDGEMENT = "judge.json"  #: findings of `ktdeval judge` about the decisions in `DECLARED_FILE`
TEAR_SHEET = "tear-sheet.html"  #: report page about a judged account
CARDS = "cards"
EPISODES = "episodes"
#: folder for what agents keep in addition to their memory, such as program folders
AGENT_FILES = "files"

RUN_FILES = (MANIFEST, CANARY, CERTIFICATE, ANCHORS, DECLARED_FILE, JUDGEMENT, TEAR_SHEET)
"""Files at the top of a run folder, except call files. Code that writes another file there must add
the file's name here, since `ktdeval files check` reports every other file as an orphan.
"""
#: folders at the top of a run folder; the rule for `RUN_FILES` applies here too
RUN_FOLDERS = (CARDS, EPISODES, TASK_FILES, AGENT_FILES)
