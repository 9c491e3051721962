# SPDX-License-Identifier: Apache-2.0
"""
Files of torch.save, and what people do to join them, run by an interpreter that has torch:

    peer_torch.py tensors PREFIX N_FILES N_TENSORS TENSOR_BYTES     PREFIX<i>.pt: named tensors
    peer_torch.py records PREFIX N_FILES N_QUESTIONS                the schema of a data collection with LatentMAS
    peer_torch.py plain PREFIX N_FILES N_RECORDS                    records of numbers and texts, all in the pickle
    peer_torch.py counters PREFIX N_FILES N_KEYS STEP               counts of texts, of which each file begins STEP further
    peer_torch.py sums-wrong FILE N_FILES N_KEYS STEP               how many of their sums in FILE are wrong or missing
    peer_torch.py one-by-one OUT FILE...                            load, torch.cat key by key or extend, save
"""
import collections
import sys

import torch

N_PATHS, N_STEPS, HIDDEN = 20, 5, 1024
AGENTS = ["Planner", "Critic", "Refiner", "Judger"]


def tensors(prefix, n_files, n_tensors, n_bytes):
    row = torch.arange(n_bytes // 4, dtype=torch.float32).reshape(-1, 256)
    for i in range(n_files):
        torch.save({"layers": {"layer.%d.weight" % k: row + (i * n_tensors + k) for k in range(n_tensors)}, "num_files": 1}, "%s%d.pt" % (prefix, i))


def path_of(question, agent, path_id, numpy):
    is_last = agent == len(AGENTS) - 1
    parent = path_id - N_PATHS if agent else None
    metadata = {"temperature": 0.7 + path_id / 100, "latent_steps": N_STEPS, "diversity_strategy": "HybridDiversityStrategy", "agent_name": AGENTS[agent],
                "agent_idx": agent, "batch_idx": 0, "parent_path_id": parent, "base_score": 0.5 + path_id / 1000, "latent_consistency": 1 - path_id / 999}
    if is_last:
        answer = "So the result of question %d by path %d is therefore %d." % (question, path_id, path_id * question)
        metadata = {"decoded_answer": answer * 14, "extracted_answer": str(path_id * question), "is_correct": path_id % 3 == 0, "parent_path_id": parent,
                    "gold_answer": str(path_id)}
    return {"path_id": path_id, "agent_name": AGENTS[agent], "agent_idx": agent, "parent_path_id": parent, "child_path_ids": [] if is_last else [path_id + N_PATHS],
            "score": path_id / 80, "prm_score": float(path_id % 2) if is_last else numpy.float64(path_id / 80), "metadata": metadata,
            "latent_history": None if is_last else torch.full((N_STEPS, 1, HIDDEN), path_id + question, dtype=torch.bfloat16),
            "hidden_states": torch.full((1, HIDDEN), path_id, dtype=torch.bfloat16), "num_latent_steps": 0 if is_last else N_STEPS}


def question_of(number, numpy):
    paths = [path_of(number, agent, agent * N_PATHS + k, numpy) for agent in range(len(AGENTS)) for k in range(N_PATHS)]
    nodes = [{"path_id": p["path_id"], "agent_name": p["agent_name"], "agent_idx": p["agent_idx"], "parent_id": p["parent_path_id"],
              "children_ids": p["child_path_ids"], "original_score": p["score"], "prm_score": p["prm_score"], "is_leaf": not p["child_path_ids"],
              "depth": p["agent_idx"], "is_correct": p["metadata"].get("is_correct")} for p in paths]
    edges = [(p["parent_path_id"], p["path_id"]) for p in paths if p["parent_path_id"] is not None]
    return {"question_id": "question_%d" % number, "question": "A question of some length, number %d? " % number * 4, "gold_answer": "42", "final_answer": "42",
            "is_correct": True, "paths": paths,
            "tree_structure": {"nodes": nodes, "edges": edges, "root_ids": list(range(N_PATHS)), "num_nodes": len(nodes), "num_edges": len(edges), "max_depth": 3}}


def records(prefix, n_files, n_questions):
    import numpy
    for i in range(n_files):
        torch.save({"batch_name": "gsm8k_latent_mas_multipath_20260101_120000", "timestamp": "20260101_12000%d" % (i % 10), "num_questions": n_questions,
                    "questions": [question_of(i * n_questions + k, numpy) for k in range(n_questions)]}, "%s%d.pt" % (prefix, i))


def plain(prefix, n_files, n_records):
    for i in range(n_files):
        numbers = range(i * n_records, (i + 1) * n_records)
        torch.save({"num_records": n_records, "records": [
            {"id": k, "prompt": "Question number %d of a set that is not short, with some words behind it" % k,
             "answer": "The answer to %d is %d, which follows from what was said" % (k, k * 7), "score": k / 7, "correct": k % 3 == 0, "tokens": k % 100}
            for k in numbers]}, "%s%d.pt" % (prefix, i))


def counters(prefix, n_files, n_keys, step):
    for i in range(n_files):
        torch.save({"counts": collections.Counter({"word-%d" % k: k % 97 + i for k in range(i * step, i * step + n_keys)})}, "%s%d.pt" % (prefix, i))


def sums_wrong(name, n_files, n_keys, step):
    counts = loaded(name)["counts"]
    n_all = (n_files - 1) * step + n_keys
    n_wrong = max(0, len(counts) - n_all)  # too many; what is missing is counted below
    for k in range(n_all):
        holders = range(max(0, -(-(k - n_keys + 1) // step)) if step else 0, (min(n_files - 1, k // step) if step else n_files - 1) + 1)
        n_wrong += counts.get("word-%d" % k) != sum(k % 97 + i for i in holders)
    print(n_wrong)


def loaded(name):
    try:
        return torch.load(name, weights_only=False)
    except TypeError:  # before 1.13
        return torch.load(name)


def one_by_one(out, *names):
    whole = loaded(names[0])
    others = [loaded(name) for name in names[1:]]
    if "layers" in whole:
        for key in whole["layers"]:
            whole["layers"][key] = torch.cat([whole["layers"][key]] + [other["layers"][key] for other in others])
        whole["num_files"] = sum([other["num_files"] for other in others], whole["num_files"])
    elif "records" in whole:
        for other in others:
            whole["records"].extend(other["records"])
        whole["num_records"] = len(whole["records"])
    else:
        for other in others:
            whole["questions"].extend(other["questions"])
        whole["num_questions"] = len(whole["questions"])
        whole["timestamp"] = others[-1]["timestamp"]
    torch.save(whole, out)


def main(verb, *args):
    {"tensors": tensors, "records": records, "plain": plain, "counters": counters, "sums-wrong": sums_wrong, "one-by-one": one_by_one}[verb](*(int(arg) if arg.isdigit() else arg for arg in args))


main(*sys.argv[1:])
