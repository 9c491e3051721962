# SPDX-License-Identifier: Apache-2.0
"""Large batches through vLLM, over all the devices this worker was given, each item with its own
seed.

muster map prompts.jsonl -o texts.jsonl --gpus-per-worker 2 -- python vllm_channel.py Qwen/Qwen3-8B
"""

import sys

import muster
from vllm import LLM, SamplingParams

if __name__ == "__main__":  # vLLM starts processes that import this file again
    llm = LLM(model=sys.argv[1], tensor_parallel_size=muster.device_count())
    muster.loaded()

    for batch in muster.batches(512):
        prompts = [item.data["prompt"] for item in batch]
        params = [
            SamplingParams(temperature=0.8, max_tokens=256, seed=item.seed % 2**31)
            for item in batch
        ]
        for item, output in zip(batch, llm.generate(prompts, params, use_tqdm=False)):
            best = output.outputs[0]
            item.done(text=best.text, metrics={"tokens": len(best.token_ids)})
