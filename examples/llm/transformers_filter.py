# SPDX-License-Identifier: Apache-2.0
"""One prompt at a time through a transformers pipeline, as a filter.

muster map prompts.jsonl -o texts.jsonl -- python transformers_filter.py Qwen/Qwen3-0.6B
"""

import json
import sys

import muster

results = muster.claim_stdout()  # first, so that what the libraries print goes to the log

import torch
from transformers import pipeline

device = 0 if torch.cuda.is_available() else -1
generate = pipeline("text-generation", model=sys.argv[1], device=device)

for line in sys.stdin:
    prompt = json.loads(line)["prompt"]
    answer = generate(prompt, max_new_tokens=128, do_sample=False, return_full_text=False)
    print(json.dumps({"text": answer[0]["generated_text"]}), file=results)
