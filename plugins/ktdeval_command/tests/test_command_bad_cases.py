"""Programs that do not behave: each gives one clear line or a typed failure, never a decision."""

from __future__ import annotations

from typing import Any

import pytest

from support.runs.outside_programs import ANSWER, Place, did_nothing, given_more_time, provider
from support.runs.run_support import Done

pytestmark = pytest.mark.slow  # each test is a whole run


def held(place: Place, done: Done, step: int = 0) -> Any:
    """The record of a step in which nothing was decided, and which verifies."""
    assert done.code == 0, done
    assert "Traceback" not in done.err, done

    found = place.steps[step]
    assert found.orders == ()
    assert found.provenance in ("error", "fallback")
    verified = place.verified()
    assert verified.code == 0, verified
    return found


def decided(place: Place, done: Done) -> Any:
    """The record of a first step whose one submission stands, and which verifies."""
    assert done.code == 0, done
    assert "Traceback" not in done.err, done

    found = place.steps[0]
    assert found.provenance == "model"
    assert found.overall_reason == "Nothing looks worth the fees."
    verified = place.verified()
    assert verified.code == 0, verified
    return found


def line(done: Done) -> str:
    """The one line of an error that ended a run; after that of its episode, where one began."""
    assert done.code == 2, done
    assert "Traceback" not in done.err, done

    *episode, error = done.err.splitlines()
    assert len(episode) <= 1, done
    return error


# ---- programs that can't be started, or do nothing


@pytest.mark.exhaustive
@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_a_program_that_is_not_there_ends_the_run_with_its_name(place: Place, sandbox: str) -> None:
    done = place.play("", run="no-such-program --x", sandbox=sandbox)

    assert "no-such-program: is not there; install it, or correct run=" in line(done)


def test_a_file_that_is_no_program_ends_the_run_with_its_name(place: Place) -> None:
    (place.folder / "notes.txt").write_text("Buy low.\n")

    done = place.play("", run="./notes.txt")

    assert "notes.txt: may not be executed by the user inside; install it, or" in line(done)


@pytest.mark.exhaustive
def test_a_program_that_fails_at_once_ends_the_run_with_its_last_line(place: Place) -> None:
    done = place.play("sys.exit('no account: log in first')")

    assert "exited 1 before it did anything: no account: log in first" in line(done)


@pytest.mark.exhaustive
def test_a_program_that_submits_nothing_holds(place: Place) -> None:
    step = held(place, place.play("tool('absent')"))

    assert step.provenance == "fallback"
    assert step.failures == {"no_submission": 1, "unknown_tool": 1}


@pytest.mark.exhaustive
def test_a_program_that_fails_later_is_an_error_of_its_step(place: Place) -> None:
    done = place.play(
        """
        if "step 0" in sys.stdin.read():
            submit()
        else:
            os._exit(3)
        """,
        steps=2,
    )

    step = held(place, done, 1)
    assert (step.provenance, step.failures) == ("error", {"program_exited": 1})
    assert place.steps[0].provenance == "model"


def test_a_program_that_is_killed_after_its_submission_has_decided(place: Place) -> None:
    step = decided(place, place.play("submit(); os.kill(os.getpid(), 9)"))

    assert step.failures == {"program_killed": 1}
    assert place.report["outcome"] == {"kind": "killed", "code": 9, "detail": ""}


# ---- programs that do too much


@pytest.mark.exhaustive
def test_the_first_of_two_submissions_stands(place: Place) -> None:
    done = place.play(
        """
        submit()
        told = submit({"orders": [], "overall_reason": "On second thought, nothing at all."})
        assert "it stands" in told["text"], told
        """
    )

    assert decided(place, done).failures == {"submitted_again": 1}
    assert place.acts[-1] == {"kind": "refused", "failure": "submitted_again"}


@pytest.mark.exhaustive
def test_submissions_that_are_no_decision_are_held(place: Place) -> None:
    done = place.play(
        """
        told = [submit({"orders": "all"}) for _ in range(6)]
        assert "no further submission" in told[-1]["text"], told[-1]
        """
    )

    step = held(place, done)
    assert step.provenance == "fallback"
    assert step.failures["no_attempts"] == 6 - step.submissions


@pytest.mark.exhaustive
@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_a_program_that_never_ends_is_stopped_without_a_decision(
    place: Place, sandbox: str
) -> None:
    there, done = given_more_time(
        place, "ask()\nwhile True: time.sleep(1)", did_nothing, sandbox=sandbox
    )

    step = held(there, done)
    assert (step.provenance, step.failures) == ("error", {"program_timed_out": 1})


@pytest.mark.exhaustive
def test_program_running_on_after_its_submission_is_stopped(
    place: Place,
) -> None:
    done = place.play("submit()\nwhile True: time.sleep(1)", grace_s=0.2)

    assert decided(place, done).failures == {}
    assert place.report["outcome"]["kind"] == "stopped"


@pytest.mark.exhaustive
def test_a_fork_bomb_without_an_end_is_stopped_with_all_its_processes(
    place: Place, bwrap: object
) -> None:
    there, done = given_more_time(
        place,
        """
        ask()
        while True:
            try:
                os.fork()
            except OSError:
                pass
        """,
        did_nothing,
        sandbox="bwrap",
        processes=48,
    )

    step = held(there, done)
    assert step.provenance == "error"
    assert set(step.failures) <= {"program_timed_out", "program_killed", "program_exited"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_a_full_disk_is_not_kept_and_is_said(place: Place, sandbox: str) -> None:
    done = place.play(
        """
        ask()
        with open("big", "wb") as file:
            for _ in range(400):
                try:
                    file.write(b"x" * (1 << 20))
                    file.flush()
                except OSError:
                    sys.exit(5)
                time.sleep(0.01)
        """,
        sandbox=sandbox,
        disk_mib=8,
    )

    step = held(place, done)
    assert step.provenance == "error"
    assert set(step.failures) <= {"program_too_much_disk", "program_exited", "program_killed"}
    assert step.failures
    kept = [path for path in (place.run / "files").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in kept) < 9 << 20


# ---- programs that ask oddly


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/embeddings", "/api/chat", "/v1/images/generations"]
)
def test_unsupported_request_format_is_answered_with_supported_ones(
    place: Place, path: str
) -> None:
    done = place.play(
        f"""
        told = post(BRIDGE + {path!r}, {{}}, KEY)
        print(json.dumps(told))
        submit()
        """
    )

    decided(place, done)
    assert "not supported by the bridge" in place.report["output"]
    for form in ("/v1/chat/completions", "/v1/responses", "/v1/messages", "generateContent"):
        assert form in place.report["output"]


@pytest.mark.exhaustive
def test_a_stream_that_the_program_cuts_is_on_record_whole(place: Place) -> None:
    with provider() as asked:
        done = place.play(
            """
            host = BRIDGE.removeprefix("http://")
            for _ in range(3):
                connection = http.client.HTTPConnection(host)
                body = json.dumps({"model": "m", "stream": True,
                                   "messages": [{"role": "user", "content": "What now?"}]})
                connection.request("POST", "/v1/chat/completions", body,
                                   {"Authorization": "Bearer " + KEY})
                connection.sock.recv(1)
                connection.close()
            submit()
            """,
            *asked.words,
        )

    decided(place, done)
    replies = [exchange["reply"]["content"] for exchange in place.entries[0]["exchanges"]]
    assert replies == [ANSWER] * 3


@pytest.mark.exhaustive
def test_request_the_program_abandons_is_completed_and_recorded(
    place: Place,
) -> None:
    with provider() as asked:
        done = place.play(
            """
            host = BRIDGE.removeprefix("http://")
            connection = http.client.HTTPConnection(host)
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Now?"}]})
            connection.request("POST", "/v1/chat/completions", body,
                               {"Authorization": "Bearer " + KEY})
            time.sleep(0.5)
            submit()
            os._exit(0)
            """,
            *asked.words,
        )

    decided(place, done)
    assert len(place.entries[0]["exchanges"]) == len(asked.bodies) == 1


@pytest.mark.exhaustive
def test_ten_thousand_calls_end_at_the_budget(place: Place) -> None:
    with provider() as asked:
        done = place.play(
            """
            host = BRIDGE.removeprefix("http://")
            connection = http.client.HTTPConnection(host)
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Now?"}]})
            head = {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"}
            for _ in range(10_000):
                connection.request("POST", "/v1/chat/completions", body, head)
                answer = json.load(connection.getresponse())
            assert "no further model call" in json.dumps(answer), answer
            submit()
            """,
            *asked.words,
            calls=25,
        )

    assert decided(place, done).failures == {"call_budget": 9_975}
    assert len(place.entries[0]["exchanges"]) == 25
    assert place.acts[25] == {"kind": "refused", "failure": "call_budget", "times": 9_975}


@pytest.mark.exhaustive
def test_ten_thousand_calls_of_tools_end_at_the_budget(place: Place) -> None:
    done = place.play(
        """
        connection = http.client.HTTPConnection(TOOLS.removeprefix("http://"))
        head = {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"}
        for _ in range(10_000):
            connection.request("POST", "/tools/absent", "{}", head)
            answer = json.load(connection.getresponse())
        assert "no research call is left" in answer["text"], answer
        submit()
        """
    )

    step = decided(place, done)
    assert step.failures["tool_budget_spent"] > 9_900
    assert len(place.acts) < 60


@pytest.mark.exhaustive
def test_tools_at_once_are_called_one_after_the_other(place: Place) -> None:
    done = place.play(
        """
        import threading
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(tool("absent")))
                   for _ in range(8)]
        threads += [threading.Thread(target=lambda: answers.append(ask())) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert len(answers) == 16, answers
        submit()
        """
    )

    decided(place, done)
    kinds = [act["kind"] for act in place.acts]
    assert (kinds.count("tool"), kinds.count("ask"), kinds[-1]) == (8, 8, "submit")


@pytest.mark.exhaustive
def test_submissions_at_once_are_one(place: Place) -> None:
    done = place.play(
        """
        import threading
        threads = [threading.Thread(target=submit) for _ in range(12)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """
    )

    assert decided(place, done).failures == {"submitted_again": 11}


@pytest.mark.exhaustive
def test_calls_after_the_step_reach_nobody(place: Place) -> None:
    """A child that outlives the program asks on: no model is asked, and nothing is recorded."""
    with provider() as asked:
        done = place.play(
            """
            if os.fork() == 0:
                os.setsid()
                time.sleep(1.5)
                while True:
                    ask("I am still here.")
            submit()
            """,
            *asked.words,
        )
        decided(place, done)
        assert "still here" not in asked.text
        assert asked.bodies == []


@pytest.mark.exhaustive
def test_research_after_the_submission_is_refused(place: Place) -> None:
    done = place.play(
        """
        submit()
        told = tool("get_market_overview")
        assert "the step is over" in told["text"], told
        """
    )

    assert decided(place, done).failures == {"step_over": 1}


# ---- what ends the model


@pytest.mark.exhaustive
def test_a_model_that_fails_is_told_to_the_program_which_may_go_on(place: Place) -> None:
    with provider(lambda _: 400) as asked:
        done = place.play(
            """
            told = ask()
            assert "error" in told, told
            submit()
            """,
            *asked.words,
        )

    assert asked.bodies
    assert done.code == 0 or "Traceback" not in done.err, done


@pytest.mark.exhaustive
@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_requests_for_another_address_or_without_the_token_are_counted(
    place: Place, sandbox: str
) -> None:
    done = place.play(
        """
        import urllib.error, urllib.request
        bridge = os.environ["OPENAI_BASE_URL"]
        for path, token in (("/nothing", "OPENAI_API_KEY"), ("/models", "HOME")):
            request = urllib.request.Request(bridge + path)
            request.add_header("Authorization", "Bearer " + os.environ[token])
            try:
                urllib.request.urlopen(request)
            except urllib.error.HTTPError as error:
                print(error.code)
        submit()
        """,
        sandbox=sandbox,
    )

    step = decided(place, done)
    assert step.failures == {"denied": 2}
    assert place.report["denied"] == 2
    assert place.report["output"] == "404\n401\n"
