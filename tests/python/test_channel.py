# SPDX-License-Identifier: Apache-2.0
"""What every channel worker must do, whatever library it uses: the C library's (argument or
ECHO_WORKER
names it) and muster.py's are held to the same."""

import json
import os
import signal
import sys
import unittest

from driver import HERE, Muster, Watch, environment, message_of, run_by_hand

BANNER = "a banner that nobody may take for a result\n"


class Conformance:
    worker = []
    quoted = 0  # quotes that "describe" counts

    def start(self, *args, **env):
        return Muster(self.worker + list(args), **env)

    def test_a_worker_announces_itself_before_it_prints_or_asks(self):
        with self.start("echo") as muster:
            self.assertEqual(muster.receive(), {"ready": 0})
            self.assertEqual(muster.receive(), {"loaded": True})
            self.assertEqual(muster.finish(), 0)
            self.assertEqual(muster.output(1), BANNER)

    def test_results_are_the_items_own(self):
        data = [
            None,
            True,
            0,
            -1.5e3,
            "",
            "line",
            'quote " back \\ tab \t nul \0',
            "é 😀",
            [],
            {},
            [1, [2, {"a": None}]],
            {"item": 9, "data": "}{", "stop": True},
            {"ключ": ["значение"]},
        ]
        with self.start("echo") as muster:
            self.assertEqual(muster.results(data), data)
            self.assertEqual(muster.finish(), 0)

    def test_no_result_waits_behind_an_item_that_takes_long(self):
        with self.start("batch", "4") as muster:
            muster.give(*[message_of(i, data) for i, data in enumerate(["a", "b", "c", "hang"])])
            self.assertEqual([muster.expect("done")["done"] for _ in range(3)], [0, 1, 2])

    def test_index_seed_and_attempt_arrive(self):
        with self.start("describe") as muster:
            muster.give(message_of(41, "abc", seed="f0e1d2c3b4a59687", attempt=3))
            report = muster.expect("done")
            self.assertEqual(report["done"], 41)
            result = report["result"]
            self.assertEqual(
                (result["index"], result["seed"], result["attempt"]), (41, "f0e1d2c3b4a59687", 3)
            )
            self.assertEqual(report["metrics"], {"seen": 1, "len": result["len"]})

    def test_members_may_come_in_any_order_and_unknown_ones_are_ignored(self):
        with self.start("describe") as muster:
            muster.await_credits(1)
            muster.send_raw(
                b' {"data" : "x" , "later":[{}], "attempt":2,"seed":"ff", "item" :5 } \n'
            )
            self.assertEqual(muster.expect("done")["result"]["seed"], "00000000000000ff")
            muster.send({"greeting": "hello"})
            self.assertEqual(muster.finish(), 0)

    def test_bytes_come_as_base64(self):
        with self.start("describe") as muster:
            for index, (text, size) in enumerate(
                [("", 0), ("/w==", 1), ("/wA=", 2), ("/wD+", 3), ("AP8Qev8=", 5)]
            ):
                muster.give(message_of(index, data_b64=text))
                result = muster.expect("done")["result"]
                self.assertEqual((result["bytes"], result["len"]), (True, size))

    def test_a_large_item_passes_both_ways(self):
        text = "0123456789 é\n" * 800_000
        with self.start("echo") as muster:
            self.assertEqual(muster.results([text, "small", text]), [text, "small", text])

    def test_thousands_of_items_come_back_once_and_credits_come_in_blocks(self):
        data = [{"id": i} for i in range(20_000)]
        with self.start("echo") as muster:
            self.assertEqual(muster.results(data), data)
            self.assertEqual(muster.finish(), 0)
            blocks = [report["ready"] for report in muster.reports if "ready" in report]
            self.assertGreater(max(blocks), 16)
            self.assertLess(len(blocks), len(data) / 4)

    def test_the_first_item_is_asked_for_alone(self):
        with self.start("echo") as muster:
            muster.await_credits(1)
            self.assertEqual(muster.credits, 1)
            self.assertTrue(muster.is_silent(0.05))

    def test_a_failure_carries_its_text_and_whether_to_retry(self):
        with self.start("fail") as muster:
            over = muster.map(["a", "b"])
            self.assertEqual(over[0], {"fail": 0, "error": 'not today: "é"\n', "retry": False})
            self.assertEqual(over[1], {"fail": 1, "error": 'not today: "é"\n', "retry": True})

    def test_a_batch_is_asked_for_whole_and_comes_whole(self):
        with self.start("batch", "8") as muster:
            for begin in (0, 8):
                muster.await_credits(8)
                self.assertEqual(muster.credits, 8)
                muster.give(*[message_of(begin + i, "abc") for i in range(8)])
                results = [muster.expect("done")["result"] for _ in range(8)]
                self.assertEqual([result[:2] for result in results], [[i, 8] for i in range(8)])

    def test_a_batch_of_large_items_keeps_each_of_them(self):
        data = [str(i) * 400_000 for i in range(4)]
        with self.start("batch", "4") as muster:
            muster.give(*[message_of(i, each) for i, each in enumerate(data)])
            results = [muster.expect("done")["result"] for _ in data]
            self.assertEqual([result[2] for result in results], data)
            self.assertEqual({result[1] for result in results}, {4})

    def test_no_more_is_asked_for_than_the_limit_allows(self):
        with self.start("threads", "4") as muster:
            muster.await_credits(4)
            muster.send({"batch": 2})
            self.assertEqual(muster.results(list(range(100))), list(range(100)))
            self.assertEqual(muster.finish(), 0)
            self.assertLessEqual(sum(report.get("ready", 0) for report in muster.reports), 102)

    def test_a_short_batch_does_not_wait_for_more(self):
        with self.start("batch", "64") as muster:
            muster.give(*[message_of(i, "abc") for i in range(3)])
            watch = Watch()
            results = [muster.expect("done")["result"] for _ in range(3)]
            self.assertEqual([result[1] for result in results], [3, 3, 3])
            self.assertLess(watch.seconds(), 5)
            self.assertEqual(muster.finish(), 0)

    def test_a_batch_waits_for_an_item_that_is_on_its_way(self):
        with self.start("batch", "2") as muster:
            muster.await_credits(2)
            lines = b"".join(json.dumps(message_of(i, "abc")).encode() + b"\n" for i in range(2))
            muster.send_raw(lines[:-20])
            self.assertTrue(muster.is_silent(0.1))
            muster.send_raw(lines[-20:])
            self.assertEqual([muster.expect("done")["result"][1] for _ in range(2)], [2, 2])

    def test_muster_limits_a_batch_and_lifts_the_limit(self):
        with self.start("batch", "8") as muster:
            muster.await_credits(8)
            muster.send({"batch": 2}, message_of(0, "abc"), message_of(1, "abc"))
            self.assertEqual([muster.expect("done")["result"][1] for _ in range(2)], [2, 2])
            muster.send({"batch": 4}, *[message_of(i, "abc") for i in range(2, 6)])
            self.assertEqual([muster.expect("done")["result"][1] for _ in range(4)], [4] * 4)
            self.assertEqual(muster.finish(), 0)

    def test_out_of_memory_is_told_and_the_items_are_kept(self):
        with self.start("oom", "4") as muster:
            muster.give(*[message_of(i, "abc") for i in range(4)])
            self.assertEqual(muster.expect("oom"), {"oom": True, "batch": 2})
            self.assertEqual([muster.expect("done")["done"] for _ in range(4)], [0, 1, 2, 3])
            muster.give(message_of(4, "abc"), message_of(5, "abc"))
            self.assertEqual([muster.expect("done")["result"][1] for _ in range(2)], [2, 2])

    def test_several_items_in_hand_never_more_than_asked(self):
        with self.start("threads", "4") as muster:
            muster.await_credits(4)
            self.assertEqual(muster.credits, 4)
            over = muster.map(list(range(2000)))
            self.assertEqual([over[i]["result"] for i in range(2000)], list(range(2000)))
            self.assertEqual(muster.finish(), 0)
            asked = sum(report.get("ready", 0) for report in muster.reports)
            self.assertLessEqual(asked, 2000 + 4)

    def test_what_came_before_stop_is_finished(self):
        with self.start("batch", "4") as muster:
            muster.await_credits(4)
            muster.send(message_of(0, "abc"), message_of(1, "abc"), {"stop": True})
            self.assertEqual([muster.expect("done")["result"][1] for _ in range(2)], [2, 2])
            self.assertEqual(muster.end(), 0)

    def test_the_end_of_the_channel_ends_the_worker(self):
        for mode in ("echo", "batch", "threads"):
            with self.subTest(mode), self.start(mode) as muster:
                muster.await_credits(1)
                muster.socket.shutdown(1)
                self.assertEqual(muster.end(), 0)

    def test_a_broken_channel_is_an_error_that_is_told(self):
        cases = [
            (b'{"item":1,"seed"', "ended within a message"),
            (b"hello\n", "not a message"),
            (b'{"item":1}}\n', "not a message"),
        ]
        for text, words in cases:
            with self.subTest(text), self.start("echo") as muster:
                muster.await_credits(1)
                muster.send_raw(text)
                muster.socket.shutdown(1)
                self.assertEqual(muster.end(), 1)
                self.assertIn(words, muster.output(2))

    def test_an_item_that_is_forgotten_is_an_error_that_names_it(self):
        with self.start("once") as muster:
            muster.give(message_of(17, "abc"))
            self.assertEqual(muster.end(), 1)
            self.assertIn("17", muster.output(2))
            self.assertIn("neither done nor failed", muster.output(2))

    def test_a_result_that_is_no_json_is_refused(self):
        with self.start("badjson") as muster:
            muster.give(message_of(17, "abc"))
            self.assertEqual(muster.end(), 1)
            self.assertIn("item 17", muster.output(2))
            self.assertFalse([report for report in muster.reports if "done" in report])

    def test_the_channel_may_be_a_path(self):
        with self.start("echo", path=True) as muster:
            self.assertEqual(muster.receive(), {"ready": 0})
            self.assertEqual(muster.results(["a", "b"]), ["a", "b"])
            self.assertEqual(muster.finish(), 0)

    def test_a_worker_ends_at_once_when_terminated(self):
        with self.start("echo") as muster:
            muster.await_credits(1)
            muster.process.send_signal(signal.SIGTERM)
            self.assertEqual(muster.end(), -signal.SIGTERM)

    def test_a_wrong_channel_is_named(self):
        for where, words in [
            ("nine", "'nine'"),
            ("taken", "channel belongs"),
            ("/nowhere/at/all", "No such file"),
            ("999", "escriptor"),
        ]:
            with self.subTest(where):
                status, _, talk = run_by_hand(self.worker + ["echo"], "", MUSTER_CHANNEL=where)
                self.assertEqual(status, 1)
                self.assertIn(words, talk)

    def test_by_hand_lines_are_items_and_results_are_lines(self):
        text = '{"a": "é"}\nplain "text"\n[1,2\n"string"\r\n\nlast'
        status, out, talk = run_by_hand(self.worker + ["echo"], text)
        self.assertEqual((status, talk), (0, ""))
        self.assertEqual(out.split("\n")[0] + "\n", BANNER)
        expected = [{"a": "é"}, 'plain "text"', "[1,2", "string", "", "last"]
        self.assertEqual([json.loads(line) for line in out.split("\n")[1:-1]], expected)

    def test_by_hand_a_long_line_of_a_pipe_is_searched_once(self):
        def cpu_s(size):
            before = os.times()
            text = "x" * size + "\n"
            status, out, _ = run_by_hand(self.worker + ["describe"], text)
            self.assertEqual((status, json.loads(out.split("\n")[1])["len"]), (0, size + 2 * self.quoted))
            after = os.times()
            return after.children_user + after.children_system - before.children_user - before.children_system

        small_s, large_s = cpu_s(8 << 20), cpu_s(64 << 20)
        self.assertLess(large_s, 16 * max(small_s, 0.1))

    def test_by_hand_a_byte_order_mark_is_no_part_of_the_first_item(self):
        mark, middle = "\ufeff", "a\ufeffb"
        for text, expected in (
            (f'{mark}{{"a": 1}}\n{middle}\n{mark}\n', [{"a": 1}, middle, mark]),
            (f"{mark}x", ["x"]),
            (f"{mark}\r\n{mark}x\n", ["", f"{mark}x"]),
        ):
            with self.subTest(text):
                status, out, talk = run_by_hand(self.worker + ["echo"], text)
                self.assertEqual((status, talk), (0, ""))
                self.assertEqual([json.loads(line) for line in out.split("\n")[1:-1]], expected)

    def test_by_hand_the_seeds_are_those_of_a_run(self):
        # item_seed(42, 0) and item_seed(42, 1) of src/base/rng.c
        _, out, _ = run_by_hand(self.worker + ["describe"], "a\nb\n", MUSTER_SEED="42")
        seeds = [json.loads(line)["seed"] for line in out.split("\n")[1:-1]]
        self.assertEqual(seeds, ["57e1faba65107204", "f4abd143feb24055"])

    def test_by_hand_failures_and_batches_work_too(self):
        status, out, talk = run_by_hand(self.worker + ["fail"], "a\n")
        self.assertEqual((status, out), (0, BANNER))
        self.assertIn("item 0 failed: not today", talk)
        status, out, _ = run_by_hand(self.worker + ["batch", "2"], "a\nb\nc\n")
        self.assertEqual(
            [json.loads(line)[:2] for line in out.split("\n")[1:-1]], [[0, 2], [1, 2], [0, 1]]
        )


class CLibrary(Conformance, unittest.TestCase):
    quoted = 1
    worker = [os.environ.get("ECHO_WORKER", "")]

    def setUp(self):
        if not self.worker[0]:
            self.skipTest("ECHO_WORKER does not name the C library's test worker")


class PythonModule(Conformance, unittest.TestCase):
    worker = [sys.executable, os.path.join(HERE, "echo_worker.py")]


if __name__ == "__main__":
    assert environment()
    unittest.main(verbosity=2)
