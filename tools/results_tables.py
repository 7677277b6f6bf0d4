#!/usr/bin/env python3
"""Writes the tables of docs/PAPER.md from results/, between their markers. Needs Python only.

    drnn report results/paper && python tools/results_tables.py
"""

import json
import pathlib
import re
import statistics
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pos():
    """results/pos-en: accuracy on words in per cent, next to the paper's."""
    paper = {}
    (table,) = (ROOT / "crates").rglob("paper-pos.csv")
    for line in table.read_text().splitlines()[1:]:
        lang, char, char_delay, word, word_delay, dev, _, test, _ = line.split(",")
        name = lambda net, delay: f"{net}-{delay}" if net == "dlstm" else net
        paper[lang, name(char, char_delay), name(word, word_delay)] = dev, test
    title = lambda net: {"lstm": "LSTM", "bilstm": "Bi-LSTM"}.get(net) or f"d-LSTM {net.split('-')[1]}"
    latency = {"lstm": "none", "bilstm": "the whole sentence"}
    rows = [
        "| networks over characters / words | latency | dev | test | paper, dev | paper, test |",
        "|---|---|--:|--:|--:|--:|",
    ]
    results = json.loads((ROOT / "results/pos-en/pos.json").read_text())
    for run in sorted(results["runs"], key=lambda run: run["dev"]["words"]):
        char, word = run["chars"], run["words"]
        waits = latency.get(word) or f"{word.split('-')[1]} word"
        ours = [f"{100 * run[part]['words']:.2f}" for part in ("dev", "test")]
        cells = [f"{title(char)} / {title(word)}", waits, *ours, *paper[results["lang"], char, word]]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def section(heading):
    """A section of results/paper/report.md, which `drnn report results/paper` writes."""
    text = (ROOT / "results/paper/report.md").read_text()
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, f"results/paper/report.md has no section {heading}"
    return found[1]


def tables(heading):
    """The tables of a section, as lists of rows, which are lists of cells."""
    blocks = re.findall(r"(?:^\|.*\n)+", section(heading), re.M)
    cells = lambda line: [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    return [[cells(line) for line in block.splitlines()] for block in blocks]


def claims():
    """Every claim of the paper with its verdict."""
    (table,) = tables("Claims")
    return table_text(table)


def mlm():
    """Test BPC per masked target next to the paper's, large networks, then small ones."""
    large, small = tables("Masked characters: Table mlm")[:2]
    rows = [
        "| network | size | drnn, BPC | seeds | paper, per target | / sd | paper, as printed |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for size, table in [("large", large), ("small", small)]:
        for name, ours, seeds, paper, _, sds, _, printed, _ in table[2:]:
            rows.append("| " + " | ".join([name, size, ours, seeds, paper, sds, printed]) + " |")
    return "\n".join(rows)


def taggers():
    """Accuracy of the pairs that are trained by the paper's protocol, as the authors count."""
    rows = ["| language | networks | drnn | words alone | seeds | paper | / sd |", "|---|---|--:|--:|--:|--:|--:|"]
    orders = []
    for table in tables("Part-of-speech tagging: Tables pos"):
        language, pairs = table[0][0], []
        for name, paper, ours, words, seeds, sds, *_ in table[2:]:
            if seeds:
                rows.append("| " + " | ".join([language, name, ours, words, seeds, paper, sds]) + " |")
                pairs.append([float(mean.split()[0]) for mean in (ours, paper)])
        if len(pairs) >= 10:
            orders.append(wrapped(order_of(language, pairs)))
    return "\n\n".join(["\n".join(rows), *orders])


def order_of(language, pairs):
    """How well the order of networks agrees with the paper's: Spearman's rank correlation."""
    ranks = [ranks_of(means) for means in zip(*pairs)]
    found = statistics.correlation(*ranks)
    apart = [ours - paper for ours, paper in pairs]
    text = (
        f"{language}, {len(pairs)} pairs of networks: the rank correlation of drnn's accuracies with the "
        f"paper's is {found:.2f}. They are {statistics.mean(apart):+.2f} points apart on average, "
        f"{min(apart):+.2f} to {max(apart):+.2f}."
    )
    return text.replace("-", "\u2212")


def ranks_of(values):
    """Equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(x) + (ordered.count(x) - 1) / 2 for x in values]


def table_text(table):
    return "\n".join("| " + " | ".join(row) + " |" for row in table)


def wrapped(text):
    return "\n".join(textwrap.wrap(text, 100))


def paragraphs(heading, beginning):
    """Those of a section that begin so."""
    return [line for line in section(heading).splitlines() if line.startswith(beginning)]


def speed():
    """What depth costs, and BPC at equal time per character."""
    heading = "Speed: depth, and BPC at equal time"
    reading = [wrapped(text) for text in paragraphs(heading, "At equal time")]
    return "\n\n".join([table_text(tables(heading)[0]), *reading])


def relaxed():
    """A stack that is flattened and trained on: the one that is trained already."""
    heading = "Beyond the paper"
    table = tables(heading)[1]
    return "\n\n".join([table_text(table), *map(wrapped, paragraphs(heading, "Against the stack"))])


def main():
    path = ROOT / "docs/PAPER.md"
    text = path.read_text()
    made = {"claims": claims, "mlm": mlm, "speed": speed, "taggers": taggers, "pos": pos, "relaxed": relaxed}
    for name, make in made.items():
        table = make()
        mark = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- /{name} -->)", re.S)
        text, count = mark.subn(lambda found: found[1] + table + "\n" + found[2], text)
        assert count == 1, f"{path} has no markers for the table {name}"
    path.write_text(text)


if __name__ == "__main__":
    main()
