#!/usr/bin/env python3
"""g2p_en's neural model in drnn: English words to phonemes (ARPAbet).

    python examples/g2p/g2p.py checkpoint20.npz WORD...         needs numpy; drnn on the PATH or in DRNN
    python examples/g2p/g2p.py checkpoint20.npz --compare FILE      the words of a file; needs g2p_en

The file has two GRUs. The encoder reads the letters, and its last state is the decoder's first; the
decoder reads the phoneme it has predicted last.
"""

import os
import re
import subprocess
import sys
import tempfile

import numpy as np

DRNN = os.environ.get("DRNN", "drnn")
LETTERS = ["<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz"]
PHONEMES = "AA0 AA1 AA2 AE0 AE1 AE2 AH0 AH1 AH2 AO0 AO1 AO2 AW0 AW1 AW2 AY0 AY1 AY2 B CH D DH EH0 EH1 EH2 \
ER0 ER1 ER2 EY0 EY1 EY2 F G HH IH0 IH1 IH2 IY0 IY1 IY2 JH K L M N NG OW0 OW1 OW2 OY0 OY1 OY2 P R S SH T TH \
UH0 UH1 UH2 UW UW0 UW1 UW2 V W Y Z ZH".split()
PHONEMES = ["<pad>", "<unk>", "<s>", "</s>", *PHONEMES]
MAX_PHONEMES = 20  # phonemes of a word


def run(folder, model, tokens, *options):
    """Runs a part of the model on tokens (T, B); its states are left in h.npy."""
    x, y = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
    np.save(x, tokens)
    command = [DRNN, "-q", "run", model, x, "-o", y, "--states", folder, *options]
    subprocess.run(command, check=True)
    return np.load(y)


def phonemes(model, words):
    """Phonemes of each word, all words at once."""
    coded = [[LETTERS.index(c) if c in LETTERS else 1 for c in word] + [2] for word in words]
    tokens = np.zeros((max(map(len, coded)), len(words)), np.int64)
    for row, word in enumerate(coded):
        tokens[: len(word), row] = word
    with tempfile.TemporaryDirectory() as folder:
        lengths, h0 = os.path.join(folder, "lengths.npy"), os.path.join(folder, "h0.npy")
        np.save(lengths, [len(word) for word in coded])
        run(folder, model, tokens, "--prefix", "enc", "--lengths", lengths)
        last, found = np.full(len(words), PHONEMES.index("<s>")), []
        for _ in range(MAX_PHONEMES):
            os.replace(os.path.join(folder, "h.npy"), h0)
            logits = run(folder, model, last[None], "--prefix", "dec", "--output-layer", "fc", "--h0", h0)
            last = logits[0].argmax(1)
            found.append(last)
    end = PHONEMES.index("</s>")
    rows = np.array(found).T.tolist()
    return [[PHONEMES[p] for p in row[: row.index(end) if end in row else MAX_PHONEMES]] for row in rows]


def compare(model, words):
    """Counts words whose phonemes differ from those of the package's own NumPy code."""
    from g2p_en import G2p

    package = G2p()
    different = [w for w, found in zip(words, phonemes(model, words)) if found != package.predict(w)]
    print(f"{len(words)} words, phonemes that differ from g2p_en's: {len(different)}", *different[:5])
    sys.exit(bool(different))


if __name__ == "__main__":
    words = sys.argv[2:]
    if words[:1] == ["--compare"]:
        with open(words[1]) as file:
            compare(sys.argv[1], sorted(set(re.findall("[a-z]+", file.read().lower()))))
    for word, found in zip(words, phonemes(sys.argv[1], [word.lower() for word in words])):
        print(word, *found)
