# SPDX-License-Identifier: Apache-2.0
r"""Batches of prompts through a transformers model; out of memory halves the batch.

muster map prompts.jsonl -o texts.jsonl -- python transformers_channel.py Qwen/Qwen3-0.6B

A model that is too large for one GPU gets a map as the second argument, and each worker as many GPUs as it has:

muster plan models/gpt-neox-20b -g 0,1 -o device_map.json
muster map --gpus-per-worker 2 prompts.jsonl -o texts.jsonl -- \
    python transformers_channel.py models/gpt-neox-20b device_map.json
"""

import json
import sys

import muster
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

device = "cuda" if torch.cuda.is_available() else "cpu"
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], padding_side="left")
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
if len(sys.argv) > 2:
    with open(sys.argv[2], encoding="utf-8") as file:
        device_map = json.load(file)
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], torch_dtype="auto", device_map=device_map)
else:
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], torch_dtype="auto").to(device)
model.eval()
muster.loaded()

for batch in muster.batches(16):
    with batch, torch.inference_mode():
        prompts = [item.data["prompt"] for item in batch]
        inputs = tokenizer(prompts, return_tensors="pt", padding=True).to(device)
        outputs = model.generate(**inputs, max_new_tokens=128, do_sample=False)
        answers = outputs[:, inputs["input_ids"].shape[1] :]
        for item, text in zip(batch, tokenizer.batch_decode(answers, skip_special_tokens=True)):
            item.done(text=text)
