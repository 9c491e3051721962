# SPDX-License-Identifier: Apache-2.0
"""As much of transformers as the example workers touch. A token is a character's code; a model
answers
with its prompt in capitals. STUB_OOM_ABOVE=N: a batch larger than N does not fit."""

import os

import torch

print("transformers: a banner on stdout, as libraries print them")


def pipeline(task, model, device):
    assert task == "text-generation" and model and device == -1

    def generate(prompt, max_new_tokens, do_sample, return_full_text):
        assert not return_full_text and not do_sample
        return [{"generated_text": prompt.upper()[:max_new_tokens]}]

    return generate


class BatchEncoding(dict):
    def to(self, device):
        assert device == "cpu"
        return self


class AutoTokenizer:
    pad_token = None
    eos_token = "</s>"

    @classmethod
    def from_pretrained(cls, name, padding_side="right"):
        assert padding_side == "left", "a decoder continues at the right end"
        return cls()

    def __call__(self, texts, return_tensors, padding):
        assert return_tensors == "pt" and padding and self.pad_token
        width = max(map(len, texts))
        rows = [[0] * (width - len(text)) + [ord(c) for c in text] for text in texts]
        mask = [[int(token != 0) for token in row] for row in rows]
        return BatchEncoding(input_ids=torch.Tensor(rows), attention_mask=torch.Tensor(mask))

    def batch_decode(self, tokens, skip_special_tokens):
        return [
            "".join(chr(token) for token in row if token or not skip_special_tokens)
            for row in tokens.tolist()
        ]


class AutoModelForCausalLM:
    @classmethod
    def from_pretrained(cls, name, torch_dtype, device_map=None):
        assert torch_dtype == "auto"
        model = cls()
        model.device_map = device_map
        if device_map:
            print("device_map", sorted(device_map.items()))
        return model

    def to(self, device):
        assert not self.device_map, "a model that is spread is where it belongs"
        return self

    def eval(self):
        return self

    def generate(self, input_ids, attention_mask, max_new_tokens, do_sample):
        rows = input_ids.tolist()
        if len(rows) > int(os.environ.get("STUB_OOM_ABOVE", "1000000")):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return torch.Tensor(
            [row + [ord(chr(token).upper()) for token in row][:max_new_tokens] for row in rows]
        )
