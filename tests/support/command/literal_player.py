"""A player that does what the section "How a step goes" of its prompt says, word by word, and knows
nothing else. Programs have it as text: it needs the standard library alone.
"""

import re
from dataclasses import dataclass

HEADING = "# How a step goes"
RESEARCH_CALLS = 2  # that it makes of those that it may make

USE = (
    r"(?:Research: )?(?:make the calls that carry out the instruction|call tools as you see fit, at"
    r" most (?P<calls>\d+) calls in a step; a call with bad arguments counts and comes back with what"
    r" was wrong)\."
)
SENTENCES = {
    USE: "research",
    r"To end the research, reply without a tool call; a call of `(?P<early>\w+)` ends it, too, and"
    r" submits nothing yet\.": "reply",
    r"To submit, call `(?P<submit>\w+)` alone: the first call that is accepted is final, and the step"
    r" is over\. One that is not accepted comes back with what is wrong, and ends the research; a reply"
    r" without a tool call ends it, too\.": "submit",
    r"Submission, if none was accepted: you are asked to call `(?P<asked>\w+)`, and only that is"
    r" accepted\.": "wait",
    r"Submission: you are asked to call `(?P<asked>\w+)`, and only that is accepted\.": "wait",
    r"Call `(?P<submit>\w+)`\. The first call that is accepted is final\. One"
    r" that is not comes back with what is wrong: correct it, and call again\.": "submit",
    r"Call `next_day`: it returns the next day\. Go on with number 1, until you are told that the"
    r" episode is over\. Then end\.": "next_day",
    r"End\. The step is over\.": "end",
    r"You act by the tools of the server `ktdeval`\.": "",
    r"What you only write is read by nobody: only an accepted `\w+` counts\.": "",
    r"Files that you write into your folder are there again at the next step\.": "",
}
"""What each sentence tells to do; it knows no other."""


@dataclass
class Told:
    """What a procedure tells to do."""

    acts: list
    calls: int = 0  # most calls of research
    early: str = ""  # tool whose call submits nothing yet
    submit: str = ""  # tool that submits


def told(prompt):
    """Return what a prompt tells. Raises ValueError: it tells nothing, or not in known words."""
    _, heading, rest = prompt.partition(HEADING + "\n")
    if not heading or HEADING in rest:
        raise ValueError("the prompt has not one section on how a step goes")

    found = Told([])
    for line in rest.splitlines():
        if line.startswith(("- ", "# ", "Day ")):
            break
        _read(re.sub(r"^\d+\. ", "", line), found)
    return found


def _read(text, found):
    while text:
        matches = {each: re.match(each, text, re.IGNORECASE) for each in SENTENCES}
        known = [each for each, match in matches.items() if match]
        if not known:
            raise ValueError(f"the player does not know what to do: {text}")

        match = matches[known[0]]
        named = match.groupdict()
        found.calls = int(named.get("calls") or found.calls)
        found.early = named.get("early") or found.early
        found.submit = named.get("submit") or named.get("asked") or found.submit
        found.acts += filter(None, [SENTENCES[known[0]]])
        text = text[match.end() :].lstrip()


def play(procedure, call, decision, early=None):
    """Play a step as an agent that calls its tools itself. `call`: name and arguments of a tool →
    its text; `early`: a throw-away submission, for a procedure by which that submits nothing.
    Returns what the last call said.
    """
    said = ""
    acts = list(procedure.acts)
    while acts:
        act = acts.pop(0)
        if act == "research":
            for _ in range(min(RESEARCH_CALLS, procedure.calls)):
                call("get_market_context", {})
        elif act == "reply" and early is not None:
            call(procedure.early, early)
        elif act == "submit":
            said = call(procedure.submit, decision)
        elif act == "next_day" and "episode is over" not in said:
            said = call("next_day", {})
            acts = list(procedure.acts) if "episode is over" not in said else []
        # "wait" and "end": nobody asks, and it does nothing more
    return said
