#!/usr/bin/env python3
"""Finds words that drnn does not use where the field has its own (standard library only).

    python3 tools/check_words.py              # the whole repository
    python3 tools/check_words.py crates/drnn  # some files or folders

Prints `file:line: word -> replacement: text` for each, counts them, and exits with 1 if there are
any. Identifiers are read word by word: `asked_rows` and `AskedRows` contain "asked".

A rule is a regular expression, its replacement, and where needed the folders in which it holds and
the phrases that it leaves alone. In CHANGELOG.md, lines with ` -> ` may cite old names.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".rs", ".cu", ".cuh", ".cpp", ".h", ".py", ".md", ".toml", ".html", ".js", ".css", ".sh"}
NAMES = {"openapi.json", ".ci/run"}
# Not prose or code of ours: recorded results, fixtures, and this list.
EXCLUDED = ("results/", "tools/check_words.py")
FIXTURES = ("/tests/golden/", "/tests/regressions/", "/tests/plans/", "/tests/data/")


class Rule:
    def __init__(self, pattern, replacement, within=("",), allowed=(), exact=False):
        """`exact`: matched against the line as it is; otherwise in lower case, identifiers split."""
        self.pattern, self.replacement, self.exact = re.compile(pattern), replacement, exact
        self.within = within
        self.allowed = [re.compile(phrase, re.IGNORECASE) for phrase in allowed]

    def find(self, path, raw, words):
        if not any(part in path for part in self.within):
            return None
        line = raw if self.exact else words
        for phrase in self.allowed:
            line = phrase.sub(" ", line)
        found = self.pattern.search(line)
        return found and found.group(0)


CUDA = ("crates/drnn-cuda/",)
RULES = [
    # Verbs and nouns with a private sense.
    Rule(r"\buntold\b", "empty sentinel"),
    Rule(r"\btold\b", "reported, sent, notified"),
    Rule(r"\btell(s|ing)?\b", "report, send, state", allowed=[r"\btell(s|ing)? (\w+ )+apart"]),
    Rule(r"\b(asked|asking|asks?)\b", "requested, selected"),
    Rule(r"\brooms?\b", "capacity, workspace, space, permits"),
    Rule(r"\bbeside\b", "next to, alongside, together with, side stream"),
    Rule(
        r"\bbehind\b",
        "after, later than",
        allowed=[
            r"behind (an? |the )?(\w+ )?(proxy|proxies|firewall|feature|http|fast ?api)",
            r"lag\w* behind",
        ],
    ),
    Rule(r"\bways? (back|forward)\b", "backward, forward"),
    Rule(r"\b(who|what|which)ever (trains|resumes|asks|reads|writes|calls|uses)\b", "the caller, users"),
    Rule(r"\bwhoever\b", "anyone who, users, the caller"),
    Rule(r"\bcome again\b", "retry later"),
    Rule(r"\b(make|makes|made|making) way\b", "is evicted, is closed"),
    Rule(r"\broot of it\b", "RMSE"),
    Rule(r"\bfound / right\b", "recall / precision"),
    # A text that should be a number may be called "no number" in messages.
    Rule(
        r"\bno numbers?\b",
        "NaN, not finite",
        allowed=[r"\b(holds|has) no numbers?", r"[`\"}] ?is no number"],
    ),
    Rule(r"\bnone is\b", "say it positively"),
    Rule(r"\ba moment\b", "the time, or leave it out"),
    Rule(r"\b(hold|holds|held|holding) (\w+ ){0,4}against\b", "compare with"),
    Rule(r"\bkept for (the )?back", "saved for backward"),
    Rule(r"\bwebsocket it is\b", "expected a WebSocket upgrade"),
    Rule(r"\bbreath\b", "ACCEPT_BACKOFF"),
    Rule(r"\bgang\b", "parallel region, team"),
    Rule(r"\bhall\b", "rendezvous"),
    # Names of types and constants.
    Rule(r"\b(MOST|LEAST|LONGEST|SHORTEST)_", "MAX_, MIN_", exact=True),
    Rule(r"\b(LONGEST|SHORTEST|MOST|LEAST)\b", "MAX_LEN, MIN_LEN", exact=True),
    Rule(
        r"(\b(let|fn|mut) (most|least)\b|\.(most|least)\b|(?<!at )\b(most|least): )",
        "max, min, max_len",
        within=(".rs", ".cu", ".py"),
        exact=True,
    ),
    Rule(r"\bRefusal\b", "ApiError", exact=True),
    Rule(r"\bSaid\b", "PendingMessage", exact=True),
    # Words of files.
    Rule(
        r"\b(un)?packed\b",
        "compressed",
        within=("/read/", "docs/LIMITS.md", "crates/drnn-cli/"),
        allowed=[r"packed[ -](weights|rows|gates|steps|copy|for|refs)"],
    ),
    # Words of losses: what a network gives is an output, or logits before the softmax.
    Rule(r"\banswers?\b", "outputs, logits", within=("/loss", "losses.rs")),
    # Kernels and the code that launches them.
    Rule(r"\blook4\b", "ld_relaxed_v4", CUDA),
    Rule(r"\bseen by products\b", "fence_proxy_async_shared", CUDA),
    Rule(r"\b(leave|take) registers\b", "warpgroup_reg_dealloc, warpgroup_reg_alloc", CUDA),
    Rule(r"\bfirst threads meet\b", "named_barrier_sync", CUDA),
    Rule(r"\bbring(s|ing)?\b", "load", CUDA),
    Rule(r"\b(MULTIPLIERS|LOADERS)\b", "consumer, producer warps", CUDA, exact=True),
    Rule(r"\bTogether\b", "CooperativeKernel", ("crates/drnn-cuda/src/persistent/",), exact=True),
    Rule(r"\bquiet\b", "no_capture_guard", CUDA),
    Rule(r"\bwhole\(|\bbounded\(", "half_to_float, clamp_to_half", ("/kernels/",), exact=True),
]


def tracked(arguments):
    files = subprocess.run(
        ["git", "ls-files", "-z", "--", *arguments], cwd=ROOT, check=True, capture_output=True
    ).stdout.decode()
    for name in filter(None, files.split("\0")):
        skipped = name.startswith(EXCLUDED) or any(part in "/" + name for part in FIXTURES)
        path = ROOT / name
        if skipped or not path.is_file():
            continue
        if path.suffix in SUFFIXES or name in NAMES or path.name in NAMES:
            yield name, path


def words_of(line):
    """In lower case, identifiers split: `AskedRows`, `asked_rows` -> `asked rows`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", line).lower()


def main():
    count = 0
    for name, path in tracked(sys.argv[1:] or ["."]):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if name == "CHANGELOG.md" and " -> " in line:
                continue
            words = words_of(line)
            for rule in RULES:
                found = rule.find(name, line, words)
                if found:
                    count += 1
                    text = line.strip()[:100]
                    print(f"{name}:{number}: {found.strip()} -> {rule.replacement}: {text}")
        file_words = words_of(name.replace("/", " ").replace(".", " "))
        for rule in RULES:
            found = not rule.exact and rule.find(name, name, file_words)
            if found:
                count += 1
                print(f"{name}: {found} -> {rule.replacement}: (the name of the file)")
    if count:
        print(f"{count} words to replace; tools/check_words.py has the list", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
