#!/usr/bin/env python3
"""Requests per second: `drnn serve` against ONNX Runtime in FastAPI and uvicorn, the same model, the same run.

    python bench/serve.py target/release/drnn [--rounds 5] [--seconds 5] [--connections 32] [--cpus 0,1] [--json F]

Needs onnxruntime, numpy, fastapi, uvicorn, orjson, uvloop and httptools; the load comes from `wrk` (Debian's package), or
where there is none from drnn's own load program (`cargo build --release -p drnn-serve --example load`).

Both servers run all the time and get requests alternately, the order reversed every other round; a warm-up is
not counted. Outputs are compared before that. The peer runs in its best configuration: orjson, uvloop, no
validation, and the better of one process with all threads and one process per core. Its replies are plain lists,
shorter than drnn's.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy

HERE = pathlib.Path(__file__).resolve().parent
# Sequences of a request, elements of each.
CASES = {"one sequence of 50": (1, 50), "8 sequences of 100": (8, 100)}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def send(port, body):
    url = f"http://127.0.0.1:{port}/v1/run"
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["answers"]


def await_port(port, process):
    for _ in range(300):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            sys.exit("a server ended before it served")
        time.sleep(0.1)
    sys.exit("a server does not respond")


def rate(options, port, body, seconds, folder):
    """Requests per second, and p99 in milliseconds."""
    if options.wrk:
        script = folder / "post.lua"
        text = f"wrk.method='POST'\nwrk.headers['Content-Type']='application/json'\nwrk.body=io.open('{body}'):read('*a')\n"
        script.write_text(text + "done=function(s,l,r) print(s.requests/s.duration*1e6, l:percentile(99)/1000, s.errors.status) end\n")
        command = [options.wrk, "-t1", f"-c{options.connections}", f"-d{seconds}s", "-s", script]
        out = subprocess.run([*command, f"http://127.0.0.1:{port}/v1/run"], capture_output=True, text=True, check=True)
        found, p99, bad = map(float, out.stdout.strip().splitlines()[-1].split())
    else:
        command = [options.load, "http", "--address", f"127.0.0.1:{port}", "--connections", options.connections]
        command += ["--seconds", seconds, "--body", body]
        out = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
        line = json.loads(out.stdout)
        found, p99, bad = line["requests_per_second"], line["p99_ms"], line["failed"]
    if bad:
        sys.exit(f"{bad} requests failed")
    return found, p99


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("drnn", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--cpus", default="0,1", help="the cores that all processes share")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.wrk = shutil.which("wrk")
    options.load = options.drnn.resolve().parent / "examples" / "load"
    os.sched_setaffinity(0, [int(cpu) for cpu in options.cpus.split(",")])  # inherited by the processes started here
    drnn, cores = options.drnn.resolve(), len(options.cpus.split(","))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model, graph = folder / "m.safetensors", folder / "m.onnx"
        net = f"--net dlstm --units {options.units} --delay 5 --inputs 8 --outputs 4".split()
        subprocess.run([drnn, "init", *net, "-o", model], check=True, capture_output=True)
        subprocess.run([drnn, "export", model, "--onnx", graph], check=True, capture_output=True)
        ports = {name: free_port() for name in ["drnn", "peer, 1 process", f"peer, {cores} processes"]}
        commands = {"drnn": [drnn, "serve", model, "--listen", f"127.0.0.1:{ports['drnn']}", "--log", "warn"]}
        for name, workers in [("peer, 1 process", 1), (f"peer, {cores} processes", cores)]:
            command = [sys.executable, "-m", "uvicorn", "serve_peer:app", "--app-dir", HERE, "--port", ports[name]]
            command += ["--workers", workers, "--log-level", "warning", "--no-access-log"]
            commands[name] = command + ["--loop", "uvloop", "--http", "httptools"]
        servers = []
        try:
            for name, command in commands.items():
                threads = str(cores) if "1 process" in name else "1"
                variables = dict(os.environ, PEER_MODEL=str(graph), PEER_THREADS=threads)
                servers.append(subprocess.Popen(list(map(str, command)), env=variables))
                await_port(ports[name], servers[-1])
            results = measure(options, ports, folder)
        finally:
            for server in servers:
                server.terminate()
            for server in servers:
                server.wait()
    if options.json:
        about = dict(date=datetime.datetime.now(datetime.timezone.utc).isoformat(), command=sys.argv, cpus=options.cpus)
        about |= dict(load="wrk" if options.wrk else "load", connections=options.connections, units=options.units)
        options.json.write_text(json.dumps(about | dict(cases=results), indent=1) + "\n")


def measure(options, ports, folder):
    results = {}
    for case, (rows, steps) in CASES.items():
        x = numpy.random.default_rng(1).standard_normal((rows, steps, 8)).astype(numpy.float32)
        body = folder / "body.json"
        body.write_text(json.dumps({"sequences": x.round(4).tolist()}))
        found = {name: send(port, body.read_bytes()) for name, port in ports.items()}
        ours = numpy.array([[output["values"] for output in row] for row in found["drnn"]])
        for name, outputs in found.items():
            if name != "drnn" and abs(numpy.array(outputs) - ours).max() > 1e-4:
                sys.exit(f"{name} gives other outputs")
        rates = {name: [] for name in ports}
        for port in ports.values():
            rate(options, port, body, 1, folder)
        for turn in range(options.rounds):
            names = list(ports) if turn % 2 == 0 else list(ports)[::-1]
            for name in names:
                rates[name].append(rate(options, ports[name], body, options.seconds, folder))
                time.sleep(0.2)  # idle thread pools spin
        medians = {name: statistics.median(found for found, _ in each) for name, each in rates.items()}
        best = max((name for name in medians if name != "drnn"), key=medians.get)
        ratios = [ours[0] / peer[0] for ours, peer in zip(rates["drnn"], rates[best])]
        print(f"{case}, {options.connections} connections:")
        for name, each in rates.items():
            print(f"  {name:18} {medians[name]:9.0f} requests/s, p99 {statistics.median(p for _, p in each):7.2f} ms")
        print(f"  drnn / {best}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        results[case] = dict(rates=rates, best_peer=best, ratio=statistics.median(ratios))
    return results


if __name__ == "__main__":
    main()
