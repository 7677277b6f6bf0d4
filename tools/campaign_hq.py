#!/usr/bin/env python3
"""Runs the tasks of `drnn reproduce all` that are not done yet as tasks of HyperQueue.

    pip install hyperqueue
    python tools/campaign_hq.py --drnn target/release/drnn --data DIR --out out/paper
    python tools/campaign_hq.py --drnn target/release/drnn --data DIR --out out/trial --quick

Starts a server and workers on this machine, or submits to the server that --server-dir names. Each
task writes its own results file, and continues from its checkpoints if it is started again, so the
command can be repeated until nothing is left. `--array` submits the whole plan as a task array, from
which HQ_TASK_ID selects, as `hq submit --array 1-N` does. The exit code is 1 if a task failed.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--drnn", default="drnn", help="the program")
    parser.add_argument("--data", help="folder with the data sets")
    parser.add_argument("--out", default="out/paper", help="folder of the campaign")
    parser.add_argument("--quick", action="store_true", help="the shrunken campaign")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--task", action="append", default=[], help="only tasks whose ids begin with this")
    parser.add_argument("--cores", type=int, default=1, help="cores of each task")
    parser.add_argument("--workers", type=int, default=1, help="workers to start, with all cores together")
    parser.add_argument("--server-dir", help="of a running server; its workers are used")
    parser.add_argument("--array", action="store_true", help="select tasks by HQ_TASK_ID")
    return parser.parse_args()


def command(args):
    """The command without a task."""
    drnn = args.drnn if os.sep not in args.drnn else str(pathlib.Path(args.drnn).resolve())
    words = [drnn, "reproduce", "all", "--out", str(pathlib.Path(args.out).resolve())]
    words += ["--seeds", str(args.seeds), "--threads", str(args.cores)]
    if args.data:
        words += ["--data", str(pathlib.Path(args.data).resolve())]
    return words + ["--quick"] * args.quick


def listed(args):
    """Tasks that are not done, in the order of the plan."""
    words = command(args) + ["--list", "--json"]
    for task in args.task:
        words += ["--task", task]
    lines = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    tasks = [json.loads(line) for line in lines]
    return tasks, [task for task in tasks if not task["done"]]


def job(args, logs):
    from hyperqueue import Job
    from hyperqueue.ffi.protocol import ResourceRequest

    tasks, pending = listed(args)
    print(f"{len(tasks)} tasks, {len(pending)} to do", file=sys.stderr)
    made = Job()

    def add(name, words):
        resources = ResourceRequest(cpus=args.cores)
        stdio = {kind: str(logs / f"{name}.{kind}") for kind in ("stdout", "stderr")}
        made.program(words, name=name, resources=resources, **stdio)

    if args.array:
        # Numbers of tasks begin with 1, those of HyperQueue's with 0: the first one prints the plan.
        add("plan", command(args) + ["--list"])
        for task in tasks:
            add(f"number-{task['number']}", command(args))
    else:
        for task in pending:
            add(task["task"].replace("/", "."), command(args) + ["--task", task["task"]])
    return made, len(tasks) if args.array else len(pending)


def main():
    args = arguments()
    from hyperqueue import Client, LocalCluster
    from hyperqueue.cluster import WorkerConfig

    logs = pathlib.Path(args.out).resolve() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    made, count = job(args, logs)
    if count == 0:
        return
    if args.server_dir:
        client = Client(args.server_dir)
        failed = not client.wait_for_jobs([client.submit(made)], raise_on_error=False)
    else:
        with LocalCluster() as cluster:
            for _ in range(args.workers):
                cluster.start_worker(WorkerConfig(cores=max(1, (os.cpu_count() or 1) // args.workers)))
            client = cluster.client()
            failed = not client.wait_for_jobs([client.submit(made)], raise_on_error=False)
    _, left = listed(args)
    print(f"{len(left)} tasks left; logs in {logs}", file=sys.stderr)
    sys.exit(1 if failed or left else 0)


if __name__ == "__main__":
    main()
