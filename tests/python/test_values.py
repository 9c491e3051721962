#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `muster merge` asks of values and changes in them: ids, counts, numpy's scalars and arrays, storages that
are larger than what tensors show of them. Files are written with Python's own modules; where torch is
installed, it says what comes out (torch_values.py).

    test_values.py MUSTER
"""
import io, math, os, pickle, struct, subprocess, sys
from checks import Skip, check, run_checks
import torch_like as made

MUSTER = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
IDS = ("--id", "questions.*.question_id")
def run(parts, *options):
    names = []
    for i, part in enumerate(parts):
        names.append(f"part_{i}.pt")
        with open(names[-1], "wb") as file:
            file.write(part if isinstance(part, bytes) else made.saved(part))
    if os.path.exists("out.pt"):
        os.unlink("out.pt")
    return subprocess.run([MUSTER, "merge", *names, "-o", "out.pt", *options], capture_output=True, text=True, timeout=60)


def merged(parts, *options, says=()):
    ended = run(parts, *options)
    assert ended.returncode == 0 and ended.stdout == "", ended
    assert all(words in ended.stderr for words in says), ended.stderr
    return made.loaded("out.pt")


def refused(status, words, parts, *options):
    ended = run(parts, *options)
    assert ended.returncode == status and not os.path.exists("out.pt"), ended
    assert all(word in ended.stderr for word in words), ended.stderr


def questions(*ids):
    return {"questions": [{"question_id": id, "n": i} for i, id in enumerate(ids)], "num_questions": len(ids)}


def ids_of(whole):
    return [question["question_id"] for question in whole["questions"]]


@check
def ids_that_are_unique_are_left_alone():
    parts = [questions("q_7", "q_3", 5), questions("5", 2**70)]
    assert ids_of(merged(parts, *IDS)) == ["q_7", "q_3", 5, "5", 2**70]
    assert ids_of(merged(parts, *IDS, "--renumber", says=["all 5 ids are there once"])) == ["q_7", "q_3", 5, "5", 2**70]
    assert merged([questions(), questions()], *IDS) == {"questions": [], "num_questions": 0}


@check
def an_id_that_is_there_twice_is_shown_with_both_places():
    refused(65, ["'q_0'", "part_0.pt: questions.0.question_id", "part_1.pt: questions.1.question_id"],
            [questions("q_0", "q_1"), questions("q_2", "q_0")], *IDS)
    refused(65, ["'b'", "part_0.pt: questions.1.question_id", "part_0.pt: questions.2.question_id"],
            [questions("a", "b", "b"), questions("a")], *IDS)
    for one, other in [(1, 1.0), (2**62, float(2**62)), (2**70, 2**70), (0.5, 0.5),
                       (2.0**64, 2**64), (-2.0**63 * 3, -2**63 * 3), (1e300, int(1e300)), (-(2.0**64), -(2**64)), (2.0**63, 2**63), (-(2.0**63), -(2**63)),
                       (-1.7e308, int(-1.7e308))]:
        refused(65, ["part_0.pt: questions.0.", "part_1.pt: questions.0."], [questions(one), questions(other)], *IDS)
    assert ids_of(merged([questions(2**62), questions(float(2**62) * 1.5), questions(2**62 + 1)], *IDS))[2] == 2**62 + 1


@check
def ids_beyond_64_bits_differ_where_python_says_so():
    ids = [2.0**64, 2**64 + 1, -(2.0**64), 2**71, 2.0**70, float("inf"), -float("inf"), "2", -(2**64) + 1, 1e300, int(1e300) + 1]
    assert ids_of(merged([questions(*ids), questions(2**72)], *IDS)) == [*ids, 2**72]
    assert merged([{2.0**64: 1, "a": {2**64: [1]}}, {2**64: 1, "a": {2.0**64: [2]}}]) == {2**64: 1, "a": {2**64: [1, 2]}}


@check
def the_greatest_is_found_exactly():
    top = 2**63 - 1
    for greater, less in [(2.0**63, top), (top, 2.0**62), (2**53 + 1, 2.0**53), (2.0**53 + 2, 2**53 + 1), (-0.5, -1), (1, 0.5),
                          (-(2**63), -2.0**64), (float("inf"), top), (-(2**53), -(2.0**53) - 2), (0, -0.5)]:
        for pair in ((greater, less), (less, greater)):
            found = merged([{"x": one} for one in pair], "--rule", "x=max")["x"]
            assert repr(found) == repr(greater) == repr(max(pair)), (pair, found)


@check
def what_is_proposed_for_values_that_differ_works():
    for key in ("a[0]", "a", " a", "a ", "\ta", "a\nb", "+a", "a*", "?", "a\\b", "it's", " ", "a=b", "[", "é", "a.b"):
        for values, verbs in (((1, 2.5), "first', collect, drop, max or sum"), (("x", "y"), "first', collect, drop or max"),
                              ((True, False), "first', collect or drop"), (((1,), (2,)), "concat', first, collect or drop")):
            parts = [{key: value, "other": 0} for value in values]
            ended = run(parts)
            assert ended.returncode == 65 and verbs in ended.stderr, (key, ended.stderr)
            words = ended.stderr.split("--rule '")[1].rstrip().rsplit("'", 1)
            for verb in (words[0].rsplit("=", 1)[1], *words[1].strip(", ").replace(" or ", ", ").split(", ")):
                whole = merged(parts, "--rule", f"{words[0].rsplit('=', 1)[0]}={verb}")
                assert whole.get(key, 0) == {"first": values[0], "collect": [*values], "drop": 0, "concat": (1, 2), "max": values[1],
                                             "sum": 3.5}[verb], (key, verb)
    refused(65, ["no rule can name an empty key"], [{"": 1}, {"": 2}])
    refused(65, ["--rule '.=concat', first or collect\n"], [(1,), (2,)])
    assert merged([(1,), (2,)], "--rule", ".=concat") == (1, 2)
    refused(65, ["'n' is beyond 64 bits in part_1.pt"], [{"n": 1}, {"n": 2**64 - 1}], "--rule", "n=sum")
    refused(65, ["'n' is beyond 64 bits"], [{"n": 2**70}, {"n": 1}], "--rule", "n=max")


@check
def a_record_without_an_id_is_shown():
    lacking = questions("a", "b")
    del lacking["questions"][1]["question_id"]
    refused(65, ["part_1.pt: questions.1 has no 'question_id'"], [questions("c"), lacking], *IDS)
    refused(65, ["part_1.pt: questions.1.question_id is no number and no text"], [questions("c"), questions("a", None)], *IDS)
    refused(65, ["part_0.pt: questions.0.question_id", "--plain"], [questions(made.Scalar("i8", b"\5" + bytes(7)))], *IDS)
    for more in ([], ["--renumber"]):
        refused(65, ["part_1.pt: questions.1.question_id is NaN", "no id"], [questions(1.5), questions(2, math.nan)], *IDS, *more)
    refused(65, ["has no 'question'"], [questions("c")], "--id", "question.*.id")
    refused(65, ["questions is a list"], [questions("c")], "--id", "questions.question_id")
    refused(65, ["questions.0.n is neither"], [questions("c")], "--id", "questions.*.n.x")
    refused(2, ["no path"], [questions("c")], "--id", "questions..x")
    refused(2, ["--renumber", "--id"], [questions("c")], "--renumber")


@check
def paths_go_through_dictionaries_tuples_and_patterns():
    parts = [{"by": {"math": [{"id": 1}], "law": ({"id": 2}, {"id": 3})}}, {"by": {"math": [{"id": 4}], "law": ({"id": 2},)}}]
    union = ("--rule", "by.law=concat")
    refused(65, ["part_0.pt: by.law.0.id", "part_1.pt: by.law.0.id"], parts, "--id", "by.*.*.id", *union)
    assert merged(parts, "--id", "by.m?th.*.id", *union)["by"]["math"] == [{"id": 1}, {"id": 4}]
    assert merged(parts, "--id", "by.*.*.id", "--renumber", *union)["by"] == {"math": [{"id": 1}, {"id": 2}],
                                                                           "law": ({"id": 3}, {"id": 4}, {"id": 5})}
    refused(65, ["part_0.pt: 0.id", "part_1.pt: 1.id"], [[{"id": 1}], [{"id": 2}, {"id": 1}]], "--id", "*.id")
    refused(65, ["the id 5", "part_1.pt: ids.1"], [{"ids": [5]}, {"ids": [6, 5]}], "--id", "ids.*")
    assert merged([{"ids": [5]}, {"ids": [6, 5]}], "--id", "ids.*", "--renumber") == {"ids": [5, 6, 7]}


@check
def renumbering_keeps_types_prefixes_and_digits():
    says = ["2 of 4 ids had been there before; numbered from 0 to 3, 2 changed"]
    assert ids_of(merged([questions("q_0", "q_1")] * 2, *IDS, "--renumber", says=says)) == ["q_0", "q_1", "q_2", "q_3"]
    assert ids_of(merged([questions(4, 4), questions("7", "x08")], *IDS, "--renumber")) == [4, 5, "06", "x07"]
    assert ids_of(merged([questions("a8", "a8", "b8")], *IDS, "--renumber")) == ["a8", "a9", "b10"]
    same = "q_0"
    part = {"questions": [{"question_id": same, "of": same}, {"question_id": same, "of": same}]}
    assert merged([part], *IDS, "--renumber")["questions"] == [{"question_id": "q_0", "of": "q_0"}, {"question_id": "q_1", "of": "q_0"}]
    for bad in ("x", -1, 1.5, None, 2**70, "q_" + "9" * 30):
        refused(65, ["part_1.pt: questions.0.question_id", "id"], [questions("a1", "a1"), questions(bad)], *IDS, "--renumber")
    twice = {"question_id": 1}
    refused(65, ["part_0.pt: questions.0", "one and the same object"], [{"questions": [twice, twice]}], *IDS, "--renumber")
    deep = [{"id": 1}]
    for _ in range(40):
        deep = [deep, deep]
    refused(65, ["in more places than"], [deep], "--id", "*." * 41 + "id")
    refused(65, ["beyond 64 bits"], [questions(2**63 - 1, 2**63 - 1)], *IDS, "--renumber")


PATHS = "trees.*.paths.*.path_id=trees.*.paths.*.parent,trees.*.paths.*.children.*,trees.*.edges.*.*,trees.*.roots.*"


def tree(first, n=3):
    """A root and its children."""
    below = list(range(first + 1, first + n))
    return {"paths": [{"path_id": first, "parent": None, "children": below}] +
                     [{"path_id": id, "parent": first, "children": [], "score": 7} for id in below],
            "edges": [(first, id) for id in below], "roots": [first]}


@check
def ids_that_others_refer_to_are_numbered_with_what_refers_to_them():
    parts = [{"trees": [tree(0), tree(3)]}, {"trees": [tree(0, 4)]}, {"trees": [tree(2, 1)]}]
    says = ["11 ids are numbered from 0 to 10, and 32 references follow"]
    assert merged(parts, "--renumber-path", PATHS, says=says) == {"trees": [tree(0), tree(3), tree(6, 4), tree(10, 1)]}
    parts = [{"trees": [tree(0), tree(3)]}, {"trees": [tree(6)]}]
    assert merged(parts, "--renumber-path", PATHS, says=["no id is in two files, so none is changed"])["trees"][2] == tree(6)
    # From the first file's first number on; ids need not be in order, and a path can be in several places.
    shared = {"path_id": 9, "parent": 4}
    part = {"trees": [{"paths": [{"path_id": 4, "parent": 9}, shared], "best": shared}]}
    whole = merged([part, part], "--renumber-path", "trees.*.paths.*.path_id=trees.*.paths.*.parent,trees.*.best.path_id")["trees"]
    assert [(p["path_id"], p["parent"]) for t in whole for p in t["paths"]] == [(4, 5), (5, 4), (6, 7), (7, 6)], whole
    assert whole[0]["best"] is whole[0]["paths"][1] and whole[1]["best"]["path_id"] == 7
    # What is not named stays.
    both = {"a": [{"id": 0, "b": 1}, {"id": 1, "b": 0}], "b": [{"id": 0}, {"id": 1}]}
    whole = merged([both, both], "--renumber-path", "b.*.id=a.*.b")
    assert [one["b"] for one in whole["a"]] == [1, 0, 3, 2] and [one["id"] for one in whole["a"]] == [0, 1, 0, 1]


@check
def references_that_cannot_be_followed_are_refused():
    refused(65, ["part_1.pt: trees.0.paths.0.parent refers to no id of its file"],
            [{"trees": [tree(0)]}, {"trees": [{"paths": [{"path_id": 0, "parent": 5}], "edges": [], "roots": []}]}], "--renumber-path", PATHS)
    refused(65, ["the id 0 is at part_0.pt: trees.0.paths.0.path_id, and again at part_0.pt: trees.1.paths.0.path_id, in one file"],
            [{"trees": [tree(0), tree(0)]}, {"trees": [tree(0)]}], "--renumber-path", PATHS)
    refused(65, ["trees.0.paths.0.path_id is no whole number from 0 on"],
            [{"trees": [{"paths": [{"path_id": "p"}]}]}] * 2, "--renumber-path", PATHS)
    refused(65, ["has no 'path_id', which --renumber-path asks for"], [{"trees": [{"paths": [{"id": 1}]}]}] * 2, "--renumber-path", PATHS)
    refused(2, ["no file has a value at trees.*.paths.*.parents"], [{"trees": [tree(0)]}] * 2, "--renumber-path",
            "trees.*.paths.*.path_id=trees.*.paths.*.parents")
    for bad in ("", "a.*.id", "=a", "a.*.id=", "a.*.id=b,,c", "a..id=b"):
        refused(2, ["--renumber-path"], [{"a": []}], "--renumber-path", bad)


@check
def the_records_are_counted():
    parts = [questions("a", "b"), questions("c")]
    assert ids_of(merged(parts, "--expect", "3")) == ids_of(merged(parts, "--expect", "3", *IDS)) == ["a", "b", "c"]
    refused(1, ["expected 4 records, found 3"], parts, "--expect", "4")
    refused(1, ["expected 2 records, found 3"], parts, "--expect", "2", *IDS)
    assert merged([[1], [2, 3]], "--expect", "3") == [1, 2, 3]
    two = [{"a": [1], "b": [1, 2]}, {"a": [1], "b": [1]}]
    refused(2, ["a, b", "--id"], two, "--expect", "3")
    merged(two, "--expect", "2", "--id", "a.*", "--renumber")
    merged([{"a": [1], "b": [2]}] * 2, "--expect", "2")
    rows = {"x": made.Tensor(made.Storage(made.FloatStorage, bytes(24)), (2, 3)), "y": made.Tensor(made.Storage(made.FloatStorage, bytes(8)), (2,))}
    merged([rows] * 3, "--expect", "6")
    refused(1, ["expected 5"], [rows] * 3, "--expect", "5")
    refused(2, ["nothing"], [{"x": 1}], "--expect", "1")


@check
def a_count_and_its_list_agree():
    wrong = questions("b", "c") | {"num_questions": 3}
    refused(65, ["part_1.pt", "'num_questions' says 3", "'questions' holds 2"], [questions("a"), wrong])
    refused(65, ["part_0.pt", "'m.n_items' says 1"], [{"m": {"n_items": 1, "items": []}}])
    assert merged([questions("a"), wrong], "--rule", "num_questions=sum")["num_questions"] == 4
    assert merged([questions("a"), wrong], "--rule", "num_questions=first")["num_questions"] == 1
    for fine in ({"num_layers": 4, "layers": [1]}, {"args": {"num_samples": 4, "samples": [1]}}, {"num_items": 2, "items": {}}):
        assert merged([fine]) == fine


def scalars():
    f8, number = made.Scalar("f8", struct.pack("<d", 0.1)), struct.pack
    return [(f8, 0.1), (made.Scalar("f4", number("<f", 0.1)), struct.unpack("<f", number("<f", 0.1))[0]),
            (made.Scalar("f2", number("<e", -0.3)), struct.unpack("<e", number("<e", -0.3))[0]),
            (made.Scalar("f2", number("<e", 2**-24)), 2**-24), (made.Scalar("f2", number("<e", math.inf)), math.inf),
            (made.Scalar("f8", number(">d", 1.5), ">"), 1.5), (made.Scalar("i4", number(">i", -7), ">"), -7),
            (made.Scalar("i8", number("<q", -2**63)), -2**63), (made.Scalar("u8", number("<Q", 2**64 - 1)), 2**64 - 1),
            (made.Scalar("i1", b"\xff"), -1), (made.Scalar("u1", b"\xff"), 255), (made.Scalar("b1", b"\1", "|"), True),
            (made.Scalar("U3", "h\xe9\U0001f600".encode("utf-32-le")), "hé\U0001f600"), (made.Scalar("U0", b""), ""),
            (made.Scalar("U2", "a".encode("utf-32-be") + bytes(4), ">"), "a"), (made.Scalar("S4", b"a\xff\0\0", "|"), b"a\xff")]


@check
def numpys_scalars_become_plain():
    whole = merged([{"all": [s for s, _ in scalars()]}] * 2, "--plain", says=["32 scalars and 0 arrays"])["all"]
    want = [plain for _, plain in scalars()] * 2
    assert whole == want and [type(v) for v in whole] == [type(v) for v in want], whole
    nan = merged([{"n": made.Scalar("f2", struct.pack("<e", math.nan))}], "--plain")["n"]
    assert math.isnan(nan)
    shared = made.Scalar("f8", struct.pack("<d", 3.25))
    x = merged([{"l": [shared, [shared]]}], "--plain")["l"]
    assert x[0] is x[1][0] and x == [3.25, [3.25]]
    three = made.Scalar("i8", struct.pack("<q", 3))
    assert merged([{"num_questions": three, made.Scalar("i8", bytes(8)): 1}] * 2, "--plain", "--rule", "0=sum") == {"num_questions": 6, 0: 2}


@check
def numpys_arrays_become_tensors():
    data = struct.pack("<6d", *range(6))
    parts = [{"x": made.Array("f8", (2, 3), data), "f": [made.Array("f8", (2, 3), data, True)], "e": [made.Array("f4", (0, 3), b"")],
              "s": [made.Array("i8", (), struct.pack("<q", 5))]}] * 2
    whole = merged(parts, "--plain", says=["0 scalars and 8 arrays"])
    assert whole["x"].shape == (4, 3) and whole["x"].elements() == data * 2 and whole["x"].storage.kind is made.DoubleStorage
    assert whole["f"][0].stride == (1, 2) and whole["f"][0].elements() == struct.pack("<6d", 0, 2, 4, 1, 3, 5)
    assert whole["e"][1].shape == (0, 3) and whole["s"][0].shape == () and whole["s"][0].elements() == struct.pack("<q", 5)
    turned = merged([{"f": made.Array("f8", (2, 3), data, True)}] * 2, "--plain")["f"]
    assert turned.shape == (4, 3) and turned.storage.data == struct.pack("<6d", 0, 2, 4, 1, 3, 5) * 2
    for held in (data, bytearray(data)): # as protocol 5 writes arrays
        fifth = [made.saved({"x": [made.Buffer("f8", (2, 3), held), made.Buffer("f8", (2, 3), held, "F")]}, 5)] * 2
        assert [t.stride for t in merged(fifth, "--plain")["x"]] == [(3, 1), (1, 2)] * 2
        assert all(t.elements() == data for t in merged(fifth, "--plain")["x"][::2])
    one = made.Array("f8", (2, 3), data)
    pair = merged([{"l": [one, one]}], "--plain")["l"]
    assert pair[0] is pair[1]
    for bad in (made.Array("f8", (2, 3), data, order=">"), made.Array("O8", (1,), [1]), made.Array("u4", (1,), bytes(4)),
                made.Array("f8", (2, 4), data), made.Scalar("M8", bytes(8)), made.Scalar("f8", bytes(4)), made.Array("f8", (2**40, 2**40, 0), b"")):
        refused(65, ["'l.0.a' of part_1.pt", "no plain form"], [{"l": []}, {"l": [{"a": bad}]}], "--plain")
        refused(0, [], [{"l": [], "b": 1}, {"l": [{"a": bad}], "b": 1}], "--plain", "--rule", "l=drop", "-n")


def floats(*values):
    return made.Storage(made.FloatStorage, struct.pack(f"<{len(values)}f", *values))


@check
def storages_lose_what_is_not_shown():
    big = floats(*range(10000))
    views = [made.Tensor(big, (10,), 100), made.Tensor(big, (5,), 105, (3,)), made.Tensor(big, (0, 3), 7), made.Tensor(big, (3, 2), 110, (1, 3))]
    plain = [made.Rebuilt(t.storage, t.offset, t.shape, t.stride, False, {}) for t in views]
    whole = merged([{"l": views}] * 2, "--compact", says=["2 storages became smaller, by 78.0 KiB"])["l"]
    assert whole == plain * 2 and [t.stride for t in whole] == [t.stride for t in views] * 2
    assert [t.storage for t in whole[:4]] == [whole[0].storage] * 4 and whole[0].storage is not whole[4].storage
    assert len(whole[0].storage.data) == 4 * 18 and [t.offset for t in whole[:4]] == [0, 5, 0, 10]
    empty = merged([{"l": [made.Tensor(floats(1, 2, 3), (0,), 2)]}], "--compact", says=["1 storage became"])["l"][0]
    assert empty.storage.data == b"" and empty.offset == 0 and empty.shape == (0,)
    merged([{"l": [made.Tensor(floats(1, 2, 3), (3,))]}], "--compact", says=["0 storages"])
    whole = merged([{"x": made.Tensor(big, (2,), 7), "l": [made.Tensor(big, (1,), 8)]}] * 2, "--compact")
    assert whole["x"].elements() == struct.pack("<4f", 7, 8, 7, 8) and [t.elements() for t in whole["l"]] == [struct.pack("<f", 8)] * 2
    raw = merged([{"l": [big, made.Tensor(big, (2,), 7)]}], "--compact", says=["0 storages"])["l"]
    assert raw[0] is raw[1].storage


@check
def what_is_left_out_was_looked_at():
    good = made.saved({"l": [made.Tensor(floats(*range(1000)), (3,), 10)]})
    at = good.index(struct.pack("<2f", 500, 501))
    refused(65, ["part_0.pt", "CRC-32"], [good[:at] + b"\x01" + good[at + 1:]], "--compact")


@check
def records_have_no_such_options():
    with open("a.jsonl", "w") as file:
        file.write("{}\n")
    for option in ("--plain", "--compact"):
        ended = subprocess.run([MUSTER, "merge", "a.jsonl", "-o", "b.jsonl", option], capture_output=True, text=True)
        assert ended.returncode == 2 and option in ended.stderr, ended


def python_with_torch():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import numpy, torch"], capture_output=True).returncode == 0:
            return python
    return None


def legacy(obj, protocol):
    """As torch.save writes it with _use_new_zipfile_serialization=False: five pickles and the storages."""
    machine = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    out = io.BytesIO()
    pickler = made.LegacyPickler(out, protocol)
    pickler.dump(obj)
    head = [pickle.dumps(one, protocol) for one in (0x1950A86A20F9469CFC6C, 1001, machine)]
    keys = pickle.dumps([str(i) for i in range(len(pickler.storages))], protocol)
    rest = [struct.pack("<q", len(one.data) // made.SIZES[one.kind]) + one.data for one in pickler.storages]
    return b"".join([*head, out.getvalue(), keys, *rest])


@check
def files_of_before_torch_1_6_are_known_in_every_protocol():
    words = {"of": ["a", 2**40, 0.5, None]}
    for protocol in range(6):
        assert merged([legacy(words, protocol)] * 2, "--rule", "of=first") == words, protocol
    for protocol in range(1, 6):
        tensor = made.Tensor(made.Storage(made.LongStorage, struct.pack("<3q", 7, 8, 9)), (3,))
        whole = merged([legacy({"x": tensor}, protocol)] * 2)["x"]
        assert (whole.shape, whole.storage.data) == ((6,), struct.pack("<6q", 7, 8, 9, 7, 8, 9)), protocol


@check
def torch_loads_what_was_saved():
    """As torch has it."""
    python = python_with_torch()
    if not python:
        raise Skip("no torch")
    ended = subprocess.run([python, os.path.join(HERE, "torch_values.py"), MUSTER], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr


sys.exit(run_checks())
