# SPDX-License-Identifier: Apache-2.0
"""Training ConvE over a graph as large as WordNet's: against PyTorch (../peer_train.py), and on ranks against threads."""
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


# In one session: elsewhere the kernel may give each session a share of the processors of its own.
RANKS = ('n=$1; shift; for r in $(seq 0 $((n - 1))); do RANK=$r LOCAL_RANK=$r WORLD_SIZE=$n LOCAL_WORLD_SIZE=$n '
         'MUSTER_DIST_TIMEOUT=60 "$@" --threads 1 & done; wait')


def ranks_words(n):
    return ["sh", "-c", RANKS, "sh", str(n)]


def graph(bench):
    """The command that trains on it, but for -o and --threads, and how many triples there are."""
    entities, n_train = bench.size((40943, 20 * BATCH), (2000, 2 * BATCH))
    draw = random.Random(1)
    train, nodes, relations = bench.path("train.txt"), bench.path("nodes.txt"), bench.path("relations.txt")
    write(nodes, ("e%d\t%d\n" % (i, i) for i in range(entities)))
    write(relations, ("r%d\t%d\n" % (i, i) for i in range(RELATIONS)))
    write(train, ("e%d\tr%d\te%d\n" % (draw.randrange(entities), min(int(draw.expovariate(0.7)), RELATIONS - 1) if i >= RELATIONS else i,
                                       draw.randrange(entities)) for i in range(n_train)))
    argv = [os.path.join(bench.build, "muster"), "kge", "train", "--force", "--train", train, "--entity-to-id", nodes,
            "--relation-to-id", relations, "--epochs", "1", "--batch-size", str(BATCH)]
    return argv, entities, n_train


def epoch_of(folder):
    with open(os.path.join(folder, "training_history.jsonl"), encoding="utf-8") as file:
        return json.loads(file.readline())


def on_ranks(bench):
    argv, entities, n_train = graph(bench)
    seconds, losses = {1: [], 2: []}, {1: set(), 2: set()}

    def case(n_ranks, before, after):
        folder = bench.path("ranks%d" % n_ranks)

        def run():
            sample = bench.timed([*before, *argv, "-o", folder, *after], env={**os.environ, **core()}, stderr=subprocess.DEVNULL)
            epoch = epoch_of(folder)
            seconds[n_ranks].append(epoch["seconds"])
            losses[n_ranks].add(epoch["loss"])
            return sample
        return run

    rounds = min(bench.rounds, 9)
    bench.in_turn({"threads": case(1, [], ["--threads", "2"]), "ranks": case(2, ranks_words(2), [])}, rounds=rounds)
    assert losses[1] == losses[2] and len(losses[1]) == 1, losses
    with open(bench.path("ranks1/final_model.safetensors"), "rb") as one, open(bench.path("ranks2/final_model.safetensors"), "rb") as two:
        assert one.read() == two.read()
    ratio = spread(a / b for a, b in zip(seconds[1], seconds[2]))
    return Row("training on 2 ranks of 1 thread: %d entities, d = 200, batches of %d, the same bits" % (entities, BATCH),
               ">= 0.95 x the speed of 2 threads", "%s x; %s questions/s" % (ratio.text(), spread(n_train / b for b in seconds[2]).text(1, 0)),
               "one process of 2 threads: %s s" % spread(seconds[1]).text(), verdict(ratio.median >= 0.95), bench.runs(rounds))


def scaling(bench):
    """The same epoch on more and more ranks of one thread, as far as there are cores."""
    argv, entities, n_train = graph(bench)
    sizes = [n for n in (1, 2, 4, 8) if n <= max(2, len(os.sched_getaffinity(0)))]
    seconds = {n: [] for n in sizes}

    def case(n):
        folder = bench.path("scale%d" % n)

        def run():
            sample = bench.timed([*ranks_words(n), *argv, "-o", folder], env={**os.environ, **core()}, stderr=subprocess.DEVNULL)
            seconds[n].append(epoch_of(folder)["seconds"])
            return sample
        return run

    rounds = min(bench.rounds, 5)
    bench.in_turn({str(n): case(n) for n in sizes}, rounds=rounds)
    with open(bench.path("scale1/final_model.safetensors"), "rb") as file:
        alone = file.read()
    found = []
    for n in sizes[1:]:
        with open(bench.path("scale%d/final_model.safetensors" % n), "rb") as file:
            assert file.read() == alone, n
        ratio = spread(a / b for a, b in zip(seconds[1], seconds[n]))
        bar = 0.8 * n
        found.append(Row("training on %d ranks of 1 thread against 1: %d entities, d = 200, batches of %d, the same bits"
                         % (n, entities, BATCH), ">= %.1f x the speed of 1 rank" % bar,
                         "%s x; %s questions/s" % (ratio.text(), spread(n_train / b for b in seconds[n]).text(1, 0)),
                         "1 rank: %s questions/s" % spread(n_train / a for a in seconds[1]).text(1, 0),
                         verdict(ratio.median >= bar), bench.runs(rounds)))
    return found


def rows(bench):
    return [on_torch(bench), on_ranks(bench), *scaling(bench)]


def on_torch(bench):
    why = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, text=True, check=False).stderr
    if why:
        return Row("training", ">= %.1f x PyTorch" % BAR, "skipped", why.strip().splitlines()[-1], "", "")
    argv, entities, n_train = graph(bench)
    train, folder = bench.path("train.txt"), bench.path("model")
    env = {**os.environ, **core(), "OMP_NUM_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": str(THREADS)}
    seconds, losses = {"muster": [], "peer": []}, {"muster": [], "peer": []}

    def ours():
        sample = bench.timed([*argv, "-o", folder, "--threads", str(THREADS)], env=env, stderr=subprocess.DEVNULL)
        epoch = epoch_of(folder)
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
    return Row(what, ">= %.1f x PyTorch" % BAR, "%s x; %s questions/s, %.0f MiB" % (ratio.text(), rate.text(1, 0), peak),
               "the same in PyTorch: %s s" % spread(seconds["peer"]).text(), verdict(ratio.median >= BAR), bench.runs(min(bench.rounds, 5)))
