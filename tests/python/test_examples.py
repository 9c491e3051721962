# SPDX-License-Identifier: Apache-2.0
"""The example workers run: the LLM ones against stand-ins with the interface of transformers and
vLLM where
those are not installed, the OCR one (named by OCR_WORKER) with its real model."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from driver import HERE, PYTHON_DIR, ROOT, Muster, environment, message_of, run_by_hand

EXAMPLES = os.path.join(ROOT, "examples")
STUBS = os.pathsep.join([os.path.join(HERE, "stubs"), PYTHON_DIR])
PROMPTS = [{"prompt": "one"}, {"prompt": "a second"}, {"prompt": "é"}]


def example(*path):
    return [sys.executable, os.path.join(EXAMPLES, *path)]


def as_lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


class Filter(unittest.TestCase):
    def test_it_counts_words(self):
        status, out, _ = run_by_hand(
            example("filter.py"), as_lines([{"text": "a bc"}, {"text": ""}])
        )
        self.assertEqual(status, 0)
        self.assertEqual(
            [json.loads(line) for line in out.splitlines()],
            [{"words": 2, "longest": "bc"}, {"words": 0, "longest": ""}],
        )


class Llm(unittest.TestCase):
    def test_the_pipeline_filter_keeps_banners_out_of_its_results(self):
        status, out, talk = run_by_hand(
            example("llm", "transformers_filter.py") + ["m"], as_lines(PROMPTS), PYTHONPATH=STUBS
        )
        self.assertEqual(status, 0, talk)
        self.assertEqual(
            [json.loads(line) for line in out.splitlines()],
            [{"text": "ONE"}, {"text": "A SECOND"}, {"text": "É"}],
        )
        self.assertIn("a banner on stdout", talk)

    def test_transformers_answers_in_batches(self):
        with Muster(example("llm", "transformers_channel.py") + ["m"], PYTHONPATH=STUBS) as muster:
            self.assertEqual(
                muster.results(PROMPTS), [{"text": "ONE"}, {"text": "A SECOND"}, {"text": "É"}]
            )
            self.assertEqual(muster.finish(), 0)
            self.assertIn({"loaded": True}, muster.reports)

    def test_transformers_spreads_a_model_by_a_map(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "device_map.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"model": 0, "lm_head": 1}, file)
            argv = example("llm", "transformers_channel.py") + ["m", path]
            with Muster(argv, PYTHONPATH=STUBS) as muster:
                self.assertEqual(
                    muster.results(PROMPTS), [{"text": "ONE"}, {"text": "A SECOND"}, {"text": "É"}]
                )
                self.assertEqual(muster.finish(), 0)

    def test_transformers_halves_the_batch_when_memory_runs_out(self):
        argv = example("llm", "transformers_channel.py") + ["m"]
        with Muster(argv, PYTHONPATH=STUBS, STUB_OOM_ABOVE="5") as muster:
            muster.give(*[message_of(i, {"prompt": f"p{i}"}) for i in range(16)])
            self.assertEqual([muster.expect("oom")["batch"] for _ in range(2)], [8, 4])
            self.assertEqual(
                [muster.expect("done")["result"]["text"] for _ in range(16)],
                [f"P{i}" for i in range(16)],
            )
            self.assertEqual(muster.finish(), 0)

    def test_vllm_uses_all_its_devices_and_each_items_seed(self):
        argv = example("llm", "vllm_channel.py") + ["m"]
        with Muster(argv, PYTHONPATH=STUBS, MUSTER_DEVICE="GPU-a,GPU-b") as muster:
            muster.await_credits(512)
            over = muster.map(PROMPTS)
            self.assertEqual(over[1]["result"], {"text": f"A SECOND tp=2 seed={7919 + 1}"})
            self.assertEqual(over[1]["metrics"], {"tokens": 8})
            self.assertEqual(muster.finish(), 0)


@unittest.skipUnless(os.environ.get("OCR_WORKER"), "the OCR example was not built")
class Ocr(unittest.TestCase):
    words = ["paper clip", "sunflower", "abundance", "walk", "turbofan engine", "quietly"]

    def read(self, order):
        with Muster([os.environ["OCR_WORKER"]], MUSTER_SEED="1") as muster:
            for i in order:
                muster.give(message_of(i, {"lemma": self.words[i]}))
            self.assertEqual(muster.finish(), 0)
            return {report["done"]: report for report in muster.reports if "done" in report}

    def test_it_reads_most_words_and_the_same_ones_in_any_order(self):
        forth, back = self.read(range(6)), self.read(range(5, -1, -1))
        self.assertEqual(forth, back)
        self.assertGreaterEqual(sum(report["metrics"]["correct"] for report in forth.values()), 4)
        self.assertEqual([forth[i]["result"]["lemma"] for i in range(6)], self.words)

    def test_an_item_without_a_text_is_its_own_failure(self):
        with Muster([os.environ["OCR_WORKER"]]) as muster:
            over = muster.map([{"word": "x"}, 7, {"lemma": "x" * 100}])
            self.assertEqual({report["retry"] for report in over.values()}, {False})
            self.assertEqual(muster.finish(), 0)


@unittest.skipUnless(
    os.path.exists("/usr/share/wordnet/index.noun"), "wordnet-base is not installed"
)
class Lemmas(unittest.TestCase):
    def lemmas(self, *args):
        done = subprocess.run(
            [os.path.join(EXAMPLES, "ocr", "lemmas.sh"), *args],
            env=environment(),
            capture_output=True,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_they_are_distinct_and_the_same_every_time(self):
        lemmas = self.lemmas()
        self.assertEqual(len(lemmas), 2000)
        self.assertEqual(len({record["lemma"] for record in lemmas}), 2000)
        self.assertEqual({record["pos"] for record in lemmas}, set("nvar"))
        self.assertEqual(self.lemmas("2000"), lemmas)
        self.assertEqual(len(self.lemmas("3")), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
