"""Ways out of the sandbox of a step that runs, with its bridge and its tool server: none passes.

Attempts at the walls alone are those of test_sandbox.py; here a program makes them amid a step.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from bridge_clients import TEXT, bridge
from ktdeval.testing import AnsweringHandler, running_server
from support.runs.outside_programs import HEAD, Place
from tool_clients import TOKEN, tools

pytestmark = pytest.mark.slow  # one run of two steps

LIBRARY = """
import ctypes, glob, pathlib, socket, struct, subprocess
facts = json.load(open("facts.json"))
libc = ctypes.CDLL(None, use_errno=True)
bridge_port = int(BRIDGE.rpartition(":")[2])
tools_port = int(TOOLS.rpartition(":")[2])

def connected(address, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_STREAM) as made:
        made.settimeout(3)
        made.connect(address)
        return True

def raw(port, head, body=b""):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as made:
        made.sendall(head.encode() + body)
        made.settimeout(3)
        answer = b""
        try:
            while piece := made.recv(65536):
                answer += piece
        except TimeoutError:
            pass
    return answer.decode("latin-1")

def asked(port, target, method="GET", key=KEY, **headers):
    more = "".join(f"{name.replace('_', '-')}: {value}\\r\\n" for name, value in headers.items())
    head = f"{method} {target} HTTP/1.1\\r\\nConnection: close\\r\\nAuthorization: Bearer {key}\\r\\n"
    if "Host" not in headers:
        more += "Host: localhost\\r\\n"
    return raw(port, head + more + "\\r\\n")

def says_other(answer):
    return facts["secret"] in answer or " 200 " in answer.partition("\\n")[0] or " 101 " in answer

def found_in(paths, text):
    for path in paths:
        try:
            with open(path, "rb") as file:
                if text.encode() in file.read(1 << 20):
                    return path
        except OSError:
            pass
    return False

other = f"127.0.0.1:{facts['http']}"
"""

ATTEMPTS = {
    # ---- looking something up
    "a name of the internet": "return socket.getaddrinfo('example.org', 80)",
    "a name server": """
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            made.settimeout(2)
            made.sendto(bytes.fromhex('abcd01000001000000000000076578616d706c65036f72670000010001'),
                        ('8.8.8.8', 53))
            return made.recv(512)
        """,
    "an address of the internet": "return connected(('1.1.1.1', 443))",
    "an address of the internet over IPv6": "return connected(('2606:4700:4700::1111', 443), socket.AF_INET6)",
    "the metadata server of a cloud": "return connected(('169.254.169.254', 80))",
    "a server of this machine": "return connected(('127.0.0.1', facts['http']))",
    "a server of this machine at its other address": "return connected((facts['address'], facts['http']))",
    "a server of this machine over IPv6": "return connected(('::1', facts['http']), socket.AF_INET6)",
    "all ports of this machine": """
        allowed = {bridge_port, tools_port}
        for port in range(1, 65536):
            if port in allowed:
                continue
            with socket.socket() as made:
                if made.connect_ex(("127.0.0.1", port)) == 0:
                    # a port that connects to itself is no server
                    return made.getsockname() != made.getpeername() and port
        """,
    "an abstract Unix socket": "return connected('\\0' + facts['abstract'], socket.AF_UNIX)",
    "a raw socket": "return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "a packet socket": "return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    # ---- the bridge as a proxy
    "the bridge by an absolute address": "return says_other(asked(bridge_port, f'http://{other}/', Host=other))",
    "the bridge by an absolute address without its host": "return says_other(asked(bridge_port, f'http://{other}/v1/models'))",
    "the bridge by CONNECT": "return says_other(asked(bridge_port, other, 'CONNECT', Host=other))",
    "the bridge by two slashes": "return says_other(asked(bridge_port, f'//{other}/'))",
    "the bridge by an upgrade": """
        return " 101 " in asked(bridge_port, '/v1/models', Connection='Upgrade', Upgrade='websocket')
        """,
    "the bridge with another host": """
        return facts['secret'] in asked(bridge_port, '/v1/models', Host=other)
        """,
    "the bridge with a forwarded host": """
        return facts['secret'] in asked(bridge_port, '/v1/models', X_Forwarded_Host=other,
            X_Forwarded_For='127.0.0.1', Forwarded=f'host={other}', X_Original_URL=f'http://{other}/',
            X_Rewrite_URL='/admin')
        """,
    "the bridge by a picture's address": """
        answer = post(BRIDGE + '/v1/chat/completions', {'model': 'm', 'messages': [{'role': 'user',
            'content': [{'type': 'image_url', 'image_url': {'url': f'http://{other}/'}}]}]}, KEY)
        return 'choices' in answer
        """,
    "the bridge by a tool of the provider": """
        answer = post(BRIDGE + '/v1/responses', {'model': 'm', 'input': 'x',
            'tools': [{'type': 'web_search'}]}, KEY)
        return 'output' in answer and facts['secret'] in json.dumps(answer)
        """,
    "the bridge by a smuggled request": """
        inner = f'GET http://{other}/ HTTP/1.1\\r\\nHost: {other}\\r\\n\\r\\n'
        return facts['secret'] in raw(bridge_port, 'POST /v1/models HTTP/1.1\\r\\nHost: x\\r\\n'
            f'Authorization: Bearer {KEY}\\r\\nContent-Length: 0\\r\\nTransfer-Encoding: chunked\\r\\n'
            '\\r\\n0\\r\\n\\r\\n', inner.encode())
        """,
    "the bridge by a path upwards": "return facts['secret'] in asked(bridge_port, '/v1/../../etc/passwd')",
    "the tool server by an absolute address": "return says_other(asked(tools_port, f'http://{other}/', key=TOKEN, Host=other))",
    "the tool server by CONNECT": "return says_other(asked(tools_port, other, 'CONNECT', key=TOKEN, Host=other))",
    # ---- other doors and tokens
    "the bridge of another run": "return connected(('127.0.0.1', facts['bridge']))",
    "the tool server of another run": "return connected(('127.0.0.1', facts['tools']))",
    "the bridge without a token": "return says_other(asked(bridge_port, '/v1/models', key=''))",
    "the bridge with the tool server's token": "return says_other(asked(bridge_port, '/v1/models', key=TOKEN))",
    "the tool server with the bridge's token": "return says_other(asked(tools_port, '/tools', key=KEY))",
    "the tool server with another run's token": "return says_other(asked(tools_port, '/tools', key=facts['token']))",
    "the tool server with the token of the step before": """
        old = pathlib.Path('token').read_text()
        return old == TOKEN or says_other(asked(tools_port, '/tools', key=old))
        """,
    "the tool server of the step before": """
        old = int(pathlib.Path('port').read_text())
        return old not in (bridge_port, tools_port) and connected(('127.0.0.1', old))
        """,
    # ---- files
    "the run's folder": "return os.listdir(facts['run'])",
    "files of other episodes": "return os.listdir(facts['run'] + '/episodes')",
    "folders of other steps": "return os.listdir(facts['run'] + '/files/programs')",
    "the market": "return os.listdir(facts['market'])",
    "ktdeval's cache": "return os.listdir(facts['cache'])",
    "ktdeval's code": "import ktdeval",
    "the folder that it was started from": "return os.listdir(facts['folder'])",
    "any file with the mask key": """
        return found_in((os.path.join(top, name) for root in ('/home', '/root', '/tmp', '/var', '/work',
            '/dev/shm', '/run', '/mnt', '/opt') for top, _, names in os.walk(root) for name in names),
            '5eed' * 8)
        """,
    "a path through /proc/self/root": "return os.listdir('/proc/self/root' + facts['run'])",
    "a path through the working folder of its parent": "return os.listdir(f'/proc/{os.getppid()}/cwd/..' + facts['run'])",
    "mounts that name the run": "return facts['run'] in open('/proc/self/mountinfo').read()",
    # ---- processes
    "variables of any process": "return found_in(glob.glob('/proc/[0-9]*/environ'), facts['secret'])",
    "variables of its own": "return [name for name in os.environ if facts['secret'] in os.environ[name]]",
    "command lines that name the run": "return found_in(glob.glob('/proc/[0-9]*/cmdline'), facts['run'])",
    "process of ktdeval": "os.kill(facts['pid'], 0); return True",
    "memory of its parent": "open(f'/proc/{os.getppid()}/mem', 'rb').read(1); return True",
    "ptrace of its parent": "return libc.ptrace(16, os.getppid(), 0, 0) == 0",
    "memory of ktdeval": "open(f\"/proc/{facts['pid']}/mem\", 'rb'); return True",
    "open files of its parent": "return [os.readlink(p) for p in glob.glob(f'/proc/{os.getppid()}/fd/*')]",
    "open files that it was given": """
        return [path for path in glob.glob('/proc/self/fd/*')
                if int(path.rpartition('/')[2]) > 2 and os.path.exists(path)
                and 'proc' not in os.readlink(path)]
        """,
    "a user namespace": "return libc.unshare(0x10000000) == 0",
    "a mount": "return libc.mount(b'none', b'/mnt', b'tmpfs', 0, None) == 0",
    "another root": "os.chroot('/'); return True",
    "a kernel keyring": "return libc.syscall(248, b'user', b'x', b'y', 1, -3) > 0",
    "setuid": "os.setuid(0); return True",
    "host's name": "return socket.gethostname() == facts['hostname']",
}


def program() -> str:
    """A program that makes each attempt, and prints how it ended."""
    parts = [HEAD, LIBRARY, "attempts = {}\n"]
    for number, (name, body) in enumerate(ATTEMPTS.items()):
        code = indent(dedent(body).strip(), "    ")
        parts.append(f"def attempt_{number}():\n{code}\nattempts[{name!r}] = attempt_{number}\n")
    parts.append(
        dedent(
            """
            def tried(attempt):
                try:
                    return repr(attempt() or None)
                except (OSError, ImportError) as error:
                    return f"denied: {error}"
                except Exception as error:
                    return f"{type(error).__name__}: {error}"

            assert says_other(asked(bridge_port, "/v1/models")), "the way that is allowed"
            assert says_other(asked(tools_port, "/tools", key=TOKEN)), "the way that is allowed"
            if os.path.exists("token"):
                results = {name: tried(attempt) for name, attempt in attempts.items()}
                open("results.json", "w").write(json.dumps(results))
            open("token", "w").write(TOKEN)
            open("port", "w").write(str(tools_port))
            submit()
            """
        )
    )
    return "".join(parts)


class _Secret(AnsweringHandler):
    """A page of this machine, whose readers are kept."""

    def do_GET(self) -> None:
        self.server.readers.append(self.path)  # type: ignore[attr-defined]
        self.answer(self.server.secret.encode())  # type: ignore[attr-defined]

    do_POST = do_CONNECT = do_GET


SECRET = "secret-of-the-host-51c7"


@pytest.fixture(scope="module")
def results(
    bwrap: object, market: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """How each attempt ended inside; `readers`: who asked the host's page."""
    place = Place(tmp_path_factory.mktemp("escapes"), market)
    page = ThreadingHTTPServer(("0.0.0.0", 0), _Secret)
    page.daemon_threads = True
    page.secret, page.readers = SECRET, []  # type: ignore[attr-defined]
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0ktdeval-test-{os.getpid()}")
    abstract.listen()

    with running_server(page), bridge(TEXT) as other, tools() as another, abstract:
        facts = {
            "secret": SECRET,
            "http": page.server_address[1],
            "address": socket.gethostbyname(socket.gethostname()),
            "hostname": socket.gethostname(),
            "abstract": f"ktdeval-test-{os.getpid()}",
            "bridge": other.server.server_address[1],
            "tools": another.port,
            "token": TOKEN,
            "run": str(place.run),
            "folder": str(place.folder),
            "market": str(market),
            "cache": os.environ["KTDEVAL_CACHE_DIR"],
            "pid": os.getpid(),
        }
        (place.folder / "facts.json").write_text(json.dumps(facts))
        os.environ["KTDEVAL_TEST_SECRET"] = SECRET
        try:
            place.write(program(), head="")
            done = place.again(steps=2, sandbox="bwrap", run="python3 trader.py facts.json")
        finally:
            del os.environ["KTDEVAL_TEST_SECRET"]

        assert done.code == 0, done
        assert [step.provenance for step in place.steps] == ["model", "model"], place.entries
        threading.Event().wait(0.1)
        yield {**_written(place), "readers": list(page.readers)}  # type: ignore[attr-defined]


def _written(place: Place) -> dict[str, Any]:
    """The results that the program wrote, from the archive of its folder."""
    for path in (place.run / "files").rglob("*"):
        if path.is_file() and b"a name of the internet" in path.read_bytes():
            found = path.read_bytes()
            if found.startswith(b"{"):
                written: dict[str, Any] = json.loads(found)
                return written
    raise AssertionError("the program wrote no results")


@pytest.mark.parametrize("name", ATTEMPTS)
def test_no_way_out_of_a_step_passes(results: dict[str, Any], name: str) -> None:
    ended = results[name]
    assert ended == "None" or ended.startswith("denied: ")


def test_nobody_inside_read_a_page_of_the_host(results: dict[str, Any]) -> None:
    assert results["readers"] == []
