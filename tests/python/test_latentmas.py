#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""LatentMAS from its command to <batch>_merged.pt and <batch>_merged_metadata.json: `muster map` drives
examples/latentmas/run.py, with torch where it is installed, and always with the stand-in for it in stubs_torch.

    test_latentmas.py MUSTER
"""
import glob, io, json, os, random, re, shutil, signal, sqlite3, subprocess, sys, tempfile, time, zipfile
import torch_like as made

HERE = os.path.dirname(os.path.abspath(__file__))
MUSTER, WORKER = os.path.abspath(sys.argv[1]), os.path.join(HERE, "..", "..", "examples", "latentmas", "run.py")
STUBS = os.pathsep.join([os.path.join(HERE, "stubs_torch"), HERE])
BATCH = "prm_data/gsm8k_latent_mas_multipath_{run}"
IDS = (1, 3, 5, 7)
checks = []


def check(function):
    checks.append(function)
    return function


def python_with_torch():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode == 0:
            return python
    return None


def command(python, *options):
    return [python, WORKER, *"--method latent_mas_multipath --model_name Qwen/Qwen3-0.6B --task gsm8k --gpu_id {gpu} --data_start_idx {start} "
            "--max_samples {count} --seed {seed} --output_suffix {suffix} --prm_batch_timestamp {run} --collect_prm_data".split(),
            *(options or ("--temperature", "0.7", "--generate_bs", "1"))]


IDS_MENDED = ("--id", "questions.*.question_id", "--renumber")


def job(*options, python=sys.executable, worker=(), ids=IDS_MENDED, out=f"{BATCH}_merged.pt", also=f"{BATCH}_merged_metadata.json"):
    return ["map", "--items", "43", "-g", "1,3,5,7", "-o", out, "--collect", "prm_data/*_{run}_{suffix}.pt",
            "--also-counted", "prm_data/*_{run}_{suffix}_metadata.json=" + also, *ids, *options, "--", *command(python, *worker)]


def environment(fault="", stubs=True, play=""):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "CUDA_"))}
    env.update(MUSTER_NVML=os.environ["FAKE_NVML"], MUSTER_FAKE_NVML="gpus=8", MUSTER_LOCK_DIR=os.path.abspath("locks"),
               LATENTMAS_FAULT=fault, LATENTMAS_PLAY=play, PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8", OMP_NUM_THREADS="1")
    if stubs:
        env["PYTHONPATH"] = STUBS
    return env


def muster(status, *words, fault="", stubs=True, play=""):
    ended = subprocess.run([MUSTER, *words], env=environment(fault, stubs, play), capture_output=True, text=True, timeout=100)
    assert ended.returncode == status, (ended.returncode, ended.stderr)
    return ended.stderr


def the(pattern):
    found = glob.glob(pattern)
    assert len(found) == 1, (pattern, found)
    return found[0]


def parts():
    return [the(f"prm_data/*_gpu_{gpu}.pt") for gpu in IDS]


def part(path):
    """What the worker wrote, of whose zip nothing is promised."""
    with zipfile.ZipFile(path) as archive:
        return made.Unpickler(io.BytesIO(archive.read("archive/data.pkl")), lambda name: archive.read("archive/" + name)).load()


def question_of(index):
    """As the worker's data set has it."""
    draw = random.Random(index)
    boxes, each, given = draw.randint(2, 12), draw.randint(3, 20), draw.randint(1, 5)
    return f"A shop has {boxes} boxes of {each} pens and gives {given} pens away. How many are left?"


def unnamed(questions):
    return [{key: value for key, value in q.items() if key != "question_id"} for q in questions]


def is_right(whole, metadata, batch, n=43, of=range(43)):
    questions = whole["questions"]
    assert [q["question"] for q in questions] == [question_of(i) for i in of], [q["question"] for q in questions]
    assert [q["question_id"] for q in questions] == [f"q_{i}" for i in range(n)], [q["question_id"] for q in questions]
    assert list(whole) == ["batch_name", "timestamp", "num_questions", "questions"] and whole["num_questions"] == n
    assert whole["batch_name"] == metadata["batch_name"] == batch + "_merged", whole["batch_name"]
    correct = sum(q["is_correct"] for q in questions)
    assert metadata["accuracy"] == correct / n and metadata["num_questions"] == n, (metadata["accuracy"], correct, n)
    assert metadata["num_paths_total"] == sum(len(q["paths"]) for q in questions)
    assert metadata["num_gpus"] == len(metadata["gpu_metadata"]) and "data_file" not in metadata
    assert metadata["task"] == "gsm8k" and metadata["model"] == "Qwen/Qwen3-0.6B"
    for q in questions:
        assert len(q["tree_structure"]["nodes"]) == len(q["paths"]) and set(map(len, q["tree_structure"]["edges"])) == {2}
    assert whole["timestamp"] == max(part(path)["timestamp"] for path in glob.glob(f"prm_data/{batch}_gpu_*.pt"))


def results():
    merged = the("prm_data/*_merged.pt")
    with open(the("prm_data/*_merged_metadata.json"), encoding="utf-8") as file:
        return made.loaded(merged), json.load(file), os.path.basename(merged)[:-len("_merged.pt")]


@check
def four_devices_with_gaps_between_their_ids_make_one_batch():
    said = muster(0, *job())
    whole, metadata, batch = results()
    is_right(whole, metadata, batch)
    assert [one["batch_name"] for one in metadata["gpu_metadata"]] == [f"{batch}_gpu_{gpu}" for gpu in IDS]
    assert unnamed(q for path in parts() for q in part(path)["questions"]) == unnamed(whole["questions"])
    assert f"prm_data/{batch}_merged.pt: 43 items in 4 shards, complete" in said
    assert f"also       prm_data/{batch}_merged_metadata.json" in said
    correct = sum(q["is_correct"] for q in whole["questions"])
    assert f"correct {correct}, seen 43  (accuracy {correct / 43:.4f})" in said, said
    assert os.path.basename(the("muster-runs/2*")).startswith(batch[-15:])  # both have the time


@check
def one_shard_is_the_whole_batch_too():
    words = job()
    words[words.index("1,3,5,7")] = "3"
    muster(0, *words)
    is_right(*results())
    assert part(the("prm_data/*_gpu_3.pt"))["batch_name"] == results()[2] + "_gpu_3"


@check
def a_shard_that_fails_is_named_and_run_alone_again():
    said = muster(1, *job("-r", "0"), fault="crash@25")
    assert "missing    shard 2 (items 22 to 32)" in said and "32 of 43 items, 3 of 4 shards" in said, said
    assert len(glob.glob("prm_data/*_gpu_[137].pt")) == 3 and not glob.glob("prm_data/*_gpu_5*")
    whole, metadata, batch = results()
    is_right(whole, metadata, batch, 32, [*range(22), *range(33, 43)])
    before = {path: os.stat(path).st_mtime_ns for path in glob.glob("prm_data/*_gpu_*")}
    again = said[said.index("next       muster "):].split()[2:5]
    assert again[0] == "resume" and again[2] == "--retry-failed", again
    said = muster(0, *again)
    assert "43 items in 4 shards, complete" in said
    assert all(os.stat(path).st_mtime_ns == at for path, at in before.items())
    is_right(*results())


@check
def what_failed_can_be_finished_by_hand():
    muster(1, *job("-r", "0"), fault="kill@40")
    incomplete = the("prm_data/*_merged.pt")
    plan = subprocess.run([MUSTER, *job("--dry-run")], env=environment(), capture_output=True, text=True, timeout=60).stdout
    line = next(line for line in plan.splitlines() if line.startswith("shard 3 ")).split(": ", 1)[1].split()
    line[line.index("--prm_batch_timestamp") + 1] = incomplete[-len("20260101_000000_merged.pt"):-len("_merged.pt")]
    subprocess.run(line, env=environment(), check=True, capture_output=True, timeout=60)
    for files, into in ((parts(), "whole_merged.pt"), ([incomplete, parts()[3]], "whole_too.pt")):
        muster(0, "merge", "-q", *IDS_MENDED, *files, "-o", into)
        assert made.loaded(into)["num_questions"] == 43
        assert [q["question_id"] for q in made.loaded(into)["questions"]] == [f"q_{i}" for i in range(43)]
        assert made.loaded(into)["batch_name"] == os.path.basename(incomplete)[:-3]
    muster(0, "merge", "-q", *(path[:-3] + "_metadata.json" for path in parts()), "-o", "whole.json", "--expect", "43")
    with open("whole.json", encoding="utf-8") as file:
        is_right(made.loaded("whole_merged.pt"), json.load(file), os.path.basename(incomplete)[:-len("_merged.pt")])
    said = muster(1, "merge", "-q", *(path[:-3] + "_metadata.json" for path in parts()), "-o", "w.json", "--expect", "44")
    assert "expected 44 records, found 43" in said


@check
def a_part_that_is_short_or_not_there_is_a_failure_that_says_so():
    said = muster(1, *job("-r", "0"), fault="short@30")
    assert "gpu_5.pt holds 10 records, expected 11, one for each item" in said, said
    said = muster(0, "resume", "--retry-failed")
    shutil.rmtree("prm_data")
    os.mkdir("prm_data")
    said = muster(1, *job("-r", "0"), fault="lost@0")
    assert "it left no file that matches --collect, here 'prm_data/*_" in said, said
    shutil.rmtree("prm_data")
    os.mkdir("prm_data")
    words = job("--any-count")
    words[words.index("--also-counted")] = "--also"
    muster(0, *words, fault="short@30")
    assert made.loaded(the("prm_data/*_merged.pt"))["num_questions"] == 42


@check
def killed_in_mid_run_it_goes_on_with_other_devices():
    began = subprocess.Popen([MUSTER, *job("-q")], env=environment(play="--work_ms 60"), stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while len(glob.glob("prm_data/*_gpu_*_metadata.json")) < 1 and time.monotonic() < end:
        time.sleep(0.01)
    began.send_signal(signal.SIGKILL)
    began.wait()
    assert not glob.glob("prm_data/*_merged*")
    muster(0, "resume", "-g", "cpu:2")
    is_right(*results())


@check
def both_outputs_are_put_in_place_or_none():
    os.mkdir("elsewhere")
    muster_words = job("--rule", "no_such_key=sum", also="elsewhere/m.json")
    said = muster(2, *muster_words)
    assert "the rule for 'no_such_key' fits nothing in the files" in said and "joins them again, also with" in said, said
    assert not glob.glob("prm_data/*_merged*") and not os.listdir("elsewhere")
    os.rename("elsewhere", "gone")
    said = muster(2, "resume", "--rule", "num_questions=max")
    assert "elsewhere" in said, said
    os.mkdir("elsewhere")
    os.chmod("elsewhere", 0o755)
    muster(0, "resume", "--rule", "num_questions=max")
    assert made.loaded(the("prm_data/*_merged.pt"))["num_questions"] == 11 and os.listdir("elsewhere") == ["m.json"]


@check
def an_output_that_cannot_be_written_keeps_the_other_away():
    os.mkdir("elsewhere")
    began = subprocess.Popen([MUSTER, *job("-q", also="elsewhere/m.json")], env=environment(play="--work_ms 30"),
                             stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not glob.glob("muster-runs/latest/logs/*") and time.monotonic() < end:
        time.sleep(0.01)
    os.rmdir("elsewhere")
    said = began.communicate(timeout=60)[1]
    assert began.returncode not in (0, 1) and "the results are not merged" in said, (began.returncode, said)
    assert not glob.glob("prm_data/*_merged*")
    os.mkdir("elsewhere")
    muster(0, "resume")
    assert made.loaded(the("prm_data/*_merged.pt"))["num_questions"] == 43 and os.listdir("elsewhere") == ["m.json"]


def unfinish():
    ledger = sqlite3.connect(os.path.join(the("muster-runs/2*"), "run.db"))
    ledger.execute("update facts set value = 'running' where key = 'state'")
    ledger.commit()
    ledger.close()


@check
def killed_between_its_two_outputs_it_knows_the_first_for_its_own():
    muster(0, *job("--keep-parts"))
    merged, metadata = the("prm_data/*_merged.pt"), the("prm_data/*_merged_metadata.json")
    os.unlink(merged)  # it is put in place last
    unfinish()
    muster(0, "resume")
    is_right(*results())
    os.unlink(merged)
    with open(metadata, "a", encoding="utf-8") as file:
        file.write("\n")  # now it is somebody else's
    unfinish()
    assert "_metadata.json exists; --force replaces it" in muster(2, "resume")
    muster(0, "resume", "--force")
    is_right(*results())


@check
def a_program_that_writes_tensors_to_its_output_placeholder():
    script = ("import sys, torch; start, count, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]; "
              "torch.save({'num_items': count, 'items': list(range(start, start + count))}, path)")
    words = ["map", "--items", "10", "--shards", "3", "-g", "cpu:2", "-o", "all.pt", "--"]
    muster(0, *words, sys.executable, "-c", script, "{start}", "{count}", "{output}")
    assert made.loaded("all.pt") == {"num_items": 10, "items": list(range(10))}
    said = muster(1, *words[:-1], "-r", "0", "-f", "--", sys.executable, "-c", script, "{start}", "3", "{output}")
    assert "holds 3 records, expected 4" in said and made.loaded("all.pt")["items"] == [4, 5, 6, 7, 8, 9], said


@check
def questions_that_are_all_called_q_0_are_found_and_numbered():
    ids = ("--id", "questions.*.question_id")
    said = muster(65, *job(ids=ids))
    assert "questions.1.question_id" in said and "--renumber numbers all of them anew" in said, said
    assert not glob.glob("prm_data/*_merged*")
    muster(0, "resume", *ids, "--renumber")
    is_right(*results())


PATHS = ("questions.*.paths.*.path_id=questions.*.paths.*.parent_path_id,questions.*.paths.*.child_path_ids.*,"
         "questions.*.paths.*.metadata.parent_path_id,questions.*.tree_structure.nodes.*.path_id,"
         "questions.*.tree_structure.nodes.*.parent_id,questions.*.tree_structure.nodes.*.children_ids.*,"
         "questions.*.tree_structure.edges.*.*,questions.*.tree_structure.root_ids.*")


def shifted(questions, by):
    """The same, with every id of a path, and all that refers to one, so much larger."""
    new = lambda id: None if id is None else id + by
    for q in questions:
        for p in q["paths"]:
            p["path_id"], p["parent_path_id"] = new(p["path_id"]), new(p["parent_path_id"])
            p["child_path_ids"] = [new(id) for id in p["child_path_ids"]]
            p["metadata"]["parent_path_id"] = new(p["metadata"]["parent_path_id"])
        tree = q["tree_structure"]
        for n in tree["nodes"]:
            n["path_id"], n["parent_id"] = new(n["path_id"]), new(n["parent_id"])
            n["children_ids"] = [new(id) for id in n["children_ids"]]
        tree["edges"] = [tuple(map(new, edge)) for edge in tree["edges"]]
        tree["root_ids"] = [new(id) for id in tree["root_ids"]]
    return questions


@check
def ids_of_paths_that_begin_anew_in_each_shard_are_numbered_with_what_refers_to_them():
    said = muster(0, *job("--renumber-path", PATHS))
    assert "860 ids are numbered from 0 to 859" in said, said
    whole, n_paths = [], 0
    for path in parts():
        questions = part(path)["questions"]
        whole += shifted(questions, n_paths)
        n_paths += sum(len(q["paths"]) for q in questions)
    assert unnamed(results()[0]["questions"]) == unnamed(whole)


@check
def a_command_that_the_real_program_refuses_is_refused():
    said = muster(1, *job("-r", "0", worker=("--generate_bs", "1")))
    assert "TypeError: '<=' not supported between instances of 'NoneType' and 'int'" in said, said
    said = muster(1, *job("-r", "0", worker=("--temperature", "0.7")))
    assert "gpu_1.pt holds 1 record, expected 11, one for each item: the program lost 10; see its log" in said, said
    said = muster(1, *job("-r", "0", worker=("--temperature", "0.7", "--generate_bs", "1", "--hidden", "8")))
    assert "unrecognized arguments: --hidden 8" in said, said


@check
def the_commands_that_the_guides_show_for_it_are_taken():
    guides = os.path.join(HERE, "..", "..", "docs", "guides")
    shown = []
    for name in ("latentmas.md", "shards.md"):
        with open(os.path.join(guides, name), encoding="utf-8") as file:
            shown += [(name, block) for block in re.findall(r"^```console\n(.*?)^```", file.read(), re.M | re.S)
                      if re.search(r"^\$ muster map", block, re.M) and "run.py" in block]
    assert [name for name, _ in shown] == ["latentmas.md", "shards.md"], shown
    os.rmdir("prm_data")  # it is for the guide to say
    for _, block in shown:
        for path in glob.glob("prm_data/*") + glob.glob("*.pt"):
            os.unlink(path)
        words = re.sub(r"^\$ ", "", block, flags=re.M).replace("--items 400", "--items 9").replace("--stagger 2s", "--stagger 100ms").replace("python run.py", f"{sys.executable} {WORKER}")
        env = {**environment(), "PATH": os.path.dirname(MUSTER) + os.pathsep + os.environ["PATH"]}
        ended = subprocess.run(["sh", "-ec", words], env=env, capture_output=True, text=True, timeout=100)
        assert ended.returncode == 0 and "9 items in 4 shards, complete" in ended.stderr, (words, ended)


@check
def what_is_there_so_far_is_merged_by_muster_results():
    muster(1, *job("-r", "0"), fault="crash@25")
    muster(0, "results", "-o", "so_far.pt")
    assert made.loaded("so_far.pt")["num_questions"] == 32


@check
def with_torch_itself():
    python = python_with_torch()
    if not python:
        return "torch is not installed"
    muster(0, *job(python=python, ids=()), stubs=False, play="--dtype bfloat16")
    muster(0, *job("--plain", "--force", python=python, out="plain.pt", also="plain.json"), stubs=False)
    script = """if True:
        import glob, json, sys, torch
        sys.argv = ["", "MUSTER"]
        load = lambda path: torch.load(path, **({"weights_only": False} if torch.__version__ >= "1.13" else {}))
        [merged] = glob.glob("prm_data/*_merged.pt")
        whole = load(merged)
        parts = [load(merged.replace("_merged", f"_gpu_{gpu}")) for gpu in (1, 3, 5, 7)]
        with open(glob.glob("prm_data/*_merged_metadata.json")[0]) as file:
            metadata = json.load(file)
        flat = [q for one in parts for q in one["questions"]]
        def same(a, b):
            if isinstance(a, torch.Tensor):
                return a.dtype == b.dtype == torch.bfloat16 and a.shape == b.shape and torch.equal(a, b)
            if isinstance(a, dict):
                return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
            if isinstance(a, (list, tuple)):
                return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
            return type(a) is type(b) and a == b
        assert same(flat, whole["questions"]) and len(flat) == 43
        assert any(type(p["prm_score"]).__name__ == "float64" for q in flat for p in q["paths"])
        plain = [p["prm_score"] for q in load("plain.pt")["questions"] for p in q["paths"]]
        assert {type(score).__name__ for score in plain} == {"float"}
        assert metadata["accuracy"] == sum(q["is_correct"] for q in flat) / 43
        print(whole["batch_name"], metadata["batch_name"], whole["num_questions"])
    """
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    name, too, n = done.stdout.split()
    assert name == too and name.endswith("_merged") and n == "43"


def main():
    failed = 0
    print(f"1..{len(checks)}")
    for number, function in enumerate(checks, 1):
        name, skipped = function.__name__.replace("_", " "), None
        with tempfile.TemporaryDirectory(prefix="muster-latentmas-") as folder:
            os.chdir(folder)
            os.mkdir("prm_data")
            try:
                skipped = function()
                print(f"ok {number} - {name}" + (f" # SKIP {skipped}" if skipped else ""), flush=True)
            except Exception as why:
                failed += 1
                print(f"not ok {number} - {name}", *(f"# {line}" for line in repr(why)[:3000].split("\\n")), sep="\n", flush=True)
            os.chdir("/")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
