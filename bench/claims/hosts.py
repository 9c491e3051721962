# SPDX-License-Identifier: Apache-2.0
"""Workers on other hosts: agents on this machine, reached through a pipe, a real sshd, and a relay that delays bytes."""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from harness import Row, spread, verdict
from claims.channel import lines_write

VIA = "env"
ITEM_MS = 20
SLOW_FILTER = """
import sys, time
for line in sys.stdin:
    time.sleep({ms} / 1000)
    sys.stdout.write(line)
    sys.stdout.flush()
"""
SSHD = """Port {port}
ListenAddress 127.0.0.1
HostKey {dir}/keys/host
AuthorizedKeysFile {dir}/keys/user.pub
PidFile {dir}/keys/sshd.pid
StrictModes no
UsePAM no
MaxStartups 100
SetEnv XDG_CACHE_HOME={dir}/cache
"""
SSH = """Host *
  HostName 127.0.0.1
  Port {port}
  IdentityFile {dir}/keys/user
  UserKnownHostsFile {dir}/keys/known
  StrictHostKeyChecking accept-new
  LogLevel ERROR
"""


def throughput(bench):
    n = bench.size(1_000_000, 20_000)
    lines_write(bench.path("in"), n, 104)
    samples = bench.in_turn({
        "hosts": lambda: bench.map("--hosts", "one=cpu:1,two=cpu:1", "--via", VIA, "in", "--", "cat"),
        "local": lambda: bench.map("-g", "cpu:2", "in", "--", "cat"),
    })
    bench.remove("in", "out", "run")
    rate = {name: spread(n / s.wall for s in list_) for name, list_ in samples.items()}
    return Row("`cat` on two agents, %d records of 104 bytes, ordered and durable, whole command" % n, ">= 1,000,000 items/s",
               "%s items/s" % rate["hosts"].text(digits=0), "two workers of this machine: %s items/s" % rate["local"].text(digits=0),
               verdict(rate["hosts"].median >= 1e6), bench.runs())


def sent(bench):
    """The environment of a muster for which this machine is another one: its program is sent there, and kept."""
    return dict(os.environ, MUSTER_SEND_AGENT="1", XDG_CACHE_HOME=bench.path("cache"))


def start(bench):
    each = ("each", "--hosts", "one=cpu:1,two=cpu:1", "--via", VIA, "--", "true")
    bench.muster(*each, env=sent(bench))
    samples = bench.in_turn({
        "hosts": lambda: bench.muster(*each, env=sent(bench)),
        "own": lambda: bench.muster(*each),
        "local": lambda: bench.muster("each", "-g", "cpu:2", "--", "true"),
    }, bench.size(11, 1), before=lambda: time.sleep(0.2))
    ms = {name: spread(s.wall for s in list_) for name, list_ in samples.items()}
    return Row("two agents that are installed, through pipes, trivial workers (`muster each`), from exec to the end", "<= 60 ms",
               "%s ms" % ms["hosts"].text(1e3, 1),
               "agents of the head's own program: %s ms; no agents: %s ms" % (ms["own"].text(1e3, 1), ms["local"].text(1e3, 1)),
               verdict(ms["hosts"].median <= 0.06), bench.runs(bench.size(11, 1)))


def install(bench):
    each = ("each", "--hosts", "one=cpu:1", "--via", VIA, "--", "true")
    samples = bench.in_turn({
        "first": lambda: (bench.remove("cache"), bench.muster(*each, env=sent(bench)))[1],
        "kept": lambda: bench.muster(*each, env=sent(bench)),
    }, bench.size(7, 1))
    cost = spread(f.wall - k.wall for f, k in zip(samples["first"], samples["kept"]))
    return Row("the program is sent and installed, beyond the start of one that is there", "<= 0.5 s", "%s s" % cost.text(), "",
               verdict(cost.median <= 0.5), bench.runs(bench.size(7, 1)))


def start_by_ssh(bench):
    """A daemon with keys of its own, on the loopback interface."""
    sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
    if not sshd or not shutil.which("ssh") or os.geteuid() != 0:
        return Row("two agents through ssh", "<= 3 x `ssh host true`", "", "not measured: no sshd, or no root", "", "0")
    keys, port = bench.path("keys"), random.randint(20000, 30000)
    os.makedirs(keys)
    os.makedirs("/run/sshd", exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(keys, name)], check=True)
    for name, text in (("sshd_config", SSHD), ("config", SSH)):
        with open(os.path.join(keys, name), "w", encoding="ascii") as file:
            file.write(text.format(port=port, dir=bench.dir))
    daemon = subprocess.Popen([sshd, "-D", "-f", os.path.join(keys, "sshd_config")], stderr=subprocess.DEVNULL)
    ssh = ["ssh", "-T", "-o", "BatchMode=yes", "-F", os.path.join(keys, "config")]
    try:
        for _ in range(50):
            if subprocess.run([*ssh, "lab", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
                break
            time.sleep(0.1)
        each = ("each", "--hosts", "one=cpu:1,two=cpu:1", "--via", " ".join(ssh) + " {host}", "--", "true")
        bench.muster(*each, env=sent(bench))
        samples = bench.in_turn({
            "hosts": lambda: bench.muster(*each, env=sent(bench)),
            "ssh": lambda: bench.timed([*ssh, "lab", "true"]),
        }, bench.size(11, 1))
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()
    ratio = spread(h.wall / s.wall for h, s in zip(samples["hosts"], samples["ssh"]))
    ms = {name: spread(s.wall for s in list_) for name, list_ in samples.items()}
    return Row("two agents that are installed, through ssh, trivial workers", "<= 3 x `ssh host true`",
               "%s x: %s ms" % (ratio.text(), ms["hosts"].text(1e3, 0)), "`ssh host true` %s ms" % ms["ssh"].text(1e3, 0),
               verdict(ratio.median <= 3), bench.runs(bench.size(11, 1)))


def many(bench):
    n_hosts = bench.size(64, 4)
    hosts = ",".join("h%d=cpu:8" % i for i in range(n_hosts))
    samples = bench.in_turn({"hosts": lambda: bench.muster("each", "--hosts", hosts, "--via", VIA, "--", "true")})
    seconds = spread(s.wall for s in samples["hosts"])
    peak_mib = max(s.peak_kib for s in samples["hosts"]) / 1024
    return Row("%d agents of eight seats, a command on each, from exec to the end" % n_hosts, "<= 2 s, <= 128 MiB",
               "%s s, %.0f MiB" % (seconds.text(), peak_mib), "", verdict(seconds.median <= 2 and peak_mib <= 128), bench.runs())


def distance(bench, name, round_trip_ms, command):
    # The start and the end take some round trips, whatever the number of items.
    n = bench.size(max(1_000, 60 * round_trip_ms), 20)
    relay = os.path.join(bench.build, "tests", "fixtures", "link", "relay")
    with open(bench.path("in.jsonl"), "w", encoding="ascii") as file:
        file.writelines('{"ms":%d,"i":%d}\n' % (ITEM_MS, i) for i in range(n))
    via = "%s --delay-ms %d" % (relay, round_trip_ms // 2)
    far = ("--hosts", "one=cpu:1,two=cpu:1", "--via", via)
    samples = bench.in_turn({
        "far": lambda: bench.map(*far, "in.jsonl", "--", *command, out="out.jsonl"),
        "local": lambda: bench.map("-g", "cpu:2", "in.jsonl", "--", *command, out="out.jsonl"),
    }, bench.size(3, 1))
    bench.remove("out.jsonl", "run")
    share = spread(l.wall / f.wall for f, l in zip(samples["far"], samples["local"]))
    rate = {which: spread(n / s.wall for s in list_) for which, list_ in samples.items()}
    return Row("%s of %d ms an item, one worker a host, two hosts, round trip %d ms, %d items" % (name, ITEM_MS, round_trip_ms, n),
               ">= 98 % of local", "%s %%: %s items/s" % (share.text(100, 1), rate["far"].text(digits=1)),
               "local %s items/s" % rate["local"].text(digits=1), verdict(share.median >= 0.98), bench.runs(bench.size(3, 1)))


def rows(bench):
    with open(bench.path("slow.py"), "w", encoding="ascii") as file:
        file.write(SLOW_FILTER.format(ms=ITEM_MS))
    kinds = {"filter": [sys.executable, "-S", bench.path("slow.py")], "channel worker": [bench.tool("bench_worker"), "sleep"]}
    out = [throughput(bench), start(bench), install(bench), start_by_ssh(bench), many(bench)]
    for name, command in kinds.items():
        for round_trip_ms in bench.size((2, 10, 50), (2,)):
            out.append(distance(bench, name, round_trip_ms, command))
    return out
