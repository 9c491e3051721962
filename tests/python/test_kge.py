#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `muster kge tracin` writes: TiePin's forms, field by field, and the same numbers in every one of them. Prints TAP.

    test_kge.py MUSTER
"""
import array
import collections
import csv
import json
import pathlib
import pickle
import random
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tiny_kge  # noqa: E402
from tiny_kge import ENTITIES, RELATIONS, TEST, TRAIN  # noqa: E402

MUSTER = str(pathlib.Path(sys.argv[1]).resolve())
DATA = ["--train", "train.txt", "--entity-to-id", "node_dict.txt", "--relation-to-id", "rel_dict.txt", "--model-path", "model.pt"]
# Rows and single influences come of products of other sizes, whose float32 the library rounds as the processor has it.
EXACT = ["--dtype", "float64"]
LABELS = ["--edge-map", "edge_map.json", "--node-name-dict", "node_name_dict.txt"]
COLUMNS = ["TestHead", "TestHead_label", "TestRel", "TestRel_label", "TestTail", "TestTail_label", "TrainHead", "TrainHead_label",
           "TrainRel", "TrainRel_label", "TrainTail", "TrainTail_label", "TracInScore", "SelfInfluence"]
ENTITY_NAMES, RELATION_NAMES = {0: "aspirin", 2: "headache, mild"}, {0: "biolink:treats"}


def tracin(*words, data=DATA, status=0):
    done = subprocess.run([MUSTER, "kge", "tracin", *data, *EXACT, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, (words, done.returncode, done.stderr)
    return done.stderr


def text_of(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


def load(path):
    return json.loads(text_of(path))


def triple_keys(prefix):
    return [f"{prefix}_{place}" for place in ("head", "relation", "tail")]


def label_keys(prefix):
    return [key + "_label" for key in triple_keys(prefix)] + [f"{prefix}_head_name", f"{prefix}_tail_name", f"{prefix}_relation_name"]


def indices(entry, prefix):
    return tuple(entry[key] for key in triple_keys(prefix))


def labels_are_right(entry, prefix):
    head, relation, tail = indices(entry, prefix)
    assert entry[prefix + "_head_label"] == ENTITIES[head] and entry[prefix + "_tail_label"] == ENTITIES[tail]
    assert entry[prefix + "_relation_label"] == RELATIONS[relation]
    assert entry[prefix + "_head_name"] == ENTITY_NAMES.get(head, ENTITIES[head])
    assert entry[prefix + "_tail_name"] == ENTITY_NAMES.get(tail, ENTITIES[tail])
    assert entry[prefix + "_relation_name"] == RELATION_NAMES.get(relation, RELATIONS[relation])


def numbers(path):
    """Shape and float64s of an .npy."""
    raw = pathlib.Path(path).read_bytes()
    assert raw[:8] == b"\x93NUMPY\x01\x00"
    end = 10 + struct.unpack("<H", raw[8:10])[0]
    header = eval(raw[10:end], {})  # noqa: S307 - our own output
    assert header["descr"] == "<f8" and header["fortran_order"] is False and end % 64 == 0
    values = array.array("d", raw[end:])
    size = 1
    for side in header["shape"]:
        size *= side
    assert len(values) == size
    return header["shape"], values


def matrix():
    """Influences by test triple and training triple, as the .npy has them."""
    tracin("--test", "test.txt", "-o", "matrix.npy", "--force")
    shape, values = numbers("matrix.npy")
    assert shape == (len(TEST), len(TRAIN))
    rows = [list(values[i * len(TRAIN):(i + 1) * len(TRAIN)]) for i in range(len(TEST))]
    assert len({value for row in rows for value in row}) > len(TRAIN), "influences that differ"
    return rows


def ranked(row, kept=None):
    """Places of training triples, the strongest first, equals in their order."""
    return sorted(range(len(row)) if kept is None else kept, key=lambda i: (-abs(row[i]), i))


def entries_agree(entries, row, order):
    assert [indices(entry, "train") for entry in entries] == [TRAIN[i] for i in order]
    assert all(abs(entry["influence"] - row[i]) <= 1e-10 * abs(row[i]) for entry, i in zip(entries, order))


def mode_test_is_one_object_without_labels():
    rows = matrix()
    tracin("--test", "test.txt", "-o", "test.json", *LABELS)
    text, found = text_of("test.json"), load("test.json")
    assert list(found) == ["num_test_triples", "num_training_triples", "top_k", "learning_rate", "results"]
    assert (found["num_test_triples"], found["num_training_triples"], found["top_k"], found["learning_rate"]) == (3, 12, None, 0.001)
    for triple, row, result in zip(TEST, rows, found["results"], strict=True):
        assert list(result) == triple_keys("test") + ["top_influences"] and indices(result, "test") == triple
        assert all(list(entry) == triple_keys("train") + ["influence"] for entry in result["top_influences"])
        entries_agree(result["top_influences"], row, ranked(row))
    assert text == json.dumps(found, indent=2) + "\n", "laid out as json.dump(indent=2) does"


def top_k_and_learning_rates_are_said():
    rows = matrix()
    tracin("--test", "test.txt", "-o", "top.json", "--top-k", "3", "--learning-rate", "0.5", "--max-test-triples", "2")
    found = load("top.json")
    assert (found["num_test_triples"], found["top_k"], found["learning_rate"], len(found["results"])) == (2, 3, 0.5, 2)
    for row, result in zip(rows, found["results"]):
        scaled = [value * 500 for value in row]
        entries = result["top_influences"]
        assert [indices(entry, "train") for entry in entries] == [TRAIN[i] for i in ranked(row)[:3]]
        assert all(abs(entry["influence"] - scaled[i]) <= 1e-5 * abs(scaled[i]) for entry, i in zip(entries, ranked(row)))


def checkpoints_are_summed():
    rows = matrix()
    tracin("--model-path", "model.pt", "--learning-rate", "0.001,0.003", "--test", "test.txt", "-o", "sum.json")
    found = load("sum.json")
    assert found["learning_rate"] == [0.001, 0.003]
    entry = found["results"][0]["top_influences"][0]
    best = ranked(rows[0])[0]
    assert abs(entry["influence"] - 4 * rows[0][best]) <= 1e-5 * abs(4 * rows[0][best])


def learning_rates_are_what_the_checkpoints_say():
    def rates(*names, given=(), status=0):
        paths = [word for name in names for word in ("--model-path", name)]
        said = tracin(*paths, *given, "--test", "test.txt", "-o", "rates.json", "--force", data=DATA[:-2], status=status)
        return (load("rates.json")["learning_rate"], said) if status == 0 else said
    for name, groups in {"slow.pt": [0.0005], "fast.pt": [0.02, 0.02], "torn.pt": [0.1, 0.2], "odd.pt": [float("nan")]}.items():
        pathlib.Path(name).write_bytes(tiny_kge.checkpoint(rates=groups))
    rate, said = rates("slow.pt")
    assert rate == 0.0005 and "learning rate 0.0005, as the checkpoint says; --learning-rate says otherwise" in said, said
    rate, said = rates("slow.pt", "fast.pt", "slow.pt")
    assert rate == [0.0005, 0.02, 0.0005] and "learning rates 0.0005, 0.02, 0.0005, as the checkpoints say;" in said, said
    assert rates("fast.pt", "fast.pt")[0] == 0.02
    for names in (["model.pt"], ["torn.pt"], ["odd.pt"], ["model.pt", "torn.pt"]):
        rate, said = rates(*names)
        assert rate == 0.001 and "learning rate" not in said, (names, said)
    rate, said = rates("slow.pt", "fast.pt", given=["--learning-rate", "0.3"])
    assert rate == 0.3 and "as the checkpoint" not in said, said
    said = rates("slow.pt", "model.pt", status=2)
    assert "slow.pt says what its learning rate was, and model.pt does not: name all of them by --learning-rate X,X..." in said, said


def mode_single_is_an_array_with_labels():
    rows = matrix()
    tracin("--test", "test.txt", "--mode", "single", "--test-indices", "2", "0", "-o", "single.json", "--csv-output", "single.csv", *LABELS)
    found = load("single.json")
    assert [result["test_triple_index"] for result in found] == [2, 0]
    for result in found:
        place = result["test_triple_index"]
        assert list(result) == ["test_triple", "test_triple_index"] + triple_keys("test") + ["self_influence"] + \
            label_keys("test") + ["influences"]
        assert tuple(result["test_triple"]) == TEST[place] == indices(result, "test") and result["self_influence"] > 0
        labels_are_right(result, "test")
        for entry in result["influences"]:
            assert list(entry) == triple_keys("train") + ["influence"] + label_keys("train")
            labels_are_right(entry, "train")
        entries_agree(result["influences"], rows[place], ranked(rows[place]))
        csv_agrees(f"single_test_{place}.csv", result)
    assert not pathlib.Path("single.csv").exists()


def csv_agrees(path, result):
    raw = pathlib.Path(path).read_bytes()
    assert raw.count(b"\r\n") == raw.count(b"\n") == len(result["influences"]) + 1
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == COLUMNS
    for row, entry in zip(rows, result["influences"], strict=True):
        cells = dict(zip(header, row, strict=True))
        for source, prefix, title in ((result, "test", "Test"), (entry, "train", "Train")):
            for place, column in (("head", "Head"), ("relation", "Rel"), ("tail", "Tail")):
                assert cells[title + column] == source[f"{prefix}_{place}_label"]
                assert cells[title + column + "_label"] == source[f"{prefix}_{place}_name"]
        assert float(cells["TracInScore"]) == entry["influence"] and float(cells["SelfInfluence"]) == result["self_influence"]


def without_label_files_labels_are_the_names():
    tracin("--test", "test.txt", "--mode", "single", "-o", "plain.json", "--csv-output", "plain.csv")
    result = load("plain.json")[0]
    assert "test_head_name" not in result and result["test_head_label"] == ENTITIES[TEST[0][0]]
    with open("plain.csv", encoding="utf-8", newline="") as file:
        row = list(csv.DictReader(file))[0]
    assert row["TestHead"] == row["TestHead_label"] == ENTITIES[TEST[0][0]] and row["TestRel_label"] == RELATIONS[TEST[0][1]]


def output_per_triple_is_a_file_each():
    rows = matrix()
    pathlib.Path("each").mkdir()
    tracin("--test", "test.txt", "--output-per-triple", "-o", "each/x.json", "--csv-output", "each/x.csv", "--top-k", "2", *LABELS)
    assert sorted(path.name for path in pathlib.Path("each").iterdir()) == sorted(
        [f"tracin_test_{i}.json" for i in range(3)] + [f"x_test_{i}.csv" for i in range(3)])
    for place, triple in enumerate(TEST):
        found = load(f"each/tracin_test_{place}.json")
        assert list(found) == ["test_index"] + triple_keys("test") + label_keys("test") + [
            "self_influence", "top_influences", "top_k", "learning_rate"]
        assert found["test_index"] == place and found["top_k"] == 2 and indices(found, "test") == triple
        entries_agree(found["top_influences"], rows[place], ranked(rows[place])[:2])
        csv_agrees(f"each/x_test_{place}.csv", {**found, "influences": found["top_influences"]})
    assert "exists; --force replaces it" in tracin("--test", "test.txt", "--output-per-triple", "-o", "each/x.json", status=2)


def json_lines_have_an_influence_each():
    rows = matrix()
    tracin("--test", "test.txt", "-o", "lines.jsonl", "--top-k", "4", "--order", "value")
    lines = [json.loads(line) for line in text_of("lines.jsonl").splitlines()]
    assert len(lines) == 12
    for place, row in enumerate(rows):
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))[:4]
        mine = [line for line in lines if line["test_index"] == place]
        assert [line["train_index"] for line in mine] == order and [line["rank"] for line in mine] == [1, 2, 3, 4]
        assert all(line["train"] == [ENTITIES[TRAIN[i][0]], RELATIONS[TRAIN[i][1]], ENTITIES[TRAIN[i][2]]] for line, i in zip(mine, order))
        assert all(abs(line["influence"] - row[i]) <= 1e-10 * abs(row[i]) for line, i in zip(mine, order))


def mode_self_is_sorted_from_the_largest():
    tracin("--mode", "self", "-o", "self.json")
    tracin("--mode", "self", "-o", "self.npy")
    tracin("--mode", "self", "-o", "self.jsonl")
    shape, values = numbers("self.npy")
    found = load("self.json")
    order = sorted(range(len(TRAIN)), key=lambda i: (-values[i], i))
    assert shape == (len(TRAIN),) and min(values) > 0
    assert [(entry["head"], entry["relation"], entry["tail"]) for entry in found] == [TRAIN[i] for i in order]
    assert all(list(entry) == ["head", "relation", "tail", "self_influence"] for entry in found)
    assert [entry["self_influence"] for entry in found] == [values[i] for i in order]
    assert [json.loads(line)["train_index"] for line in text_of("self.jsonl").splitlines()] == order


def near(test, n_hops):
    """Places of training triples near a test triple: filtered_training of a run with the filter alone."""
    words = ["--test-triples", "test.txt", "--output-dir", f"near{n_hops}", "--skip-tracin", "--n-hops", str(n_hops), "--min-degree", "1"]
    if not pathlib.Path(f"near{n_hops}").exists():
        tracin(*words, data=DATA[:-2])
    name = next(path for path in pathlib.Path(f"near{n_hops}/filtered_training").iterdir() if path.name.startswith(f"triple_00{test}_"))
    lines, kept = text_of(name).splitlines(keepends=True), []
    for place, triple in enumerate(TRAIN):
        if tiny_kge.triples([triple]) in lines:
            kept.append(place)
    assert len(kept) == len(lines)
    return kept


def the_filter_leaves_scores_alone():
    rows = matrix()
    tracin("--test", "test.txt", "--n-hops", "1", "--min-degree", "1", "--mode", "single", "--test-indices", "0,1", "-o", "near.json")
    for result in load("near.json"):
        place = result["test_triple_index"]
        kept = near(place, 1)
        assert 0 < len(kept) < len(TRAIN)
        entries_agree(result["influences"], rows[place], ranked(rows[place], kept))
    tracin("--test", "test.txt", "--n-hops", "2", "--min-degree", "1", "-o", "near.npy")
    _, values = numbers("near.npy")
    for place, row in enumerate(rows):
        kept = set(near(place, 2))
        for i in range(len(TRAIN)):
            value = values[place * len(TRAIN) + i]
            assert (value == value) == (i in kept) and (i not in kept or value == row[i])


def a_batch_writes_what_the_driver_writes():
    words = ["--test-triples", "test.txt", "--output-dir", "batch", "--min-degree", "1", "--top-k", "4", *LABELS]
    tracin(*words)
    names = ["triple_000_CHEBI_1_MONDO_2", "triple_001_CHEBI_2_MONDO_1", "triple_002_\N{GREEK SMALL LETTER BETA}-catenin_MONDO_1"]
    folder = pathlib.Path("batch")
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [name + end for name in names for end in ("_tracin.json", "_tracin.csv")] + ["filtered_training", "batch_tracin_settings.txt", "batch_tracin_summary.json"])
    summary = load("batch/batch_tracin_summary.json")
    assert list(summary) == ["total_triples", "successful", "failed_filtering", "failed_tracin", "skipped", "filter_method", "results",
                             "elapsed_time_seconds", "elapsed_time_formatted"]
    assert [summary[key] for key in list(summary)[:6]] == [3, 3, 0, 0, 0, "pyg"]
    assert re.fullmatch(r"0h 0m \d+s", summary["elapsed_time_formatted"])
    for place, (name, entry) in enumerate(zip(names, summary["results"], strict=True)):
        assert list(entry) == ["index", "triple", "base_name", "filtering_success", "tracin_success", "filtered_train_file", "output_csv",
                               "filter_method"]
        assert entry["index"] == place and entry["base_name"] == name and entry["filtering_success"] and entry["tracin_success"]
        assert entry["triple"] == {"head": ENTITIES[TEST[place][0]], "relation": RELATIONS[TEST[place][1]], "tail": ENTITIES[TEST[place][2]]}
        assert entry["output_csv"] == f"batch/{name}_tracin.csv" and pathlib.Path(entry["filtered_train_file"]).exists()
        result, = load(f"batch/{name}_tracin.json")
        assert result["test_triple_index"] == place and indices(result, "test") == TEST[place]
        csv_agrees(entry["output_csv"], result)


def a_batch_goes_on_with_what_is_missing_or_cut_off():
    words = ["--test-triples", "test.txt", "--output-dir", "again", "--min-degree", "1", "--top-k", "4"]
    tracin(*words)
    first, second, third = sorted(pathlib.Path("again").glob("*_tracin.csv"))
    whole = {path: path.read_bytes() for path in (first, second, third)}
    stamp = first.stat().st_mtime_ns
    second.write_bytes(whole[second][:-20])
    third.with_suffix(".json").unlink()
    assert "exists; --skip-existing goes on" in tracin(*words, status=2)
    tracin(*words, "--skip-existing")
    assert first.stat().st_mtime_ns == stamp and all(path.read_bytes() == whole[path] for path in whole)
    assert load(third.with_suffix(".json"))
    summary = load("again/batch_tracin_summary.json")
    assert (summary["successful"], summary["skipped"]) == (2, 1)
    assert [entry.get("reason") for entry in summary["results"]] == ["output_exists", None, None]
    tracin(*words, "--start-index", "1", "--max-triples", "1", "--force")
    summary = load("again/batch_tracin_summary.json")
    assert [entry["index"] for entry in summary["results"]] == [1]


def a_test_triple_with_nothing_near_it_is_told_and_the_others_are_done():
    pathlib.Path("mixed.txt").write_text(tiny_kge.triples([TEST[0], (8, 0, 0)]), encoding="utf-8")
    words = tracin("--test-triples", "mixed.txt", "--output-dir", "mixed", "--min-degree", "9", "--no-preserve-test-edges", status=1)
    assert "2 of 2 test triples have no training triple near them" in words
    words = tracin("--test-triples", "mixed.txt", "--output-dir", "mixed", "--min-degree", "1", "--no-preserve-test-edges", "--force",
        status=1)
    assert "1 of 2 test triples have no training triple near them" in words
    summary = load("mixed/batch_tracin_summary.json")
    assert (summary["successful"], summary["failed_filtering"]) == (1, 1) and not summary["results"][1]["filtering_success"]
    words = tracin("--test", "mixed.txt", "--n-hops", "2", "--min-degree", "1", "--no-preserve-test-edges", "-o", "x.json", status=65)
    assert "test triple 1 (lonely, predicate:0, CHEBI:1) has no training triple near it" in words
    assert not pathlib.Path("x.json").exists()


def scores_of_all_tails(head, relation):
    """ConvE in evaluation mode, written down number by number."""
    weights = {name: struct.unpack(f"<{len(tensor.storage.data) // 4}f", tensor.storage.data)
               for name, tensor in tiny_kge.state(len(ENTITIES), len(RELATIONS), random.Random(1)).items() if "batches" not in name}
    height, width, filters = tiny_kge.HEIGHT, tiny_kge.WIDTH, tiny_kge.FILTERS
    dim = height * width

    def norm(name, channel, value):
        weight, bias, mean, var = (weights[f"{name}.{part}"][channel] for part in ("weight", "bias", "running_mean", "running_var"))
        return (value - mean) / (var + 1e-5) ** 0.5 * weight + bias

    def row(table, index):
        return weights[table][index * dim:(index + 1) * dim]

    h, r = row("entity_embeddings.weight", head), row("relation_embeddings.weight", relation)
    image = [[norm("bn0", 0, value) for value in h[i * width:(i + 1) * width] + r[i * width:(i + 1) * width]] for i in range(height)]
    features = []
    for f in range(filters):
        kernel = weights["conv1.weight"][f * 9:(f + 1) * 9]
        for i in range(height - 2):
            for j in range(2 * width - 2):
                value = sum(kernel[3 * a + b] * image[i + a][j + b] for a in range(3) for b in range(3)) + weights["conv1.bias"][f]
                features.append(max(0.0, norm("bn1", f, value)))
    x = []
    for out in range(dim):
        line = weights["fc.weight"][out * len(features):(out + 1) * len(features)]
        x.append(max(0.0, norm("bn2", out, sum(a * b for a, b in zip(line, features, strict=True)) + weights["fc.bias"][out])))
    return [sum(a * b for a, b in zip(x, row("entity_embeddings.weight", tail))) for tail in range(len(ENTITIES))]


def eval_ranks_as_a_slow_model_does():
    table = {(h, r): scores_of_all_tails(h, r) for h in range(len(ENTITIES)) for r in range(len(RELATIONS))}
    true = set(TRAIN) | set(TEST) | {(1, 0, 4)}
    pathlib.Path("valid.txt").write_text(tiny_kge.triples([(1, 0, 4)]), encoding="utf-8")
    ranks, each = {"tails": [], "heads": []}, []
    for h, r, t in TEST:
        for side, others in (("tails", [(h, r, e) for e in range(len(ENTITIES))]), ("heads", [(e, r, t) for e in range(len(ENTITIES))])):
            ranks[side].append(1 + sum(table[a, b][c] > table[h, r][t] for a, b, c in others if (a, b, c) not in true))
            each.append({"test_index": len(ranks[side]) - 1, "asked": side[:-1], "rank": ranks[side][-1], "score": table[h, r][t]})
    ranks["both"] = ranks["tails"] + ranks["heads"]
    assert len(set(ranks["both"])) > 2
    done = subprocess.run([MUSTER, "kge", "eval", *DATA, "--test", "test.txt", "--valid", "valid.txt", "--json", "-o", "ranks.jsonl"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["side"] for line in lines] == ["tails", "heads", "both"]
    for line in lines:
        mine = ranks[line["side"]]
        expected = {"n": len(mine), "mrr": sum(1 / rank for rank in mine) / len(mine), "mean_rank": sum(mine) / len(mine),
                    **{f"hits_at_{k}": sum(rank <= k for rank in mine) / len(mine) for k in (1, 3, 10)}}
        assert all(abs(line[key] - value) < 1e-9 for key, value in expected.items()) and line["ties"] == "mean", (line, expected)
    found = [json.loads(line) for line in text_of("ranks.jsonl").splitlines()]
    assert len(found) == len(each)
    for line, mine in zip(found, each):
        h, r, t = TEST[mine["test_index"]]
        assert line.pop("test") == [ENTITIES[h], RELATIONS[r], ENTITIES[t]]
        assert abs(line.pop("score") - mine.pop("score")) < 1e-4 and line == mine, (line, mine)


def entities_with_one_embedding_have_one_score():
    """All entities of a model that has collapsed: an answer has the same rank wherever it stands in the table."""
    tensors = tiny_kge.state(n := 23, len(RELATIONS), random.Random(1))
    table = tensors["entity_embeddings.weight"].storage
    table.data = table.data[:len(table.data) // n] * n
    config = {"num_entities": n, "num_relations": len(RELATIONS), "embedding_dim": tiny_kge.HEIGHT * tiny_kge.WIDTH,
              "embedding_height": tiny_kge.HEIGHT, "embedding_width": tiny_kge.WIDTH}
    pathlib.Path("one.pt").write_bytes(tiny_kge.saved({"epoch": 1, "model_state_dict": tensors, "model_config": config}))
    pathlib.Path("one.txt").write_text("".join(f"e{i}\tpredicate:1\te{i}\n" for i in range(n)), encoding="utf-8")
    pathlib.Path("one_dict.txt").write_text("".join(f"e{i}\t{i}\n" for i in range(n)), encoding="utf-8")
    for ties, rank in (("optimistic", 1), ("mean", (n + 1) / 2), ("pessimistic", n)):
        done = subprocess.run([MUSTER, "kge", "eval", "--model-path", "one.pt", "--train", "one.txt", "--test", "one.txt", "--entity-to-id",
                               "one_dict.txt", "--relation-to-id", "rel_dict.txt", "--json", "--ties", ties],
                              capture_output=True, text=True, timeout=60)
        found = [json.loads(line)["mean_rank"] for line in done.stdout.splitlines()]
        assert found == [rank] * 3, (ties, found, done.stderr)


class TorchReader(pickle.Unpickler):
    """What torch.load reads of an archive, tensors as (kind of storage, shape, stride, bytes)."""
    def __init__(self, path):
        self.archive = zipfile.ZipFile(path)
        assert self.archive.testzip() is None
        self.folder = self.archive.namelist()[0].split("/")[0]
        super().__init__(self.archive.open(f"{self.folder}/data.pkl"))

    def find_class(self, module, name):
        return {"collections.OrderedDict": collections.OrderedDict, "torch.FloatStorage": "float32", "torch.LongStorage": "int64",
                "torch._utils._rebuild_tensor_v2": self.tensor}[f"{module}.{name}"]

    def persistent_load(self, pid):
        what, kind, key, place, n = pid
        data = self.archive.read(f"{self.folder}/data/{key}")
        assert (what, place) == ("storage", "cpu") and len(data) == n * {"float32": 4, "int64": 8}[kind]
        return kind, data

    @staticmethod
    def tensor(storage, offset, shape, stride, requires_grad, hooks):
        assert offset == 0 and requires_grad is False and hooks == {}
        return storage[0], shape, stride, storage[1]


def muster(*words):
    done = subprocess.run([MUSTER, "kge", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (words, done.stderr)


def state_is(found, expected):
    """Names in their order, kinds, shapes and bytes; the counts of norms are not read by anybody and begin at 0."""
    assert list(found) == list(expected), (list(found), list(expected))
    for name, tensor in expected.items():
        kind, shape, stride, data = found[name]
        assert (shape, stride) == (tensor.shape, tensor.stride), name
        if name.endswith("num_batches_tracked"):
            assert (kind, shape, data) == ("int64", (), bytes(8)), name
        else:
            assert kind == "float32" and data == tensor.storage.data, name


def an_exported_model_is_the_state_dict_of_pykeens_conve():
    muster("export", "--pykeen", "--model-path", "pykeen.pt", "--embedding-height", str(tiny_kge.HEIGHT), "-o", "conve.pt")
    reader = TorchReader("conve.pt")
    found = reader.load()
    assert reader.folder == "conve" and isinstance(found, collections.OrderedDict)
    state_is(found, tiny_kge.pykeen_state())
    assert list(found._metadata) == [""] and found._metadata[""]["version"] == 1
    muster("export", "--pykeen", "--model-path", "conve.pt", "-o", "conve.safetensors")
    raw = pathlib.Path("conve.safetensors").read_bytes()
    end = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:end])
    assert header.pop("__metadata__")["format"] == "pt"
    names = {"F32": "float32", "I64": "int64"}
    state_is({name: (names[entry["dtype"]], tuple(entry["shape"]), found[name][2], raw[end:][slice(*entry["data_offsets"])])
              for name, entry in header.items()}, tiny_kge.pykeen_state())


def an_exported_model_is_a_checkpoint_of_the_plain_trainer():
    muster("export", "--model-path", "model.pt", "-o", "plain.pt")
    found = TorchReader("plain.pt").load()
    assert list(found) == ["epoch", "model_state_dict", "model_config"]
    state_is(found["model_state_dict"], tiny_kge.state(len(ENTITIES), len(RELATIONS), random.Random(1)))
    sizes = {"num_entities": len(ENTITIES), "num_relations": len(RELATIONS), "embedding_dim": tiny_kge.HEIGHT * tiny_kge.WIDTH,
             "output_channels": tiny_kge.FILTERS, "kernel_height": 3, "kernel_width": 3, "embedding_height": tiny_kge.HEIGHT,
             "embedding_width": tiny_kge.WIDTH}
    assert {key: found["model_config"][key] for key in sizes} == sizes


CHECKS = [eval_ranks_as_a_slow_model_does, entities_with_one_embedding_have_one_score, mode_test_is_one_object_without_labels,
          top_k_and_learning_rates_are_said, checkpoints_are_summed, learning_rates_are_what_the_checkpoints_say,
          mode_single_is_an_array_with_labels, without_label_files_labels_are_the_names, output_per_triple_is_a_file_each,
          json_lines_have_an_influence_each, mode_self_is_sorted_from_the_largest, the_filter_leaves_scores_alone,
          a_batch_writes_what_the_driver_writes, a_batch_goes_on_with_what_is_missing_or_cut_off,
          a_test_triple_with_nothing_near_it_is_told_and_the_others_are_done,
          an_exported_model_is_the_state_dict_of_pykeens_conve, an_exported_model_is_a_checkpoint_of_the_plain_trainer]


def main():
    import os
    import traceback
    failed = 0
    print(f"1..{len(CHECKS)}")
    for number, check in enumerate(CHECKS, 1):
        with tempfile.TemporaryDirectory() as name:
            tiny_kge.write(pathlib.Path(name))
            os.chdir(name)
            try:
                check()
                verdict = "ok"
            except Exception:  # noqa: BLE001
                verdict = "not ok"
                failed += 1
                print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
            os.chdir("/")
        print(f"{verdict} {number} - {check.__name__.replace('_', ' ')}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
