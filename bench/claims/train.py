# SPDX-License-Identifier: Apache-2.0
"""Training ConvE over a graph as large as WordNet's, against the same with PyTorch (../peer_train.py)."""
import json
import os
import random
import subprocess

from harness import Row, spread, verdict

from claims.kge import PYTHON, core

BAR, THREADS, BATCH, RELATIONS = 1.5, 2, 256, 18
PEER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peer_train.py")


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(text)


def rows(bench):
    why = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, text=True, check=False).stderr
    if why:
        return [Row("training", ">= %.1f x PyTorch" % BAR, "skipped", why.strip().splitlines()[-1], "", "")]
    entities, n_train = bench.size((40943, 20 * BATCH), (2000, 2 * BATCH))
    draw = random.Random(1)
    train, nodes, relations = bench.path("train.txt"), bench.path("nodes.txt"), bench.path("relations.txt")
    write(nodes, ("e%d\t%d\n" % (i, i) for i in range(entities)))
    write(relations, ("r%d\t%d\n" % (i, i) for i in range(RELATIONS)))
    write(train, ("e%d\tr%d\te%d\n" % (draw.randrange(entities), min(int(draw.expovariate(0.7)), RELATIONS - 1) if i >= RELATIONS else i,
                                       draw.randrange(entities)) for i in range(n_train)))
    env = {**os.environ, **core(), "OMP_NUM_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": str(THREADS)}
    folder = bench.path("model")
    argv = ["kge", "train", "--force", "--train", train, "--entity-to-id", nodes, "--relation-to-id", relations, "-o", folder,
            "--epochs", "1", "--batch-size", str(BATCH), "--threads", str(THREADS)]
    seconds, losses = {"muster": [], "peer": []}, {"muster": [], "peer": []}

    def ours():
        sample = bench.muster(*argv, env=env, stderr=subprocess.DEVNULL)
        with open(os.path.join(folder, "training_history.jsonl"), encoding="utf-8") as file:
            epoch = json.loads(file.readline())
        seconds["muster"].append(epoch["seconds"])
        losses["muster"].append(epoch["loss"])
        return sample

    def theirs():
        with open(bench.path("printed"), "w", encoding="utf-8") as out:
            sample = bench.timed([PYTHON, PEER, "time", train, str(entities), str(THREADS), str(BATCH)], stdout=out, env=env)
        with open(bench.path("printed"), encoding="utf-8") as file:
            words = file.readline().split("\t")
        seconds["peer"].append(float(words[1]))
        losses["peer"].append(float(words[3]))
        return sample

    samples = bench.in_turn({"muster": ours, "peer": theirs}, rounds=min(bench.rounds, 5))
    # Other first weights and dropout, the same loss: nobody trains less.
    assert abs(spread(losses["muster"]).median / spread(losses["peer"]).median - 1) < 0.1, losses
    ratio = spread(b / a for a, b in zip(seconds["muster"], seconds["peer"]))
    rate = spread(n_train / a for a in seconds["muster"])
    peak = max(sample.peak_kib for sample in samples["muster"]) / 1024
    what = "training: %d entities, d = 200, batches of %d, %d threads" % (entities, BATCH, THREADS)
    return [Row(what, ">= %.1f x PyTorch" % BAR, "%s x; %s questions/s, %.0f MiB" % (ratio.text(), rate.text(1, 0), peak),
                "the same in PyTorch: %s s" % spread(seconds["peer"]).text(), verdict(ratio.median >= BAR), bench.runs(min(bench.rounds, 5)))]
