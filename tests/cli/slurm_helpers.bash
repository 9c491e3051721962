# SPDX-License-Identifier: Apache-2.0
#
# For suites under a Slurm of four nodes on this machine (tests/slurm/cluster), each on ports of its own.

# cluster_up: in setup_file. Without Slurm, or without root, every test is skipped.
cluster_up() {
    local status=0
    "$BATS_TEST_DIRNAME/../slurm/cluster" up "$BATS_FILE_TMPDIR/slurm" >"$BATS_FILE_TMPDIR/up" 2>&1 3>&- 4>&- || status=$?
    if [ $status -eq 77 ] || [ "$(id -u)" -ne 0 ]; then
        touch "$BATS_FILE_TMPDIR/none"
    elif [ $status -ne 0 ]; then
        cat "$BATS_FILE_TMPDIR/up" "$BATS_FILE_TMPDIR"/slurm/log/*.log >&2
        return 1
    fi
}
has_cluster() { [ ! -e "$BATS_FILE_TMPDIR/none" ]; }
cluster_down() { ! has_cluster || "$BATS_TEST_DIRNAME/../slurm/cluster" down "$BATS_FILE_TMPDIR/slurm"; }
cluster_setup() {
    local name
    common_setup
    has_cluster || skip "no Slurm here"
    for name in ${!SBATCH_@}; do unset "$name"; done
    export SLURM_CONF=$BATS_FILE_TMPDIR/slurm/slurm.conf MUSTER_SYSFS=/nowhere
}

submit() { run --separate-stderr limited "$MUSTER" submit "$@"; }
# Its words, and not those of the run.
submit_said() { output=$stderr says "$@"; }
last_job() { jq -s 'map(.job) | max' muster-runs/latest/jobs.jsonl; }
is_over() { [ -z "$(squeue -h -j "$1" 2>/dev/null)" ]; }
is_complete() { [ -e out.txt ] && is_over "$(last_job)"; }

# What became of the jobs of the latest run, by its jobs.jsonl: events NAME [FIELD].
events() { jq -r "select(.event == \"$1\") | .${2:-job}" muster-runs/latest/jobs.jsonl; }
has_events() { [ "$(events "$1" | wc -l)" -ge "$2" ]; }
is_in_state() { [ "$(squeue -h -t all -j "$1" -o %T)" = "$2" ]; }
state() {
    rm -rf cache
    "$MUSTER" ls --json | jq -r .state
}
has_state() { [ "$(state)" = "$1" ]; }
n_done() { "$MUSTER" status --json 2>/dev/null | jq '.done // 0'; }
has_done() { [ "$(n_done)" -ge "$1" ] 2>/dev/null; }

# As Slurm does before the time limit; only the script gets it.
limit_comes() { scancel --signal=USR1 --batch "$1"; }
# Jobs that run have no time left, and those that are ended met their limit, as far as squeue says.
time_is_over() {
    mkdir bin
    worker bin/squeue <<END2
#!/bin/sh
$(command -v squeue) "\$@" | awk -F'|' -v OFS='|' '\$2 == "RUNNING" { \$5 = '"\$(date +%s)"' }
    \$2 == "COMPLETING" { \$3 = "TimeLimit" } { print }'
END2
    PATH=$PWD/bin:$PATH
}

# It meets its limit: the script is told before, and all processes of it later. Then the script is submitted again, or not.
limit_is_met() {
    local n
    n=$(events ended | wc -l)
    limit_comes "$1"
    wait_for holds muster-runs/latest/stop drain
    scancel "$1"
    wait_for has_events ended $((n + 1))
}
