"""A maintainer who forges a finished test, and makes everything anew that depends on what he changed:
commitments, links, git history, publications, and stamps as far as an authority gives any.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ktdeval.registry import Plugins
from ktdeval.runner import plan_trust
from ktdeval.values import (
    decode_json,
    dumps_canonical,
    encode_canonical,
    from_plain,
    sha256_hex,
    to_object,
)
from ktdeval_live.checks.chain_coverage import begun_files
from ktdeval_live.checks.verification import LiveVerification, verify_test
from ktdeval_live.days.market_increments import Increment
from ktdeval_live.days.market_sessions import Schedule
from ktdeval_live.plan import LivePlan
from ktdeval_live.publication.publish_chain import Publication, begin_repository, publications
from ktdeval_live.publication.time_stamps import stamp_head, stamp_sha256
from ktdeval_live.record.chain import NOTHING_BEFORE, Entry as Link
from ktdeval_live.record.decision_records import DecisionRecord
from ktdeval_live.record.entrant_episode import EntrantMarket
from ktdeval_live.record.folder import LiveFolder, write_plan
from ktdeval_live.results.settled_cards import settle_test, write_cards

Plain = dict[str, Any]
Change = Callable[[Plain], None]


class Forger:
    """A copy of a test, its links and records as plain values that may be changed."""

    def __init__(self, path: Path, plugins: Plugins, now: datetime) -> None:
        self.path = path
        self.plugins = plugins
        self.now = now  #: when he forges; an authority stamps by its own clock
        folder = LiveFolder(path)
        chain = folder.chain()
        self.links: list[Plain] = [to_object(link) for link in chain.entries]
        self._first_links = list(self.links)  # so that no other link gets one's id
        by_hash = {link.hash: plain for link, plain in zip(chain.entries, self.links, strict=True)}
        #: links with the data that decisions name, by the decisions' place in memory
        self.shown: dict[int, Plain] = {}

        for link in self.links:
            if link["body"]["kind"] == "decided":
                self.shown[id(link)] = by_hash[link["body"]["data"]]

        #: publications, each with the link that it ends with
        self.published: list[tuple[Plain, Plain]] = []
        for one in publications(folder):
            self.published.append((to_object(one), self.links[one.seq]))

    # --- what there is

    def link(self, kind: str, **fields: object) -> Plain:
        """Return the first link of a kind whose body has some fields."""
        wanted = {"kind": kind, **fields}
        return next(link for link in self.links if wanted.items() <= link["body"].items())

    def decided(self, day: str, entrant: str = "chance", market: str = "us") -> Plain:
        """Return the link of a decision."""
        return self.link("decided", entrant=entrant, market=market, day=day)

    # --- changes, with the hashes next to them

    def edit_json(self, name: str, change: Change) -> None:
        """Change a file of JSON, as nobody would write it."""
        path = self.path / name
        value = json.loads(path.read_text("utf-8"))
        change(value)
        path.write_text(dumps_canonical(value), "utf-8")

    def edit_record(self, day: str, change: Change, entrant: str = "chance") -> None:
        """Change a record; the commitment to it is made anew with the chain."""
        self.edit_json(f"records/{entrant}/us/{day}.json", change)

    def edit_increment(self, day: str, change: Change, market: str = "us", number: int = 0) -> None:
        """Change an increment, and its hash in the chain; a later one revises what it is now."""
        name = f"data/{market}/{day}-{number}.json"
        self.edit_json(name, change)
        link = self.link("frozen", market=market, day=day, number=number)
        revises = decode_json((self.path / name).read_bytes(), Increment, name).hash
        link["body"]["increment"] = revises

        if (self.path / f"data/{market}/{day}-{number + 1}.json").is_file():
            self.edit_increment(day, lambda one: one.update(revises=revises), market, number + 1)

    def edit_plan(self, change: Change) -> None:
        """Change the plan, with its hash and the identities of its systems."""
        self._edit_beginning("plan.json", change, LivePlan)

    def edit_schedule(self, market: str, change: Change) -> None:
        """Change the sessions of a market, with their hash."""
        self._edit_beginning(f"schedules/{market}.json", change, Schedule)

    def _edit_beginning(self, name: str, change: Change, form: Any) -> None:
        value = json.loads((self.path / name).read_text("utf-8"))
        change(value)
        write_plan(self.path / name, from_plain(value, form, name))
        self.renew_beginning()

    def renew_beginning(self) -> None:
        """Work out what the first link states."""
        folder = LiveFolder(self.path)
        plan = folder.begun_plan
        systems = {}

        for entrant, market in plan.entries():
            entry = EntrantMarket(plan, entrant, market)
            spec = entry.spec(folder.base(market), entry.config(), self.plugins)
            systems[entry.name] = spec.id

        schedules = {}
        for name in plan.markets:
            schedules[name] = sha256_hex(encode_canonical(folder.schedule(name)))

        base = {name: folder.base(name).id for name in plan.markets}
        self.links[0]["body"].update(
            plan=plan.id,
            schedules=schedules,
            base=base,
            files=begun_files(self.path),
            systems=systems,
        )

    def drop(self, *links: Plain) -> None:
        """Leave out links, with the records of decisions."""
        for link in links:
            self.drop_link_only(link)
            if link["body"]["kind"] == "decided":
                self._record_of(link).unlink(missing_ok=True)

    def drop_link_only(self, link: Plain) -> None:
        """Take out a link, and leave its files."""
        self.links = [one for one in self.links if one is not link]

    def insert(self, before: Plain, at: str, body: Plain) -> Plain:
        """Put a new link before another one."""
        link = {"seq": 0, "previous": NOTHING_BEFORE, "body": body}
        self.put(link, before, at)
        return link

    def put(self, link: Plain, before: Plain, at: str) -> None:
        """Put a link before another one."""
        link["at"] = at
        place = next(number for number, one in enumerate(self.links) if one is before)
        self.links.insert(place, link)

    def _record_of(self, link: Plain) -> Path:
        entrant, market, day = _key(link["body"])
        return self.path / f"records/{entrant}/{market}/{day}.json"

    def copy_record(self, entrant: str, day: str, to: str, step: int) -> None:
        """Copy a record to another day."""
        folder = self.path / f"records/{entrant}/us"
        shutil.copy(folder / f"{day}.json", folder / f"{to}.json")
        self.edit_record(to, lambda one: one["question"].update(day=to, step=step), entrant)

    def move_to_joined(self, name: str, first: str, before: Plain) -> None:
        """Take an entrant out of the plan, and let it join before a link."""
        systems = self.links[0]["body"]["systems"]
        own = {entry: systems[entry] for entry in systems if entry.startswith(f"{name}/")}
        moved: list[Plain] = []

        def leave(plan: Plain) -> None:
            moved.extend(one for one in plan["entrants"] if one["name"] == name)
            plan["entrants"].remove(moved[0])

        self.edit_plan(leave)
        body = {"kind": "joined", "entrant": {**moved[0], "first": first}, "systems": own}
        self.insert(before, before["at"], body)

    # --- everything that depends on them

    def rebuild(self) -> None:
        """Make links, commitments and the published history anew."""
        self.rechain()
        self.republish()

    def rechain(self) -> None:
        """Make the links anew, with commitments to the records as they are now."""
        previous = NOTHING_BEFORE
        hashes: dict[int, str] = {}
        lines = []

        for seq, link in enumerate(self.links):
            link.update(seq=seq, previous=previous)
            if id(link) in self.shown:
                self._commit(link, hashes.get(id(self.shown[id(link)]), NOTHING_BEFORE))

            typed = from_plain(link, Link, "link")
            previous = typed.hash
            hashes[id(link)] = previous
            lines.append(f"{encode_canonical(typed)}\n")

        (self.path / "chain.jsonl").write_text("".join(lines), "utf-8")

    def _commit(self, link: Plain, data: str) -> None:
        """Commit to a record that names its data by their present hash."""
        body = link["body"]
        path = self._record_of(link)

        if not path.is_file():
            body["data"] = data
            return

        plain = json.loads(path.read_text("utf-8"))
        plain["question"]["data"] = data
        record = from_plain(plain, DecisionRecord, "record")
        path.write_text(encode_canonical(record), "utf-8")
        commitment = to_object(record.commitment())

        if _key(plain["question"]) != _key(body):
            commitment.update(entrant=body["entrant"], market=body["market"], day=body["day"])

        link["body"] = commitment

    def republish(self) -> None:
        """Make the history of git and the publications anew. A stamp of a head that stayed is kept;
        for another one the authority is asked now.
        """
        folder = LiveFolder(self.path)
        chain = folder.chain()
        text = (self.path / "chain.jsonl").read_text("utf-8").splitlines(keepends=True)
        shutil.rmtree(self.path / ".git")
        begin_repository(self.path, folder.plan.publish)
        places = {id(link): seq for seq, link in enumerate(self.links)}

        lines = []
        previous = NOTHING_BEFORE

        for number, (plain, link) in enumerate(self.published):
            seq = self._end_of(link, places)
            (self.path / "chain.jsonl").write_text("".join(text[: seq + 1]), "utf-8")
            (self.path / "published.jsonl").write_text("".join(lines), "utf-8")
            commit = commit_all(self.path, link["at"])
            own = {**plain, "seq": seq, "head": chain.entries[seq].hash, "commit": commit}
            own["at"] = max(own["at"], self.links[seq]["at"])
            if plain["stamp"] is not None and own["head"] != plain["head"]:
                own.update(self._stamp(folder, number, own["head"]))

            typed = from_plain({**own, "previous": previous}, Publication, "publication")
            lines.append(f"{encode_canonical(typed)}\n")
            previous = typed.hash

        (self.path / "published.jsonl").write_text("".join(lines), "utf-8")

    def _end_of(self, link: Plain, places: Mapping[int, int]) -> int:
        """Return the number of a link, or of the last one before it that was not left out."""
        place = next(number for number, one in enumerate(self._first_links) if one is link)
        while id(self._first_links[place]) not in places:
            place -= 1

        return places[id(self._first_links[place])]

    def _stamp(self, folder: LiveFolder, number: int, head: str) -> Mapping[str, object]:
        rule = folder.plan.publish.stamp
        assert rule is not None

        name, time = stamp_head(self.path, number, head, rule)
        sha256 = stamp_sha256(self.path, name)

        return {"stamp": name, "stamp_sha256": sha256, "stamped_at": time}

    def renew_cards(self) -> None:
        """Settle the test anew."""
        shutil.rmtree(self.path / "cards")
        folder = LiveFolder(self.path)
        write_cards(folder, settle_test(folder, self.plugins, self.now).cards)

    def edit_published(self, change: Callable[[list[Plain]], list[Plain]]) -> None:
        """Change the lines of the evidence, with their links, and nothing else."""
        path = self.path / "published.jsonl"
        previous = NOTHING_BEFORE
        lines = []

        for plain in change([json.loads(line) for line in path.read_text("utf-8").splitlines()]):
            typed = from_plain({**plain, "previous": previous}, Publication, "publication")
            lines.append(f"{encode_canonical(typed)}\n")
            previous = typed.hash

        path.write_text("".join(lines), "utf-8")

    def verify(self) -> LiveVerification:
        """Verify the copy as a stranger does who trusts the plan's authority."""
        folder = LiveFolder(self.path)
        trust = plan_trust(folder.begun_plan.publish.stamp)
        return verify_test(folder, self.plugins, self.now, trust)


def _key(body: Plain) -> tuple[str, str, str]:
    return body["entrant"], body["market"], body["day"]


def commit_all(path: Path, at: str) -> str:
    """Commit all files of a folder with a time of the maintainer's choice; return the commit."""
    names = ["-c", "user.name=forger", "-c", "user.email=forger@ktdeval.invalid"]
    when = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at, "PATH": "/usr/bin:/bin"}
    commands = (
        ["add", "--all"],
        [*names, "commit", "--quiet", "--allow-empty", "--message", "Publish"],
        ["rev-parse", "HEAD"],
    )

    for words in commands:
        done = subprocess.run(
            ["git", *words], cwd=path, env=when, check=True, capture_output=True, text=True
        )

    return done.stdout.strip()
