#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster sim: what is asked, what is answered, and whether the answer is true.
load helpers

sim() { run limited "$MUSTER" sim "$@"; }

@test "constant times: the wall is what arithmetic says" {
    sim --items 1000 --item-time 100ms --load-time 5s --devices 1,4 --json
    ended_with 0
    [ "$(jq -c "[.devices, .wall_s + 0, .static_s + 0, .is_best]" <<<"$output")" = "[1,105,105,false]
[4,30,30,true]" ]
}

@test "a forecast from a trial run is near what the whole run takes" {
    seq 300 | awk '{ printf "{\"ms\":%d}\n", 10 + ($1 * 7919) % 40 }' >in.jsonl
    pyworker naps <<'END'
import muster, time
time.sleep(0.2)
for item in muster.items():
    time.sleep(item.data["ms"] / 1000)
    item.done(1)
END
    map -g cpu:2 --limit 80 in.jsonl -o trial.txt -- ./naps
    ended_with 0
    map -g cpu:4 in.jsonl -o out.txt --on-finish 'jq .wall_ms >took.txt' -- ./naps
    ended_with 0
    sim --like "$(ls muster-runs | grep -v latest | head -1)" --items 300 --devices 4 --json
    ended_with 0
    local said_ms took_ms
    said_ms=$(jq '.wall_s * 1000 | floor' <<<"$output") took_ms=$(cat took.txt)
    echo "said $said_ms ms, took $took_ms ms"
    [ $((said_ms * 100)) -gt $((took_ms * 60)) ]
    [ $((said_ms * 100)) -lt $((took_ms * 125)) ]
}

@test "the same question has the same answer, and another seed another" {
    sim --items 500 --item-time lognormal:1s:1 --devices 4 --json
    local first=$output
    sim --items 500 --item-time lognormal:1s:1 --devices 4 --json
    [ "$output" = "$first" ]
    sim --items 500 --item-time lognormal:1s:1 --devices 4 --json --seed 99
    [ "$output" != "$first" ]
}

@test "a list of times from a file" {
    printf '1\n2\n3\n' >times.txt
    sim --items 6 --item-time @times.txt --devices 1 --json
    ended_with 0
    [ "$(jq ".wall_s + 0" <<<"$output")" = 12 ]
    printf '1\nx\n' >times.txt
    sim --items 6 --item-time @times.txt
    ended_with 65
    says "times.txt line 2"
    sim --items 6 --item-time @nowhere.txt
    says "nowhere.txt"
}

@test "more items in work than can be counted are refused, in all rows" {
    # two to the 32nd and a little: as many slots as fit into 32 bits would be fewer than devices
    sim --items 10 --item-time 1s --devices 65534 --concurrency 65539 --slow 1:2 --runs 1
    ended_with 2
    says "65534 devices with --concurrency 65539" "16,777,216 items in work"
    sim --items 10 --item-time 1s --devices 1,168 --concurrency 100000
    ended_with 2
    sim --items 10 --item-time 1s --devices 65534 --concurrency 65539 --slow 1:2 --runs 1 --filter
    ended_with 0
}

@test "deaths are counted, and what one costs is said" {
    sim --items 2000 --item-time 1s --load-time 30s --crash 0.5% --devices 8
    ended_with 0
    [[ $output =~ [0-9]+" deaths" ]]
    [[ $output =~ "a death    of a worker costs "(29|30|31).[0-9]" s of device time" ]]
}

@test "a deadline is met with the fewest devices, or by none" {
    sim --items 1000 --item-time 1s --devices 1,2,4,8 --deadline 5m
    says "best       4 devices"
    sim --items 1000 --item-time 1s --devices 1,2 --deadline 5m
    says "best       none of these is sure to be through in 5 m 00 s"
}

@test "the picture is a page of its own, with a bar for each worker" {
    echo mine >run.html.new
    sim --items 200 --item-time 0.5s-2s --load-time 3s --devices 3 --html run.html
    ended_with 0
    [ "$(cat run.html.new)" = mine ]
    [ "$(grep -c 'class="rail"' run.html)" -eq 3 ]
    grep -q '>all done after [0-9.]* \(s\|m [0-9]* s\)<' run.html
    [ "$(sed -n 's/.*text-anchor="middle">\(.*\)<.*/\1/p' run.html | head -3 | tr '\n' ' ')" = "0 10.0 s 20.0 s " ]
    grep -q 'side by side' run.html && return 1
    grep -q '<rect class="loading"' run.html
    "$PYTHON" - <<'END'
from html.parser import HTMLParser
class Check(HTMLParser):
    open_tags = []
    def handle_startendtag(self, tag, attrs): pass
    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "rect", "line"): self.open_tags.append(tag)
    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag, tag
check = Check(); check.feed(open("run.html").read()); assert not check.open_tags, check.open_tags
END
}

@test "the picture of workers that do several things at one time lets them shine through" {
    sim --items 200 --item-time 1s --concurrency 4 --devices 2 --html run.html
    ended_with 0
    grep -q 'stronger: several items side by side' run.html
}

@test "a picture that has nowhere to go costs nobody the table" {
    sim --items 20 --item-time 1s --devices 2 --html nowhere/run.html
    ended_with 2
    says "--html" "nowhere/run.html" "best       2 devices"
}

@test "what cannot be answered is refused with what is missing" {
    sim
    ended_with 2
    says "--items N, or --like RUN"
    sim --items 10
    ended_with 2
    says "--item-time, or --like RUN"
    sim --items 10 --item-time gauss:1s:1
    ended_with 2
    says "expected lognormal, uniform or pareto"
    sim --items 10 --item-time pareto:1s:0.5
    says "an exponent above 1"
    sim --items 10 --item-time 2s-1s
    says "ends before it begins"
    sim --items 10 --item-time 1s --devices 0
    ended_with 2
    sim --items 10 --item-time 1s --slow 2 --devices 4
    says "COUNT:FACTOR"
    sim --items 10 --item-time 1s --slow 5:2 --devices 4
    says "--slow names 5 devices"
    sim --items 10 --item-time 1s --crash 150%
    says "between 0% and 100%"
    sim --like nosuch
    ended_with 2
}

@test "times beyond all measure are refused, and so is a run of a hundred years" {
    for time in 31d 1e305us lognormal:1000d:1 1s-31d; do
        sim --items 10 --item-time "$time"
        ended_with 2
        says "--item-time: a time is at most 30 days"
    done
    sim --items 10 --item-time 1s --load-time 100000000d
    ended_with 2
    says "--load-time: a time is at most 30 days"
    printf '1\n1e308\n' >times.txt
    sim --items 10 --item-time @times.txt
    ended_with 65
    says "times.txt line 2" "at most 30 days"
    sim --items 10 --item-time 1s --slow 1:1e300 --devices 2
    ended_with 2
    says "at most 1000"
    sim --items 10000 --item-time 30d --devices 1 --runs 1
    ended_with 2
    says "on 1 device takes more than 100 years"
}

@test "a goal that any number of devices meets, or none, is no goal" {
    for goal in "--deadline 0s" "--deadline 0" "--efficiency 0" "--efficiency 0%"; do
        # shellcheck disable=SC2086
        sim --items 10 --item-time 1s $goal
        ended_with 2
        says "${goal% *}: expected a" "above 0, found '${goal#* }'"
    done
}

@test "a run in which nothing was answered teaches nothing" {
    seq 3 >in.txt
    map -g cpu:1 in.txt -o out.txt -- false
    sim --like latest
    ended_with 65
    says "no times of items yet"
}

@test "--html on a full disk ends with 75, --like of a graph says so, and shards are counted as shards" {
    sim --items 10 --item-time 1s --devices 1 --html /dev/full
    ended_with 75
    says "No space left"
    sim --items 10 --item-time 1s --devices 1 --html nosuch/run.html
    ended_with 2
    printf 'jobs: {a: {run: "true"}}\n' >g.yaml
    run limited "$MUSTER" graph -q g.yaml
    ended_with 0
    sim --like latest
    ended_with 2
    says "is a graph" "muster graph --dry-run"
    says_not "yet"
    seq 40 >in.txt
    map -g cpu:2 --shards 4 in.txt -o out.txt -- sh -c 'sleep 0.2; cp {input} {output}'
    ended_with 0
    sim --like latest --devices 1 --json
    ended_with 0
    [ "$(jq '.wall_s > 0.8 and .wall_s < 5' <<<"$output")" = true ] # four times 0.2 s, not forty times
}
