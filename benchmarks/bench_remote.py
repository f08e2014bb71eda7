"""A run of many episodes at an S3 server (moto's, on this machine): seconds, memory, requests and
bytes to list, filter and load its episodes.

python benchmarks/bench_remote.py [--episodes 10000]

Each line is a process of its own with an empty local copy. The server is slow next to a real one in
listing (it looks at every key for each page), and fast in that nothing is far away: requests and
bytes are the figures to keep.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import boto3
import s3fs  # noqa: F401 - the driver, imported before the clock starts
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from ktdeval.runner import RunFolder, local_run_path
from ktdeval.runner.records.completion_marks import EpisodeMark
from ktdeval.runner.records.run_manifest import RunManifest
from ktdeval.runner.records.transcript_counts import Said
from ktdeval.runner.run_maintenance import EpisodeFilter, check_run, list_episodes
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.values import dumps_pretty, sha256_hex, to_plain

BUCKET = "runs"
RUN = "grid"
MODELS, TASKS, WINDOWS, SEEDS = 10, 10, 10, 10  # of 10,000 episodes
CONTENT_BYTES = {"ledger.parquet": 1_000, "transcript.jsonl.zst": 4_000}

MEASURES = {
    "bare": "all keys by boto3 alone",
    "list": "list all episodes with their states",
    "filter": "list those of one model in one window that are complete",
    "card": "plan and cards, as `card show` reads them",
    "load": "load the marks of one model in one window",
    "check": "check all files against their marks",
}


def main() -> None:
    """Start the server, and print a line for each measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--only", default="bare,list,filter,card,load")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return

    receiver, sender = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    server = context.Process(target=serve, args=(sender, options.episodes), daemon=True)
    server.start()
    port = receiver.recv()
    print(f"{options.episodes:,} episodes at {BUCKET}/{RUN}")
    print(f"{'':60} seconds  MiB over import  requests  MiB received")
    for name in options.only.split(","):
        receiver.send("reset")
        receiver.recv()
        figures = measured(name, port)
        receiver.send("count")
        requests, sent = receiver.recv()
        print(
            f"{MEASURES[name]:60} {figures['seconds']:7.2f} {figures['mib']:16.0f}"
            f" {requests:9,} {sent / 2**20:13.1f}   {figures['result']}"
        )

    server.terminate()


def measured(name: str, port: int) -> dict[str, Any]:
    """Return the figures of one measure, of a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "KTDEVAL_CACHE_DIR": cache,
        }
        command = [sys.executable, __file__, "--measure", name]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        figures: dict[str, Any] = json.loads(done.stdout)
        return figures


def measure(name: str) -> dict[str, Any]:
    """Measure in this process."""

    before = peak_mib()
    began = time.perf_counter()
    if name == "bare":
        pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        keys = sum(len(page["Contents"]) for page in pages)
        return {
            "seconds": time.perf_counter() - began,
            "mib": peak_mib() - before,
            "result": keys,
        }

    run = RunFolder.load(local_run_path(f"s3://{BUCKET}/{RUN}"))
    chosen = EpisodeFilter(model="provider/model-3", window="W4", state="complete")
    if name == "list":
        states = Counter(row.state for row in list_episodes(run, EpisodeFilter()))
        result: Any = dict(states)
    elif name == "filter":
        result = sum(1 for _ in list_episodes(run, chosen))
    elif name == "load":
        rows = {row.id for row in list_episodes(run, chosen)}
        result = sum(run.mark(spec).steps for spec in run.manifest.specs if spec.id in rows)
    elif name == "check":
        result = sum(1 for _ in check_run(run))
    else:
        result = len(list(run.path.glob("cards/*.json")))

    seconds = time.perf_counter() - began
    return {"seconds": seconds, "mib": peak_mib() - before, "result": result}


def peak_mib() -> float:
    """Return the most memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def serve(pipe: Connection, episodes: int) -> None:
    """Run the server with the run in it, and tell what it was asked; the body of its process."""

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    counts = {"requests": 0, "bytes": 0}
    app = DomainDispatcherApplication(create_backend_app)

    def counted(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        counts["requests"] += 1
        for piece in app(environ, start):
            counts["bytes"] += len(piece)
            yield piece

    server = make_server("127.0.0.1", 0, counted, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{server.server_port}",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    client.create_bucket(Bucket=BUCKET)
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for key, data in files_of(episodes):
        backend.put_object(BUCKET, f"{RUN}/{key}", data)

    pipe.send(server.server_port)
    while True:
        if pipe.recv() == "reset":
            counts.update(requests=0, bytes=0)
            pipe.send(None)
        else:
            pipe.send((counts["requests"], counts["bytes"]))


def files_of(episodes: int) -> Iterable[tuple[str, bytes]]:
    """Yield the files of a run whose last hundredth has not begun."""

    first = EpisodeSpec(
        task="task",
        task_version="1",
        task_hash="0" * 64,
        snapshot="f" * 64,
        mask="blinded",
        mode="open_research",
        window=Window("W1", "2024-04-01", "2024-06-05"),
        model="provider/model",
        model_args={"temperature": 0.7},
        agent="react",
        agent_args={},
        call={"temperature": 0.7, "max_output_tokens": 4096},
        seed=0,
        mask_key="5eed" * 8,
    )
    specs = []
    for number in range(episodes):
        rest, seed = divmod(number, SEEDS)
        rest, window = divmod(rest, WINDOWS)
        rest, task = divmod(rest, TASKS)
        spec = replace(
            first,
            seed=seed + SEEDS * (rest // MODELS),
            window=Window(f"W{window}", "2024-04-01", "2024-06-05"),
            task=f"task-{task}",
            model=f"provider/model-{rest % MODELS}",
        )
        specs.append(spec)

    manifest = RunManifest(
        {"data": "synthetic", "data_args": {}}, "f" * 64, (), "strict", tuple(specs)
    )
    yield "manifest.json", dumps_pretty(manifest.to_json()).encode()
    content = {name: os.urandom(size) for name, size in CONTENT_BYTES.items()}
    hashes = {name: sha256_hex(data) for name, data in content.items()}
    for spec in specs[: episodes - episodes // 100]:
        mark = EpisodeMark(
            spec=spec.to_json(), steps=43, wall_s=1.0, sha256=hashes, said=Said(43, 0, {})
        )
        yield f"episodes/{spec.id}/episode.json", dumps_pretty(to_plain(mark)).encode()
        for name, data in content.items():
            yield f"episodes/{spec.id}/{name}", data


if __name__ == "__main__":
    main()
