"""Agent `command`: a program decides. It is started for each step, or once per episode.

The program receives the step as text on standard input, or as `task.md` and `state.json` in its
folder. It sends model calls to the model bridge, and calls the tool server for the task's masked
research tools and for `submit_action`. The files in its folder are its memory: the folder is stored
by hash after each step and restored for the next.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from ktdeval.errors import ConfigError, KtdevalError, ModelError, ProviderError
from ktdeval.harness import (
    BROUGHT,
    END,
    MAX_REFUSED,
    SUBMIT_TOOL,
    TEXTS_OF_ONE_SUBMISSION,
    AgentTraits,
    Decision,
    ExternalSession,
    KeptFiles,
    Observation,
    Outside,
    StepSession,
    act_outside,
    join_parts,
    one_submission,
)
from ktdeval.runner import cache_folder
from ktdeval.stores import LocalStore
from ktdeval.values import (
    JsonValue,
    Value,
    content_hash,
    from_plain,
    temporary_folder,
    to_plain,
    user_path,
)
from ktdeval_command.clients.stdio_relay import stdio_command
from ktdeval_command.code_identity import program_identity
from ktdeval_command.command_params import CommandParams
from ktdeval_command.desk.agent_desk import NEXT_STEP, AgentDesk
from ktdeval_command.desk.desk_servers import DeskServers, serve_desk
from ktdeval_command.known_program_texts import known_program_texts
from ktdeval_command.placeholders import StepValues
from ktdeval_command.planned_step import plan_decision
from ktdeval_command.profiles import (
    Profile,
    chosen_profile,
    prepare_start,
    profile_hash,
    profile_of,
    run_words,
)
from ktdeval_command.program_trial import try_program
from ktdeval_command.sandboxes.installed_program import Installation
from ktdeval_command.sandboxes.own_files import own_files
from ktdeval_command.sandboxes.program import (
    Captured,
    FinishedProgram,
    ProgramLimits,
    ProgramOutcome,
    RunningProgram,
    Start,
    start_program,
)
from ktdeval_command.sandboxes.sandbox import Sandbox, SandboxError, contents_shown, open_sandbox
from ktdeval_command.sandboxes.shown_parts import check_copied, private_files
from ktdeval_command.sandboxes.workspace import FolderLimits, ProgramWorkspaces

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = "programs"  #: folder among the run's files in which the programs' folders are stored
_SHOWN_CHARS = 2000  # number of final characters of a program's output that are shown
_LONGEST_S = 86_400.0  # maximum lifetime in seconds of a program that runs through an episode

SERVER = "ktdeval"  #: name of the tool server in profiles
KEPT_FOLDER = "Files that you write into your folder are there again at the next step."


class ProgramReport(Value):
    """Observations about a program in a step."""

    #: how the program ended; None if it keeps running through the episode
    outcome: ProgramOutcome | None
    #: hash of the folder's listing after the step; None if it is unchanged
    folder: str | None = None
    refused: tuple[str, ...] = ()  #: files in the folder that were not stored, as `PATH: why`
    problem: str = ""  #: why the folder was not stored; empty if it was
    output: str = ""  #: end of the program's standard output and error, with identities withheld
    #: number of requests to the two servers without the token, or for another address, such as
    #: another host
    denied: int = 0


@dataclass
class _Running:
    """A running program, with its servers."""

    program: RunningProgram
    desk: AgentDesk
    workspaces: ProgramWorkspaces
    secrets: tuple[str, ...]
    servers: DeskServers
    denied: int = 0  #: requests that were denied in earlier steps

    def newly_denied(self) -> int:
        """Return how many requests were denied since the last call."""
        before = self.denied
        self.denied = self.servers.denied
        return self.denied - before


class CommandAgent:
    """Lets a program decide."""

    def __init__(self, params: CommandParams) -> None:
        self._params = params
        self._own = own_files(run_words(params.run))
        self._has_acted = False
        recorded: dict[str, JsonValue] = {"sandbox": params.sandbox}
        if params.told is None:  # otherwise the agent is rebuilt from its record
            recorded |= self._identity
        self.traits = AgentTraits(
            further_models=params.models,
            recorded_args=recorded,
            registered_args=self._brought,
            acts_outside=True,
            trial=self._try,
            plan_note=self._plan_note,
            close=self._close_episode,
        )
        self._walls: Sandbox | None = None  # sandbox that was tried on this machine
        self._held = ExitStack()  # resources that are held through the episode
        self._living: _Lifetime | None = None

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step with the program; hold if it submits nothing. Raises ModelError if the
        program or its last model call failed.
        """
        folder = memory.get("folder") if isinstance(memory, dict) else None
        before = folder if isinstance(folder, str) else None
        # The memory is from an earlier step of this episode, possibly from before a resume.
        self._has_acted = self._has_acted or memory is not None

        def run(acting: ExternalSession) -> JsonValue:
            if self._params.session == "episode":
                report = self._live_on(acting, observation, session, before)
            else:
                report = self._run_once(acting, observation, session, before)
            if self._walls is not None:
                acting.shown = self._walls.shown
            plain: JsonValue = to_plain(report)
            return plain

        step = act_outside(
            session, run, self._params.sandbox, self._params.calls, known_program_texts()
        )
        if step is None:
            opening = _opening(observation, session, self._params.session == "episode")
            return plan_decision(opening, session, memory, self._bare_profile.measured)

        report = from_plain(step.report, ProgramReport, "report of a program")
        kept = report.folder or before
        failure = _failure(report.outcome)
        for _ in range(min(report.denied, MAX_REFUSED)):
            session.count_failure("denied")
        if failure:
            session.count_failure(failure)
            if step.submission is None:
                raise ModelError(failure, f"the program {report.outcome} without a submission")
        if step.submissions == 0:
            session.count_failure("no_submission")

        return step.decision({} if kept is None else {"folder": kept})

    def _try(self, outside: Outside) -> None:
        """Try the sandbox and the program. Raises ConfigError or ProviderError if they can't be
        used here.
        """
        self._check_content()
        walls = self._sandbox(outside.private)
        try:
            try_program(self._own.words, self._profile, walls)
        except SandboxError as error:
            raise ProviderError(f"agent command: {error}") from error

    # --- a program for each step

    def _run_once(
        self,
        acting: ExternalSession,
        observation: Observation,
        session: StepSession,
        before: str | None,
    ) -> ProgramReport:
        """Run the program from start to end."""
        with ExitStack() as held:
            running = held.enter_context(self._start_program(observation, session, before))
            running.desk.begin(acting, observation.user, is_told=True)
            timer = threading.Timer(self._params.grace_s, running.program.stop)
            timer.daemon = True
            held.callback(timer.cancel)
            acting.when_over = timer.start
            finished = running.program.wait(running.workspaces)
            running.desk.close()

        return self._report(finished, acting, running)

    @contextmanager
    def _start_program(
        self,
        observation: Observation,
        session: StepSession,
        before: str | None,
        has_next_day: bool = False,
    ) -> Iterator[_Running]:
        """Start the program with its servers; all of them end with the block."""
        params = self._params
        self._check_content()
        desk = AgentDesk({name: name for name in params.models}, has_next_day)
        bridge_token = secrets.token_urlsafe(32)
        tools_token = secrets.token_urlsafe(32)
        prompt = join_parts(*_opening(observation, session, has_next_day))
        profile = self._profile
        outside = session.outside
        if self._walls is None:
            self._walls = self._sandbox(outside.private)
        sandbox = self._walls

        model = params.model_name or _own_name(outside.model)

        with ExitStack() as held:
            servers = held.enter_context(serve_desk(desk, model, bridge_token, tools_token))
            bridge = servers.bridge
            tools = servers.tools

            values = StepValues(
                bridge=bridge.address,
                bridge_token=bridge_token,
                tools_url=tools.mcp_url,
                tools_token=tools_token,
                tools_stdio=tuple(stdio_command(sandbox.python)),
                prompt=prompt,
                model=model,
            )
            ready = prepare_start(profile, self._own.words, values)
            workspaces = self._workspaces(outside.files, held)
            listing = workspaces.from_files(
                {**self._own.files, **ready.files, **_task_files(observation, prompt)}, before
            )
            start = Start(
                ready.argv,
                ready.environment,
                ready.stdin,
                ports=(bridge.server_address[1], tools.server_address[1]),
                limits=_limits(params),
            )
            program = held.enter_context(start_program(start, sandbox, workspaces, listing))
            hidden = (bridge_token, tools_token)
            yield _Running(program, desk, workspaces, hidden, servers)

    @cached_property
    def _profile(self) -> Profile:
        """Profile with which the program is started. It is read at the first start, since an agent
        rebuilt from its record needs no profile.
        """
        return self._installed[0]

    @cached_property
    def _installed(self) -> tuple[Profile, Installation]:
        return profile_of(self._params.run, self._params.profile)

    @cached_property
    def _bare_profile(self) -> Profile:
        """Profile as written in its file, without values found on this machine."""
        return chosen_profile(Path(self._own.words[0]).name, self._params.profile)

    def _plan_note(self) -> str:
        """Return a note on the tokens that the program itself uses; empty if they were not
        measured.
        """
        measured = self._bare_profile.measured
        if measured is None:
            return ""
        installed = str(self._identity.get("version", ""))
        note = measured.words(Path(self._own.words[0]).name)
        if installed and not installed.endswith(f" {measured.version}"):
            note += f"; {installed} is installed"
        return note

    @cached_property
    def _identity(self) -> dict[str, JsonValue]:
        """Identity of the agent, in the form of recorded arguments: its files, its program, and its
        profile with the text of the procedure.
        """
        words = self._own.words
        profile = self._bare_profile
        texts = [TEXTS_OF_ONE_SUBMISSION, NEXT_STEP, KEPT_FOLDER]
        found: dict[str, JsonValue] = {
            "told": content_hash({"profile": profile_hash(profile), "procedure": texts})
        }
        program = program_identity(words)
        if program is not None:
            found["program"] = program.sha256
        if program is not None and program.version:
            found["version"] = program.version
        if self._own.content is not None:
            found["content"] = self._own.content
        return found

    def _check_content(self) -> None:
        """Raise ConfigError if the agent's identity has changed since the run began."""
        params = self._params
        what = {
            "content": "the files that it names",
            "program": f"the program {self._own.words[0]}",
            "told": "its profile, or the text on how a step goes,",
            BROUGHT: "what the sandbox shows besides the system",
        }
        found = dict(self._identity)
        if params.brought is not None:
            found |= self._brought()
        for name, meant in what.items():
            recorded = getattr(params, name)
            now = found.get(name)
            if recorded not in (None, now):
                raise ConfigError(
                    f"run: {meant} changed since the run began: the hash is {now or 'none'!s:.12},"
                    f" not {recorded:.12}; restore it, or begin a new run"
                )

    def _brought(self) -> dict[str, JsonValue]:
        """Return the argument that fixes all that the sandbox shows besides the system."""
        if self._params.sandbox == "none":
            return {}
        return {BROUGHT: contents_shown(self._installed[1].parts, self._readable)}

    @property
    def _readable(self) -> list[Path]:
        """Folders that the profile and the user name."""
        named = [Path(folder) for folder in self._profile.readable]
        return named + [user_path(folder) for folder in self._params.readable]

    def _sandbox(self, private: tuple[Path, ...]) -> Sandbox:
        """Return the sandbox. Raises ProviderError if no sandbox is available here, or if the
        program could see private files, since no later step could change this.
        """
        place = self._installed[1]
        private = (*private, cache_folder().resolve())
        try:
            sandbox = open_sandbox(self._params.sandbox, place.parts, self._readable, private)
            if sandbox.shown is not UNSET:
                for path in self._own.sources:
                    check_copied(path, private_files(private))
        except KtdevalError as error:
            raise ProviderError(f"agent command: {error}") from error

        return sandbox

    def _workspaces(self, files: KeptFiles | None, held: ExitStack) -> ProgramWorkspaces:
        if files is None:
            files = held.enter_context(_unkept_files())
        limits = FolderLimits(disk_bytes=self._params.disk_mib << 20, disk_files=self._params.files)
        return ProgramWorkspaces(files, FOLDERS, limits)

    def _report(
        self, finished: FinishedProgram, acting: ExternalSession, running: _Running
    ) -> ProgramReport:
        """Return the report on a program that ended. Raises ProviderError if the program can't be
        started, or if it failed before it did anything, since no later step could change this.
        """
        outcome = finished.outcome
        program = self._own.words[0]
        if outcome.kind in ("not_found", "not_executable"):
            raise ProviderError(
                f"agent command: {program}: {outcome.kind.replace('_', ' ')}; install it, or correct"
                " run= and take a new --out"
            )

        output = _show_output(finished, acting, running.secrets)
        self._has_acted = self._has_acted or bool(acting.acts)
        if _failure(outcome) and not self._has_acted:
            said = output.strip().splitlines() or ["it wrote no output"]
            raise ProviderError(
                f"agent command: {program} {outcome} before it did anything: {said[-1][:300]};"
                " correct the program, or run= and take a new --out"
            )

        refused = []
        folder = None
        if finished.folder is not None:
            folder = finished.folder.listing
            refused = [f"{each.path}: {each.why}" for each in finished.folder.refused]

        return ProgramReport(
            outcome=outcome,
            folder=folder,
            refused=tuple(acting.withhold(text) for text in refused[:100]),
            problem=finished.folder_problem,
            output=output,
            denied=running.newly_denied(),
        )

    # --- a program for the whole episode

    def _live_on(
        self,
        acting: ExternalSession,
        observation: Observation,
        session: StepSession,
        before: str | None,
    ) -> ProgramReport:
        """Let the program decide a step. It is started at the first step, and again if it ended
        before it received this step's day.
        """
        living = self._living
        if living is not None:
            living.begin(acting, observation, is_told=False)
            living.wait_for_step(self._params.seconds)

        if living is None or living.ended_untold:
            living = self._new_life(acting, observation, session, before)
            living.wait_for_step(self._params.seconds)

        if living.finished is not None:
            return self._report(living.finished, acting, living.running)

        self._has_acted = True
        outcome = None
        if not acting.is_over:
            outcome = ProgramOutcome(kind="timed_out")
            living.end(0.0)  # the next step starts another process
        return ProgramReport(outcome=outcome, denied=living.running.newly_denied())

    def _new_life(
        self,
        acting: ExternalSession,
        observation: Observation,
        session: StepSession,
        before: str | None,
    ) -> _Lifetime:
        """Start the program for this step and later steps, with the folder left by the previous
        process.
        """
        if self._living is not None:
            before = self._living.folder or before

        self._held.close()
        running = self._held.enter_context(
            self._start_program(observation, session, before, has_next_day=True)
        )
        living = _Lifetime(running)
        self._held.callback(living.end, self._params.grace_s)
        self._living = living
        living.begin(acting, observation, is_told=True)
        return living

    def _close_episode(self) -> None:
        self._held.close()
        self._living = None


class _Lifetime:
    """A program that runs through several steps. A thread waits for its end."""

    def __init__(self, running: _Running) -> None:
        self.running = running
        self.finished: FinishedProgram | None = None
        self._was_told = True  # whether the program received the day of the latest step
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="ktdeval-program", daemon=True)
        self._thread.start()

    def begin(self, acting: ExternalSession, observation: Observation, is_told: bool) -> None:
        """Open a step for the program."""
        self._changed.clear()
        acting.when_over = self._changed.set
        self.running.desk.begin(acting, join_parts(observation.day, observation.request), is_told)

    def wait_for_step(self, seconds: float) -> None:
        """Wait until the step is over, the program has ended, or the time is up."""
        if self.finished is None:
            self._changed.wait(seconds)
        self._was_told = self.running.desk.is_told
        self.running.desk.end()

    @property
    def ended_untold(self) -> bool:
        """True if the program ended without receiving the day of the latest step."""
        return self.finished is not None and not self._was_told

    @property
    def folder(self) -> str | None:
        """Hash of the listing of the program's folder after its end; None if the folder was not
        stored.
        """
        if self.finished is None or self.finished.folder is None:
            return None
        return self.finished.folder.listing

    def end(self, seconds: float) -> None:
        """Tell the program that the episode is over, and stop it if it does not end."""
        self.running.desk.close()
        self._thread.join(seconds)
        self.running.program.stop()
        self._thread.join()

    def _wait(self) -> None:
        self.finished = self.running.program.wait(self.running.workspaces)
        self._changed.set()


@contextmanager
def _unkept_files() -> Iterator[KeptFiles]:
    """Return a context with a temporary store, for a run that keeps no files."""
    with temporary_folder("ktdeval-files-") as folder:
        yield LocalStore(Path(folder))


def _own_name(model: str) -> str:
    """Return the provider's name for a model, which is the name that programs know."""
    return model.partition("/")[2] or model or "model"


def _limits(params: CommandParams) -> ProgramLimits:
    lifetime = params.seconds
    if params.session == "episode":
        lifetime = _LONGEST_S
    return ProgramLimits(
        wall_s=lifetime, memory_bytes=params.memory_mib << 20, processes=params.processes
    )


def program_procedure(observation: Observation, session: StepSession, has_next_day: bool) -> str:
    """Return the text that explains the procedure of a step to a program."""
    then = NEXT_STEP if has_next_day else END
    procedure = one_submission(observation, session, then, server=SERVER)
    if session.submit_tool.name != SUBMIT_TOOL:
        return procedure  # questions have no previous step
    return join_parts(procedure, KEPT_FOLDER)


def _opening(observation: Observation, session: StepSession, has_next_day: bool) -> tuple[str, str]:
    """Return the two texts of a step: the rules with the procedure, and the day."""
    procedure = program_procedure(observation, session, has_next_day)
    return observation.system_with(procedure), observation.user


def _task_files(observation: Observation, prompt: str) -> dict[str, bytes]:
    state = "{}"
    if observation.state is not None:
        state = observation.state.text
    return {"task.md": prompt.encode(), "state.json": state.encode()}


def _failure(outcome: ProgramOutcome | None) -> str:
    """Return the failure kind under which an outcome is counted; empty if the outcome is not a
    failure.
    """
    if outcome is None or outcome.kind == "stopped":
        return ""
    if outcome.kind == "exited" and outcome.code == 0:
        return ""
    return f"program_{outcome.kind}"


def _show_output(finished: FinishedProgram, acting: ExternalSession, hidden: Sequence[str]) -> str:
    """Return the end of a program's output, without tokens and identities."""
    parts = [_tail(finished.stdout), _tail(finished.stderr)]
    text = "\n".join(filter(None, parts))
    for token in hidden:
        text = text.replace(token, "[token]")
    return acting.withhold(_unprintable(text))


def _tail(captured: Captured) -> str:
    return captured.text()[-_SHOWN_CHARS:]


def _unprintable(text: str) -> str:
    return re.sub(r"[^\n\t -~\u00a0-\ud7ff\ue000-\uffff]", "?", text)
