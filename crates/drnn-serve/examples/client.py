#!/usr/bin/env python3
"""A client of `drnn serve`, to use or to start from. Needs Python 3.9; `stream` also needs the package websockets.

    client.py models                                            the models that are served
    client.py run chars-en "Th_ old man" "liv_s in Paris"       whole texts, a prediction per line
    client.py stream tagger-en < words.txt                      standard input, predictions as soon as they are due

For models that read text, lines are text. For others a line is an element, as JSON or as numbers separated by spaces
or commas. A blank line ends a sequence, and so does the end of the input.
"""

import argparse
import asyncio
import json
import os
import sys
import urllib.error
import urllib.request


def request(options, path, body=None):
    """The JSON at a path; an error of the server exits with its message."""
    call = urllib.request.Request(options.url + path, data=body and json.dumps(body).encode())
    if body:
        call.add_header("Content-Type", "application/json")
    if options.token:
        call.add_header("Authorization", "Bearer " + options.token)
    try:
        with urllib.request.urlopen(call) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.code}: {json.load(error)['error']['message']}")
    except urllib.error.URLError as error:
        sys.exit(f"{options.url}: {error.reason}")


def models(options):
    for model in request(options, "/v1/models")["models"]:
        how = f"delay {model['delay']}" if model["streams"] else "whole sequences only"
        print(f"{model['name']}\t{how}\t{model['description']}")


def run(options):
    answers = request(options, "/v1/run", {"model": options.model, "texts": options.texts})["answers"]
    for number, sequence in enumerate(answers):
        for answer in sequence:
            print(json.dumps({"sequence": number, **answer}, ensure_ascii=False))


def message(model, line):
    """A line of standard input as a message of the stream."""
    text = line.rstrip("\r\n")
    if not text.strip():
        return {"flush": True}
    if model["reads"]["kind"] in ("characters", "words"):
        return {"text": text}
    try:
        return {"element": json.loads(text)}
    except ValueError:
        return {"element": [float(number) for number in text.replace(",", " ").split()]}


async def send(socket, model, state):
    """Standard input to the server; the last sequence ends with it."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        frame = message(model, line)
        state["sequences"] += "flush" in frame
        await socket.send(json.dumps(frame))
    state["ended"] = True
    await socket.send(json.dumps({"flush": True}))


async def stream(options):
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidStatus
    except ImportError:
        sys.exit("stream needs the package websockets: pip install websockets")
    url = f"{options.url.replace('http', 'ws', 1)}/v1/stream?model={options.model}"
    headers = {"Authorization": "Bearer " + options.token} if options.token else {}
    try:
        async with connect(url, additional_headers=headers) as socket:
            model = json.loads(await socket.recv())["ready"]
            print(model["description"], file=sys.stderr)
            state = {"sequences": 1, "ended": False}
            sending = asyncio.create_task(send(socket, model, state))
            async for frame in socket:
                frame = json.loads(frame)
                if "error" in frame:
                    print(f"error: {frame['error']['message']}", file=sys.stderr)
                elif "flushed" in frame:
                    if state["ended"] and frame["flushed"]["sequence"] + 1 == state["sequences"]:
                        break
                else:
                    print(json.dumps(frame, ensure_ascii=False), flush=True)
            await sending
    except InvalidStatus as refused:
        sys.exit(f"{refused.response.status_code}: {json.loads(refused.response.body)['error']['message']}")
    except ConnectionClosed as closed:
        sys.exit(f"closed: {closed}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--token-file", help="or the token itself in the variable DRNN_TOKEN")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("models")
    command = commands.add_parser("run")
    command.add_argument("model")
    command.add_argument("texts", nargs="+")
    commands.add_parser("stream").add_argument("model")
    options = parser.parse_args()
    options.token = os.environ.get("DRNN_TOKEN")
    if options.token_file:
        with open(options.token_file, encoding="utf-8") as file:
            options.token = file.read().strip()
    if options.command == "stream":
        asyncio.run(stream(options))
    else:
        dict(models=models, run=run)[options.command](options)


if __name__ == "__main__":
    main()
