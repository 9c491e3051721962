#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The stages of experiments.yaml: language models of characters that learn from what they write themselves.

    lm.py texts DATA                    glosses of WordNet: what is learned, what is tested, and prompts
    lm.py base MODEL DATA               a model of the text: models/MODEL_DATA_r0.json
    lm.py generate MODEL DATA ROUND     a worker of muster map: continues prompts, by the model of the round before
    lm.py rescore MODEL DATA ROUND      keeps the better half of what was written
    lm.py train MODEL DATA ROUND        the model of the round before, and what was kept
    lm.py evaluate MODEL DATA ROUND     bits a character of the test text
    lm.py report                        all results as a table

The same arguments, and for `generate` the same seeds, give the same bytes. Standard library only.
"""
import json
import math
import os
import pathlib
import random
import sys

ORDERS = {"trigram": 3, "fivegram": 5}  # characters that a model looks at, with the one that it predicts
FILES = {"nouns": "data.noun", "verbs": "data.verb"}
N_LEARNED, N_TESTED, N_PROMPTS = 2000, 100, 100
PROMPT, LONGEST = 12, 60  # characters
END = "\n"


def write(path, text):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(text, encoding="utf-8")


def lines(path):
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


# ---- models: {what stands before: {character: how often}}, for each length of what stands before ----


def checkpoint(model, data, round_):
    return f"models/{model}_{data}_r{round_}.json"


def load(model, data, round_):
    """There is no other model to fall back on: without its checkpoint a round fails."""
    return json.loads(pathlib.Path(checkpoint(model, data, round_)).read_text(encoding="utf-8"))


def save(counts, model, data, round_):
    write(checkpoint(model, data, round_), json.dumps(counts, sort_keys=True))


def learn(counts, order, text):
    text += END
    for at, character in enumerate(text):
        for length in range(min(order - 1, at) + 1):
            seen = counts.setdefault(text[at - length:at], {})
            seen[character] = seen.get(character, 0) + 1


def odds(counts, before, known):
    """{character: probability} of what comes next: a context counts the more, the more often it was seen."""
    if before not in known:
        seen = counts.get(before, {})
        total, kinds = sum(seen.values()), len(seen)
        shorter = odds(counts, before[1:], known) if before else dict.fromkeys(seen, 1 / kinds)
        known[before] = {c: (seen.get(c, 0) + kinds * p) / (total + kinds) for c, p in shorter.items()} if seen else shorter
    return known[before]


def tail(text, order):
    return text[max(0, len(text) - order + 1):]


def continued(counts, order, prompt, luck, known):
    text = prompt
    while len(text) < LONGEST:
        likely = odds(counts, tail(text, order), known)
        character = luck.choices(list(likely), list(likely.values()))[0]
        if character == END:
            break
        text += character
    return text


# ---- stages ----


def texts(data):
    path = pathlib.Path(os.environ.get("WNSEARCHDIR", "/usr/share/wordnet")) / FILES[data]
    glosses = [line.split(" | ")[1].split(";")[0].strip() for line in lines(path) if not line.startswith("  ")]
    glosses = [gloss for gloss in glosses if len(gloss) > PROMPT and gloss.isascii()]
    n = N_LEARNED + N_TESTED + N_PROMPTS
    glosses = [glosses[i * len(glosses) // n] for i in range(n)]
    random.Random(0).shuffle(glosses)
    write(f"texts/{data}.test.txt", "\n".join(glosses[:N_TESTED]) + "\n")
    prompts = glosses[N_TESTED:N_TESTED + N_PROMPTS]
    write(f"texts/{data}.prompts.jsonl", "".join(json.dumps({"prompt": text[:PROMPT]}) + "\n" for text in prompts))
    write(f"texts/{data}.txt", "\n".join(glosses[N_TESTED + N_PROMPTS:]) + "\n")


def base(model, data):
    counts = {}
    for text in lines(f"texts/{data}.txt"):
        learn(counts, ORDERS[model], text)
    save(counts, model, data, 0)


def generate(model, data, round_):
    import muster
    counts = load(model, data, int(round_) - 1)
    known = {}
    muster.loaded()
    for item in muster.items():
        luck = random.Random(item.seed)
        item.done(text=continued(counts, ORDERS[model], item.data["prompt"], luck, known))


def rescore(model, data, round_):
    known = {word for text in lines(f"texts/{data}.txt") for word in text.split()}
    written = [json.loads(line)["text"] for line in lines(f"rollouts/{model}_{data}_r{round_}.jsonl")]

    def score(text):
        return sum(word in known for word in text.split()) / len(text.split())
    best = sorted(written, key=lambda text: (-score(text), text))[:len(written) // 2]
    write(f"rescored/{model}_{data}_r{round_}.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in best))


def train(model, data, round_):
    folder = "rescored" if model == "trigram" else "rollouts"
    counts = load(model, data, int(round_) - 1)
    for line in lines(f"{folder}/{model}_{data}_r{round_}.jsonl"):
        learn(counts, ORDERS[model], json.loads(line)["text"])
    save(counts, model, data, round_)


def evaluate(model, data, round_):
    counts = load(model, data, round_)
    order, bits, n, known = ORDERS[model], 0.0, 0, {}
    tested = lines(f"texts/{data}.test.txt")
    for text in tested:
        text = "".join(c for c in text if c in counts[""]) + END
        for at, character in enumerate(text):
            bits -= math.log2(odds(counts, tail(text[:at], order), known)[character])
        n += len(text)
    write(f"results/{model}_{data}_r{round_}.json", json.dumps(
        {"model": model, "data": data, "round": int(round_), "num_examples": len(tested),
         "bits_per_character": round(bits / n, 4)}) + "\n")


def report():
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(pathlib.Path("results").glob("*.json"))]
    write("report.txt", "".join("{model:8}  {data:5}  round {round}  {bits_per_character:.4f} bits a character\n"
                                .format(**result) for result in results))


STAGES = [texts, base, generate, rescore, train, evaluate, report]

if __name__ == "__main__":
    {stage.__name__: stage for stage in STAGES}[sys.argv[1]](*sys.argv[2:])
