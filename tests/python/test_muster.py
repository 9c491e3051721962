# SPDX-License-Identifier: Apache-2.0
"""muster.py beyond the protocol: results, contexts, serve, filters, children."""

import json
import os
import re
import signal
import subprocess
import sys
import unittest

from driver import PYTHON_DIR, ROOT, Muster, environment, message_of, run_by_hand, script


def by_hand(body, text="a\n", **env):
    return run_by_hand(script("import muster\n" + body), text, **env)


class Results(unittest.TestCase):
    def give(self, call, text="a\n"):
        status, out, talk = by_hand(f"for item in muster.items():\n    {call}\n", text)
        return out if status == 0 else talk

    def test_a_result_is_a_value_or_fields(self):
        cases = [
            ("item.done('b')", "b"),
            ("item.done({'a': [1]})", {"a": [1]}),
            ("item.done(text='é')", {"text": "é"}),
            ("item.done(None)", None),
            ("item.done(a=1, b=None)", {"a": 1, "b": None}),
            ("item.done(0)", 0),
            ("item.done(result=1)", {"result": 1}),
            ("item.done(result=1, score=2)", {"result": 1, "score": 2}),
            ("item.done(**{'self': 1, 'item': 2, 'fields': 3})", {"self": 1, "item": 2, "fields": 3}),
            ("item.done({'metrics': 'bleu'})", {"metrics": "bleu"}),
            ("item.done(1, metrics=None)", 1),
            ("item.done(text='b', metrics=None)", {"text": "b"}),
        ]
        for call, expected in cases:
            with self.subTest(call):
                self.assertEqual(json.loads(self.give(call)), expected)

    def test_arrays_and_scalars_become_lists_and_numbers(self):
        body = (
            "class Array:\n"
            "    def __init__(self, value): self.value = value\n"
            "    def tolist(self): return self.value\n"
            "class Scalar:\n"
            "    def item(self): return 2.5\n"
            "for item in muster.items():\n"
            "    item.done({'a': Array([1, [2.5]]), 's': Scalar()}, metrics={'m': Scalar()})\n"
        )
        status, out, _ = by_hand(body)
        self.assertEqual((status, json.loads(out)), (0, {"a": [1, [2.5]], "s": 2.5}))

    def test_a_number_of_any_kind_can_be_a_metric(self):
        call = (
            "import decimal, fractions, numbers\n"
            "    class int64:\n"
            "        def item(self): return 2**53 + 1\n"
            "    numbers.Integral.register(int64)\n"
            "    some = {'a': True, 'b': decimal.Decimal('1.5'), 'c': fractions.Fraction(1, 4), 'd': int64()}\n"
            "    item.done(1, metrics=some)"
        )
        with Muster(script(f"import muster\nfor item in muster.items():\n    {call}\n")) as muster:
            expected = {"a": 1, "b": 1.5, "c": 0.25, "d": 2**53 + 1}
            self.assertEqual(muster.map(["x"])[0]["metrics"], expected)

    def test_a_scalar_that_has_no_plain_form_is_refused_by_its_name(self):
        longdouble = (  # numpy's: what tolist() and item() return is of the same type
            "import numbers\n"
            "class longdouble:\n"
            "    def tolist(self): return longdouble()\n"
            "    item = tolist\n"
            "    def __float__(self): return 2.5\n"
            "    def __repr__(self): return '2.5'\n"
            "numbers.Real.register(longdouble)\n"
        )
        for call in ("item.done(longdouble())", "item.done([{'a': longdouble()}])"):
            with self.subTest(call):
                talk = by_hand(longdouble + f"for item in muster.items(): {call}\n")[2]
                self.assertIn("TypeError: item 0: longdouble cannot be written as JSON: convert it first", talk)
        body = longdouble + "for item in muster.items(): item.done(1, metrics={'m': longdouble()})\n"
        with Muster(script("import muster\n" + body)) as muster:
            self.assertEqual(muster.map(["x"])[0]["metrics"], {"m": 2.5})

    def test_what_cannot_be_a_result_is_refused_with_the_place(self):
        cases = [
            ("item.done({'a': [1, float('nan')]})", "item 0: result['a'][1] is nan"),
            ("item.done(x=float('inf'))", "result['x'] is inf"),
            ("item.done(1, metrics={'loss': float('nan')})", "the metric 'loss' is nan"),
            ("item.done(1, metrics={'loss': '1'})", "TypeError: item 0: the metric 'loss' is '1': a finite number"),
            ("item.done(1, metrics={'loss': [1]})", "TypeError: item 0: the metric 'loss' is [1]: a finite number"),
            ("item.done(1, metrics={'loss': 1j})", "TypeError: item 0: the metric 'loss' is 1j: a finite number"),
            ("item.done(1, metrics=['loss'])", "TypeError: item 0: metrics is ['loss']"),
            ("item.done(1, metrics='')", "TypeError: item 0: metrics is ''"),
            # a record that happens to have a field of this name
            ("item.done(**{'a': 1, 'metrics': 'bleu'})", "with the others as one object: item.done({...})"),
            ("item.done(**{'a': 1, 'metrics': {'bleu': '1'}})", "with the others as one object: item.done({...})"),
            ("item.done(1, metrics={'n': 10**400})", "ValueError: item 0: the metric 'n' is 10000"),
            ("a = []\n    for _ in range(9999): a = [a]\n    item.done(a)", "ValueError: item 0: result is nested"),
            ("item.done(object())", "object cannot be written as JSON"),
            ("item.done()", "a result or fields"),
            ("item.done(1, a=2)", "a result or fields"),
            ("item.done(1); item.done(2)", "item 0 is finished already"),
            ("item.done(1); item.fail('x')", "item 0 is finished already"),
        ]
        for call, words in cases:
            with self.subTest(call):
                self.assertIn(words, self.give(call))

    def test_a_result_that_was_refused_leaves_the_item_open(self):
        body = (
            "for item in muster.items():\n"
            "    try: item.done(float('nan'))\n"
            "    except ValueError: item.done('instead')\n"
        )
        self.assertEqual(by_hand(body)[:2], (0, '"instead"\n'))

    def test_whether_to_retry_is_true_or_false(self):
        for retry, sent in (("0", False), ("1", True), ("''", False), ("None", False), ("[0]", True)):
            text = f"import muster\nfor item in muster.items(): item.fail('no', retry={retry})\n"
            with self.subTest(retry), Muster(script(text)) as muster:
                self.assertIs(muster.map(["x"])[0]["retry"], sent)

    def test_an_item_stays_in_its_process(self):
        for call in ("copy.copy(item)", "copy.deepcopy(item)", "pickle.dumps(item)", "pickle.dumps([item], 0)"):
            with self.subTest(call):
                talk = self.give(f"import copy, pickle; {call}")
                self.assertIn("send item.data, and item.index with it, to the other process", talk)

    def test_a_lone_surrogate_does_not_end_the_worker(self):
        self.assertEqual(json.loads(self.give("item.done('\\ud800')")), "\ud800")


class Loops(unittest.TestCase):
    def test_an_exception_in_a_with_block_fails_the_item_and_the_loop_goes_on(self):
        body = (
            "for item in muster.items():\n" "    with item:\n" "        item.done(1 / item.data)\n"
        )
        with Muster(script("import muster\n" + body)) as muster:
            over = muster.map([0, 2])
            self.assertEqual(
                over[0], {"fail": 0, "error": "ZeroDivisionError: division by zero", "retry": True}
            )
            self.assertEqual(over[1]["result"], 0.5)
            self.assertEqual(muster.finish(), 0)
            self.assertIn("Traceback", muster.output(2))

    def test_an_exception_outside_ends_the_worker_and_keeps_what_was_done(self):
        body = (
            "for batch in muster.batches(3):\n"
            "    batch[0].done('kept')\n"
            "    raise KeyError('typo')\n"
        )
        with Muster(script("import muster\n" + body)) as muster:
            muster.give(*[message_of(i) for i in range(3)])
            self.assertEqual(muster.expect("done")["result"], "kept")
            self.assertEqual(muster.end(), 1)
            self.assertIn("KeyError: 'typo'", muster.output(2))

    def test_a_worker_that_leaves_in_the_middle_has_reported_what_was_done(self):
        body = (
            "import ctypes, sys\n"
            "loop = muster.batches(3)\n"
            # as if another thread held it: nothing closes the generator at exit
            "ctypes.pythonapi.Py_IncRef(ctypes.py_object(loop))\n"
            "for item in next(loop)[:2]: item.done('kept')\n"
            "sys.exit(0)\n"
        )
        with Muster(script("import muster\n" + body)) as muster:
            muster.give(*[message_of(i) for i in range(3)])
            self.assertEqual([muster.expect("done")["result"] for _ in range(2)], ["kept"] * 2)
            self.assertEqual(muster.end(), 0)

    def test_out_of_memory_in_a_batch_halves_it_until_it_fits(self):
        body = (
            "for batch in muster.batches(8):\n"
            "    with batch:\n"
            "        if len(batch) > 2: raise RuntimeError('CUDA out of memory. Tried ...')\n"
            "        for item in batch: item.done(len(batch))\n"
        )
        with Muster(script("import muster\n" + body)) as muster:
            muster.give(*[message_of(i) for i in range(8)])
            self.assertEqual([muster.expect("oom")["batch"] for _ in range(2)], [4, 2])
            self.assertEqual([muster.expect("done")["result"] for _ in range(8)], [2] * 8)
            self.assertEqual(muster.finish(), 0)

    def test_out_of_memory_with_one_item_is_its_failure(self):
        body = (
            "for batch in muster.batches(1):\n"
            "    with batch: raise MemoryError('out of memory')\n"
        )
        with Muster(script("import muster\n" + body)) as muster:
            self.assertEqual(muster.map(["a"])[0]["error"], "MemoryError: out of memory")

    def test_a_forgotten_item_of_a_batch_is_named(self):
        status, _, talk = by_hand("for b in muster.batches(3): b[1].done(1)\n", "a\nb\nc\n")
        self.assertEqual(status, 1)
        self.assertIn("items 0, 2 were neither done nor failed", talk)

    def test_without_a_size_muster_chooses_the_batch(self):
        body = "for b in muster.batches():\n    for i in b: i.done([len(b), muster.batch_size()])\n"
        with Muster(script("import muster\n" + body), MUSTER_BATCH="3") as muster:
            muster.await_credits(3)
            self.assertEqual(muster.credits, 3)
            muster.give(*[message_of(i) for i in range(3)])
            self.assertEqual([muster.expect("done")["result"] for _ in range(3)], [[3, 3]] * 3)
            muster.send({"batch": 5}, *[message_of(i) for i in range(3, 6)])
            self.assertEqual([muster.expect("done")["result"] for _ in range(3)], [[3, 5]] * 3)
            muster.await_credits(5)
            muster.give(*[message_of(i) for i in range(6, 11)])
            self.assertEqual([muster.expect("done")["result"] for _ in range(5)], [[5, 5]] * 5)

    def test_two_loops_at_once_are_refused(self):
        status, _, talk = by_hand(
            "for item in muster.items():\n    for batch in muster.batches(2): pass\n"
        )
        self.assertEqual(status, 1)
        self.assertIn("use one at a time", talk)


class Serve(unittest.TestCase):
    def serve(self, body, concurrency=4):
        text = f"import asyncio, muster\nasync def handle(item):\n{body}\n"
        text += f"muster.serve(handle, concurrency={concurrency})\n"
        return Muster(script(text))

    def test_as_many_run_at_once_as_were_asked_for(self):
        body = (
            "    global running, gate\n"
            "    running = globals().get('running', 0) + 1\n"
            "    gate = globals().get('gate') or asyncio.Event()\n"
            "    if running == 4: gate.set()\n"
            "    await gate.wait()\n"
            "    return running"
        )
        with self.serve(body) as muster:
            muster.await_credits(4)
            self.assertEqual(muster.credits, 4)
            muster.give(message_of(0), message_of(1), message_of(2))
            self.assertTrue(muster.is_silent(0.05))
            muster.give(message_of(3))
            self.assertEqual([muster.expect("done")["result"] for _ in range(4)], [4] * 4)
            self.assertEqual(muster.finish(), 0)

    def test_an_exception_fails_its_item_alone(self):
        with self.serve("    return 1 / item.data") as muster:
            over = muster.map([1, 0, 2])
            self.assertEqual(over[1]["error"], "ZeroDivisionError: division by zero")
            self.assertEqual((over[0]["result"], over[2]["result"]), (1.0, 0.5))
            self.assertEqual(muster.finish(), 0)

    def test_a_handler_may_report_by_itself(self):
        with self.serve("    item.done(text=item.data, metrics={'seen': 1})") as muster:
            self.assertEqual(
                muster.map(["x"])[0], {"done": 0, "result": {"text": "x"}, "metrics": {"seen": 1}}
            )

    def test_none_is_a_result_unless_the_handler_has_reported(self):
        body = "    if item.data: item.done(item.data)\n    return None"
        with self.serve(body) as muster:
            self.assertEqual(muster.results(["x", None]), ["x", None])
            self.assertEqual(muster.finish(), 0)

    def test_a_cancellation_fails_its_item_alone(self):
        bodies = {
            "raised": "        raise asyncio.CancelledError('the engine gave up')",
            "of what is awaited": (
                "        future = asyncio.get_running_loop().create_future()\n"
                "        future.cancel()\n"
                "        await future"
            ),
            "of its own task": "        asyncio.current_task().cancel()\n        await asyncio.sleep(9)",
        }
        for name, body in bodies.items():
            text = f"    if item.data == 2:\n{body}\n    await asyncio.sleep(0)\n    return item.data"
            with self.subTest(name), self.serve(text) as muster:
                over = muster.map([1, 2, 3, 4, 5, 6])
                self.assertIn("CancelledError", over[1]["error"])
                self.assertEqual([over[i]["result"] for i in (0, 2, 3, 4, 5)], [1, 3, 4, 5, 6])
                self.assertEqual(muster.finish(), 0)
                self.assertIn("Traceback", muster.output(2))

    def test_by_hand_a_cancelled_item_is_told(self):
        text = "import asyncio\nasync def h(i):\n    if i.index == 1: raise asyncio.CancelledError()\n    return 1\n"
        status, out, talk = by_hand(text + "muster.serve(h)\n", "a\nb\nc\n")
        self.assertEqual((status, out), (0, "1\n1\n"))
        self.assertIn("item 1 failed: CancelledError", talk)

    def test_a_cancellation_after_the_report_changes_nothing_but_is_told(self):
        body = "    item.done(item.data)\n    if item.data == 2: raise asyncio.CancelledError()"
        with self.serve(body) as muster:
            self.assertEqual(muster.results([1, 2, 3]), [1, 2, 3])
            self.assertEqual(muster.results([4]), [4])
            self.assertEqual(muster.finish(), 0)
            self.assertIn("CancelledError", muster.output(2))

    def test_what_ends_a_program_ends_the_worker_and_fails_no_item(self):
        ends = {"SystemExit(3)": 3, "KeyboardInterrupt": -signal.SIGINT, "GeneratorExit": 1}
        for end, status in ends.items():
            body = (
                "    while item.index != 2: await asyncio.sleep(9)\n"
                "    await asyncio.sleep(0.01)\n"
                f"    raise {end}"
            )
            with self.subTest(end), self.serve(body) as muster:
                muster.give(*[message_of(i) for i in range(3)])
                self.assertEqual(muster.end(), status)
                self.assertFalse([report for report in muster.reports if "fail" in report])

    def test_the_end_of_the_loop_fails_no_item(self):
        body = (
            "    if item.index == 2: os.kill(os.getpid(), signal.SIGINT)\n"
            "    task = asyncio.ensure_future(asyncio.sleep(9))\n"
            "    await (task if item.index == 1 else asyncio.gather(task))"
        )
        with self.serve("    import os, signal\n" + body) as muster:
            muster.give(*[message_of(i) for i in range(3)])
            self.assertEqual(muster.end(), -signal.SIGINT)
            self.assertFalse([report for report in muster.reports if "fail" in report])

    def test_a_handler_that_is_not_async_is_refused(self):
        status, _, talk = by_hand("muster.serve(lambda item: 1)\n")
        self.assertEqual(status, 1)
        self.assertIn("needs an async function", talk)

    def test_a_broken_channel_ends_it(self):
        with self.serve("    return item.data") as muster:
            muster.await_credits(4)
            muster.send_raw(b"hello\n")
            self.assertEqual(muster.end(), 1)
            self.assertIn("not a message", muster.output(2))


FILTER = """
import json, subprocess, sys
import muster
out = muster.claim_stdout()
print("a library's banner")
subprocess.run(["echo", "a child's banner"])
for line in sys.stdin:
    print(json.dumps({"n": len(line)}), file=out)
"""


class Filters(unittest.TestCase):
    def test_a_claimed_stdout_carries_results_alone(self):
        status, out, talk = run_by_hand(script(FILTER), "ab\nc\n")
        self.assertEqual((status, out), (0, '{"n": 3}\n{"n": 2}\n'))
        self.assertIn("a library's banner", talk)
        self.assertIn("a child's banner", talk)

    def test_a_result_is_written_out_at_once(self):
        with subprocess.Popen(
            script(FILTER),
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            for text in (b"ab\n", b"c\n"):
                process.stdin.write(text)
                process.stdin.flush()
                self.assertEqual(json.loads(process.stdout.readline()), {"n": len(text)})
            process.stdin.close()

    def test_a_script_that_claims_stdout_does_not_announce_itself(self):
        for text in (
            FILTER,
            "from muster import claim_stdout\nclaim_stdout()\n",
            "import muster\ndef main():\n    muster.claim_stdout()\nmain()\n",
        ):
            with self.subTest(text), Muster(script(text)) as muster:
                muster.socket.shutdown(1)
                self.assertIsNone(muster.receive())
                self.assertEqual(muster.process.wait(), 0)

    def test_a_channel_worker_cannot_claim_stdout(self):
        text = "import muster\ngetattr(muster, 'claim_' + 'stdout')()\n"
        with Muster(script(text)) as muster:
            self.assertEqual(muster.end(), 1)
            self.assertIn("speaks over the channel already", muster.output(2))


class Processes(unittest.TestCase):
    def test_a_child_that_imports_muster_keeps_silent(self):
        text = (
            "import subprocess, sys, muster\n"
            "subprocess.run([sys.executable, '-c', 'import muster'], close_fds=False, check=True)\n"
            "for item in muster.items(): item.done(1)\n"
        )
        with Muster(script(text)) as muster:
            self.assertEqual(muster.results(["a"]), [1])
            self.assertEqual(muster.finish(), 0)
            self.assertEqual(muster.reports[0], {"ready": 0})
            self.assertEqual(sum(report.get("ready") == 0 for report in muster.reports), 1)

    def test_a_forked_child_may_not_report_and_does_not_repeat_what_waits(self):
        text = (
            "import os, muster\n"
            "for item in muster.items():\n"
            "    item.done(1)\n"
            "    if os.fork() == 0:\n"
            "        muster.loaded()\n"
            "    os.wait()\n"
        )
        with Muster(script(text)) as muster:
            self.assertEqual(muster.results(["a"]), [1])
            self.assertEqual(muster.finish(), 0)
            self.assertIn("forked from the worker", muster.output(2))
            self.assertEqual(sum("done" in report for report in muster.reports), 1)

    def test_a_forked_child_is_told_so_also_where_a_lock_was_held(self):
        text = (
            "import gc, os, muster\n"
            "for item in muster.items():\n"
            "    wire = next(o for o in gc.get_objects() if isinstance(o, muster._Wire))\n"
            "    with wire.lock:\n"
            "        child = os.fork()\n"
            "        if child == 0:\n"
            "            muster.loaded()\n"
            "            os._exit(0)\n"
            "    item.done(os.waitpid(child, 0)[1] >> 8)\n"
        )
        with Muster(script(text)) as muster:
            self.assertEqual(muster.results(["a"]), [1])
            self.assertEqual(muster.finish(), 0)
            self.assertIn("forked from the worker", muster.output(2))

    def test_what_the_environment_says(self):
        body = (
            "for i in muster.items():\n"
            "    i.done([muster.device_count(), muster.device_kind(), muster.base_seed()])\n"
        )
        env = {"MUSTER_DEVICE": "GPU-1,GPU-2", "MUSTER_DEVICE_KIND": "cuda", "MUSTER_SEED": "7"}
        self.assertEqual(json.loads(by_hand(body, **env)[1]), [2, "cuda", 7])
        self.assertEqual(json.loads(by_hand(body)[1]), [1, "cpu", 0])

    def test_seed_all_makes_luck_repeat(self):
        body = (
            "import random\n"
            "for i in muster.items():\n"
            "    muster.seed_all(i.seed)\n"
            "    a = random.random()\n"
            "    muster.seed_all(i.seed)\n"
            "    i.done([a == random.random(), a])\n"
        )
        _, out, _ = by_hand(body, "a\nb\n")
        (same, first), (_, second) = map(json.loads, out.splitlines())
        self.assertTrue(same)
        self.assertNotEqual(first, second)


class Documents(unittest.TestCase):
    def test_what_is_public_is_exported_and_in_the_manual(self):
        sys.path.insert(0, PYTHON_DIR)
        import muster

        here = {
            name
            for name, value in vars(muster).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == "muster"
        }
        self.assertEqual(here, set(muster.__all__))
        with open(os.path.join(ROOT, "docs", "man", "muster-worker.7"), encoding="utf-8") as file:
            words = set(re.findall(r"muster\.(\w+)", file.read()))
        classes = {name for name in here if isinstance(getattr(muster, name), type)}
        self.assertEqual(here - classes - words, set())


if __name__ == "__main__":
    assert os.path.exists(sys.executable)
    unittest.main(verbosity=2)
