# SPDX-License-Identifier: Apache-2.0
"""A stand-in for LatentMAS's worker, run.py: the same arguments, with the same defaults and the same rules; the
same names and schema of files, the same marker of progress, and no model. What it collects is made up from its seed.

muster map --items 100 -g 1,3,5,7 --id 'questions.*.question_id' --renumber \\
    --collect 'prm_data/*_{run}_{suffix}.pt' -o merged.pt \\
    --also-counted 'prm_data/*_{run}_{suffix}_metadata.json=merged_metadata.json' -- \\
    python3 run.py --method latent_mas_multipath --model_name Qwen/Qwen3-0.6B --task gsm8k \\
    --gpu_id {gpu} --data_start_idx {start} --max_samples {count} --seed {seed} \\
    --temperature 0.7 --generate_bs 1 \\
    --output_suffix {suffix} --prm_batch_timestamp {run} --collect_prm_data

What the real one does, and a command has to reckon with:
  * without --temperature it ends with a TypeError, unless it has a --config or --config_preset
  * of a batch of --generate_bs questions, 20 unless it is told otherwise, it keeps the last one only
  * a question is called q_ and its number in its batch; the ids of paths begin with 0 in each process

Two variables of the environment are for the stand-in alone. LATENTMAS_PLAY holds options of its own (see `play`).
LATENTMAS_FAULT=KIND@INDEX lets the process that has question INDEX fail: crash (before it), kill (by SIGKILL), short
(that question is left out), lost (the files are not saved, and the status is 0).
"""

import argparse
import datetime
import json
import os
import random
import shlex
import signal
import sys
import time

import numpy
import torch

AGENTS = ("Planner", "Critic", "Refiner", "Judger")
JUDGER = len(AGENTS) - 1
N_QUESTIONS = 2000  # in the data set
TASKS = (
    "gsm8k aime2024 aime2025 gpqa arc_easy arc_challenge mbppplus humanevalplus medqa cot_fact_wiki"
).split()
LATENT_STEPS = 10
FLAGS = (
    "--think --latent_space_realign --use_vllm --enable_prefix_caching --use_second_HF_model --enable_branching "
    "--enable_merging --list_presets --collect_prm_data --prm_disable_pruning --prm_disable_merging"
).split()


# ---- arguments ----


def arguments():
    """Those of the real one, and no others."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--method", required=True,
        choices=["baseline", "text_mas", "latent_mas", "latent_mas_multipath"])  # fmt: skip
    add("--model_name", required=True)
    add("--max_samples", type=int, default=-1)
    add("--task", default="gsm8k", choices=TASKS)
    add("--prompt", default="sequential", choices=["sequential", "hierarchical"])
    add("--log_level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    add("--device", default="cuda")
    add("--split", default="test")
    add("--max_new_tokens", type=int, default=4096)
    add("--latent_steps", type=int)
    add("--temperature", type=float)
    add("--top_p", type=float, default=0.95)
    add("--generate_bs", type=int, default=20)
    add("--text_mas_context_length", type=int, default=-1)
    add("--seed", type=int, default=42)
    # vLLM
    add("--device2", default="cuda:1")
    add("--tensor_parallel_size", type=int, default=1)
    add("--gpu_memory_utilization", type=float, default=0.9)
    # paths
    add("--num_paths", type=int, default=5)
    add("--num_parent_paths", type=int, default=5)
    add("--diversity_strategy", default="hybrid", choices=["temperature", "noise", "hybrid"])
    add("--pruning_strategy", default="adaptive",
        choices=["topk", "adaptive", "diversity", "budget"])  # fmt: skip
    add("--topk_k", type=int, default=3)
    add("--latent_consistency_metric", default="cosine",
        choices=["cosine", "euclidean", "l2", "kl_divergence"])  # fmt: skip
    add("--merge_threshold", type=float, default=0.9)
    add("--branch_threshold", type=float, default=0.5)
    add("--config")
    add("--config_preset",
        choices=["conservative", "balanced", "aggressive", "fast", "quality"])  # fmt: skip
    # what is collected
    add("--prm_output_dir", default="prm_data")
    add("--prm_batch_timestamp")
    add("--enable_visualization", action="store_true", default=True)
    add("--disable_visualization", dest="enable_visualization", action="store_false")
    # one share of several
    add("--gpu_id", type=int)
    add("--data_start_idx", type=int, default=0)
    add("--output_suffix")
    for name in FLAGS:
        add(name, action="store_true")
    args = parser.parse_args()
    config_check(args)
    if args.latent_steps is None:
        args.latent_steps = LATENT_STEPS
    return play(args)


def config_check(args):
    """Where the real one stumbles: what is not given here is not the configuration's default."""
    if args.method != "latent_mas_multipath":
        return
    is_bare = not args.config and not args.config_preset
    if is_bare and args.temperature <= 0:  # a TypeError without one
        raise ValueError(f"temperature must be > 0, got {args.temperature}")
    if args.temperature is None:
        args.temperature = 0.7


def play(args):
    """What the stand-in is told besides."""
    parser = argparse.ArgumentParser(prog="LATENTMAS_PLAY")
    add = parser.add_argument
    add("--hidden", type=int, default=16, help="width of the tensors; that of Qwen3-0.6B is 1024")
    add("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    add("--full_size", action="store_true", help="as the real one: 20 paths, width 1024, bfloat16")
    add("--work_ms", type=float, default=0, help="how long a question takes")
    parser.parse_args(shlex.split(os.environ.get("LATENTMAS_PLAY", "")), namespace=args)
    if args.full_size:
        args.num_paths, args.hidden, args.dtype = 20, 1024, "bfloat16"
    return args


# ---- the data set ----


def question_of(index):
    """The same question for an index, whoever asks."""
    draw = random.Random(index)
    boxes, each, given = draw.randint(2, 12), draw.randint(3, 20), draw.randint(1, 5)
    return {
        "index": index,
        "question": f"A shop has {boxes} boxes of {each} pens and gives {given} pens away. "
        "How many are left?",
        "answer": str(boxes * each - given),
    }


def share_of(args):
    """As the real one: a share that reaches beyond the data is silently shorter."""
    end = N_QUESTIONS if args.max_samples == -1 else args.data_start_idx + args.max_samples
    return [question_of(i) for i in range(args.data_start_idx, min(end, N_QUESTIONS))]


# ---- one question ----


def tensor(args, *shape):
    return torch.randn(*shape, args.hidden).to(getattr(torch, args.dtype))


def path_of(args, draw, path_id, agent, parent, gold):
    is_judger = agent == JUDGER
    metadata = {"parent_path_id": parent}
    if is_judger:
        is_correct = draw.random() < 0.2
        answer = gold if is_correct else str(draw.randint(0, 300))
        metadata.update(decoded_answer=f"The answer is {answer}.", extracted_answer=answer,
                        is_correct=answer == gold, gold_answer=gold)  # fmt: skip
    else:
        metadata.update(temperature=args.temperature, latent_steps=args.latent_steps,
                        diversity_strategy="HybridDiversityStrategy", agent_name=AGENTS[agent],
                        agent_idx=agent, batch_idx=0, base_score=draw.random(),
                        latent_consistency=draw.random())  # fmt: skip
    return {
        "path_id": path_id,
        "agent_name": AGENTS[agent],
        "agent_idx": agent,
        "parent_path_id": parent,
        "child_path_ids": [],
        "score": draw.random(),
        "prm_score": None,
        "metadata": metadata,
        "latent_history": None if is_judger else tensor(args, args.latent_steps, 1),
        "hidden_states": tensor(args, 1),
        "num_latent_steps": 0 if is_judger else args.latent_steps,
    }


def scores_fill(paths):
    """A judger's path is right or wrong; one that led to others is the mean of them; others are 0."""
    for path in reversed(paths):
        first = paths[0]["path_id"]
        children = [paths[child - first]["prm_score"] for child in path["child_path_ids"]]
        if path["agent_idx"] == JUDGER:
            path["prm_score"] = 1.0 if path["metadata"]["is_correct"] else 0.0
        elif children:
            path["prm_score"] = numpy.mean(children)  # a numpy.float64, as in the real one
        else:
            path["prm_score"] = 0.0


def tree_of(paths):
    depth = {}
    for path in paths:
        parent = path["parent_path_id"]
        depth[path["path_id"]] = 0 if parent is None else depth[parent] + 1
    nodes = [
        {
            "path_id": path["path_id"],
            "agent_name": path["agent_name"],
            "agent_idx": path["agent_idx"],
            "parent_id": path["parent_path_id"],
            "children_ids": list(path["child_path_ids"]),
            "original_score": path["score"],
            "prm_score": path["prm_score"],
            "is_leaf": not path["child_path_ids"],
            "depth": depth[path["path_id"]],
            "is_correct": path["metadata"].get("is_correct"),
        }
        for path in paths
    ]
    edges = [(p["parent_path_id"], p["path_id"]) for p in paths if p["parent_path_id"] is not None]
    return {
        "nodes": nodes,
        "edges": edges,
        "root_ids": [p["path_id"] for p in paths if p["parent_path_id"] is None],
        "num_nodes": len(nodes),
        "num_edges": len(edges),
        "max_depth": max(depth.values()),
    }


def record_of(args, draw, item, name, first_path):
    paths, parents = [], [None]
    for agent in range(len(AGENTS)):
        born = []
        for turn in range(args.num_paths):
            parent = parents[turn % len(parents)]
            path = path_of(args, draw, first_path + len(paths), agent, parent, item["answer"])
            if parent is not None:
                paths[parent - first_path]["child_path_ids"].append(path["path_id"])
            paths.append(path)
            born.append(path["path_id"])
        parents = draw.sample(born, min(args.num_parent_paths, len(born)))
    scores_fill(paths)
    answers = [p["metadata"] for p in paths if p["agent_idx"] == JUDGER]
    right = [a["extracted_answer"] for a in answers if a["is_correct"]]
    return {
        "question_id": name,
        "question": item["question"],
        "gold_answer": item["answer"],
        "final_answer": right[0] if right else answers[0]["extracted_answer"],
        "is_correct": bool(right),
        "tree_structure": tree_of(paths),
        "paths": paths,
    }


# ---- the files ----


def save(args, records):
    now = datetime.datetime.now()
    stamp = args.prm_batch_timestamp or now.strftime("%Y%m%d_%H%M%S")
    batch_name = "_".join(filter(None, [args.task, args.method, stamp, args.output_suffix]))
    data_file = os.path.join(args.prm_output_dir, batch_name + ".pt")
    os.makedirs(args.prm_output_dir, exist_ok=True)
    torch.save(
        {
            "batch_name": batch_name,
            "timestamp": now.strftime("%Y%m%d_%H%M%S"),
            "num_questions": len(records),
            "questions": records,
        },
        data_file,
    )
    metadata = {
        "task": args.task,
        "method": args.method,
        "model": args.model_name,
        "num_questions": len(records),
        "num_paths_total": sum(len(record["paths"]) for record in records),
        "accuracy": sum(record["is_correct"] for record in records) / len(records),
        "timestamp": now.isoformat(),
        "batch_name": batch_name,
        "data_file": data_file,
    }
    with open(os.path.join(args.prm_output_dir, batch_name + "_metadata.json"), "w") as out:
        json.dump(metadata, out, indent=2, ensure_ascii=False)


def fault_of(share):
    """The fault that is asked for, if its question is in this share; else (None, -1)."""
    kind, _, index = os.environ.get("LATENTMAS_FAULT", "").partition("@")
    has_it = index != "" and any(item["index"] == int(index) for item in share)
    return (kind, int(index)) if has_it else (None, -1)


def batch_run(args, draw, items, n_paths, fault):
    """The records of a batch: that of its last question, as the real one keeps them."""
    kind, at = fault
    record = None
    for number, item in enumerate(items):
        if item["index"] == at and kind == "crash":
            raise RuntimeError(f"question {at}: what LATENTMAS_FAULT asked for")
        if item["index"] == at and kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        record = record_of(args, draw, item, f"q_{number}", n_paths)
        n_paths += len(record["paths"])
        time.sleep(args.work_ms / 1000)
    return record, n_paths, items[-1]["index"] == at and kind == "short"


def main():
    args = arguments()
    share = share_of(args)
    fault = fault_of(share)
    if not share:
        return  # as the real one: no file, and no complaint
    torch.manual_seed(args.seed)
    draw = random.Random(args.seed)
    print(f"GPU {args.gpu_id}: questions {share[0]['index']} to {share[-1]['index']}",
          file=sys.stderr)  # fmt: skip
    records, n_correct, n_batches, n_paths, seen = [], 0, 0, 0, 0
    while seen < len(share):
        items = share[seen : seen + args.generate_bs]
        record, n_paths, is_left_out = batch_run(args, draw, items, n_paths, fault)
        n_correct += record["is_correct"]
        n_batches += 1
        seen += len(items)
        if not is_left_out:
            records.append(record)
        if args.gpu_id is not None:
            print(f"[PROGRESS:{seen}/{len(share)}|acc:{n_correct / n_batches:.4f}"
                  f"|correct:{n_correct}/{n_batches}]", file=sys.stderr, flush=True)  # fmt: skip
    if args.collect_prm_data and fault[0] != "lost":
        save(args, records)
    print(f"Accuracy: {n_correct / n_batches:.4f} ({n_correct}/{n_batches})")


if __name__ == "__main__":
    main()
