# SPDX-License-Identifier: Apache-2.0
"""As much of vLLM as the example worker touches."""

from types import SimpleNamespace

print("vllm: a banner on stdout, as libraries print them")


class SamplingParams:
    def __init__(self, temperature=1.0, max_tokens=16, seed=None):
        assert seed is None or -(2**63) <= seed < 2**63
        self.temperature, self.max_tokens, self.seed = temperature, max_tokens, seed


class LLM:
    def __init__(self, model, tensor_parallel_size=1):
        self.tensor_parallel_size = tensor_parallel_size

    def generate(self, prompts, sampling_params, use_tqdm=True):
        assert len(prompts) == len(sampling_params) and not use_tqdm
        for prompt, params in zip(prompts, sampling_params):
            text = f"{prompt.upper()} tp={self.tensor_parallel_size} seed={params.seed}"
            yield SimpleNamespace(
                outputs=[SimpleNamespace(text=text, token_ids=list(range(len(prompt))))]
            )
