# SPDX-License-Identifier: Apache-2.0
#
# For suites under a Slurm of four nodes on this machine (tests/slurm/cluster), each on ports of its own.

# cluster_up [PORT]: in setup_file. Without Slurm, or without root, every test is skipped.
cluster_up() {
    local status=0
    SLURM_TEST_PORT=${1:-} "$BATS_TEST_DIRNAME/../slurm/cluster" up "$BATS_FILE_TMPDIR/slurm" >"$BATS_FILE_TMPDIR/up" 2>&1 3>&- 4>&- || status=$?
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
