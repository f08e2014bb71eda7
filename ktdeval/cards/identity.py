"""What every card says twice: hashes of what stands on it, and names that must be there. Shared by the checks of all kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktdeval.cards.locate import JsonPath
from ktdeval.fields import near_matches
from ktdeval.jsonio import JsonValue, content_hash
from ktdeval.runner.spec import EpisodeSpec, Window

Problem = tuple[JsonPath, str]
"""Where a card contradicts itself, and how."""


def identity_problem(card: Mapping[str, JsonValue]) -> Problem | None:
    """Hash of the task's config, windows and ids of the episodes: the first that the card's own fields don't give."""
    task = card["task"]
    if content_hash(task["config"]) != task["hash"]:
        return ("task", "hash"), "is not the hash of the task's config"
    windows = {window["name"]: Window(window["name"], window["first"], window["last"]) for window in card["windows"]}
    seen: set[str] = set()
    for field, place, episode in _episodes(card):
        if episode["window"] not in windows:
            return (field, place, "window"), f"no window of that name{near_matches(episode['window'], windows)}"
        if episode["id"] != _spec(card, windows[episode["window"]], episode["seed"]).id:
            return (field, place, "id"), "is not the hash of the episode's spec"
        if episode["id"] in seen:
            return (field, place, "id"), "stands twice"
        seen.add(episode["id"])
    return None


def _episodes(card: Mapping[str, JsonValue]) -> Iterator[tuple[str, int, Mapping[str, JsonValue]]]:
    for field in ("episodes", "missing_episodes"):
        for place, episode in enumerate(card[field]):
            yield field, place, episode


def _spec(card: Mapping[str, JsonValue], window: Window, seed: int) -> EpisodeSpec:
    task, model, agent = card["task"], card["model"], card["agent"]
    return EpisodeSpec(
        task=task["name"],
        task_version=task["version"],
        task_hash=task["hash"],
        snapshot=card["snapshot"]["id"],
        mask=task["mask"],
        mode=task["mode"],
        window=window,
        model=model["name"],
        model_args=model["args"],
        agent=agent["name"],
        agent_args=agent["args"],
        call=card["call"],
        seed=seed,
        limit=card["limit"],
        mask_draw=card["mask_draw"],
    )
