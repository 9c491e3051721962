#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster merge and split of safetensors, npy and npz as users meet them: full disks, signals, what is said and
# what is left. Where each element goes stands in tests/python/test_arrays.py.
load helpers

merge() { run limited "$MUSTER" merge "$@"; }
split() { run limited "$MUSTER" split "$@"; }

# Nothing but these files is in the folder.
only() {
    [ "$(ls -A | grep -v '^locks$')" = "$(printf '%s\n' "$@" | sort)" ] && return
    ls -lA
    return 1
}

# npy NAME ROWS: ROWS by 128 zeros of 8 bytes, a hole in the file.
npy() {
    local head="{'descr': '<f8', 'fortran_order': False, 'shape': ($2, 128), }"
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$head" >"$1"
    truncate -s $((128 + $2 * 1024)) "$1"
}

# safetensors NAME FILE BYTES: one tensor of zeros.
safetensors() {
    local head="{\"$1\":{\"dtype\":\"U8\",\"shape\":[$3],\"data_offsets\":[0,$3]}}"
    {
        printf "\\x$(printf %02x ${#head})\\0\\0\\0\\0\\0\\0\\0%s" "$head"
        head -c "$3" /dev/zero
    } >"$2"
}

@test "parts and the whole again, with what is said of them" {
    npy in.npy 10
    split -n 3 in.npy
    ended_with 0
    says "10 rows (npy) in 3 parts" "in.part_00.npy" "4224"
    merge in.part_*.npy -o again.npy
    ended_with 0
    says "3 files of tensors into again.npy"
    same in.npy again.npy
}

@test "a model in shards, and one file again" {
    safetensors a a.safetensors 100
    safetensors b b.safetensors 50
    merge a.safetensors b.safetensors -o model.safetensors
    ended_with 0
    split -n 2 model.safetensors -o shards/
    ended_with 0
    says "2 tensors (safetensors) in 2 parts"
    [ "$(ls shards | xargs)" = "model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json" ]
    merge shards/model.safetensors.index.json -o again.safetensors
    ended_with 0
    same model.safetensors again.safetensors
    rm shards/model-00002-of-00002.safetensors
    merge shards/model.safetensors.index.json -o third.safetensors
    ended_with 65
    says "its shard shards/model-00002-of-00002.safetensors is not there"
    [ ! -e third.safetensors ]
}

@test "a file that is called like records and holds an array is one, and the other way round" {
    npy in.csv 4
    cp in.csv b.jsonl
    merge in.csv b.jsonl -o out
    ended_with 0
    says "2 files of tensors"
    [ "$(stat -c %s out)" -eq $((128 + 8 * 1024)) ]
    echo '{"weight_map":{}}' >a.json
    merge a.json -o out.json
    ended_with 0
    says "1 file of metadata"
}

@test "a full disk is 75 and leaves nothing" {
    mkdir disk
    mount -t tmpfs -o size=3m tmpfs disk 2>/dev/null || skip "needs root and a tmpfs mount"
    npy a.npy 3000
    npy b.npy 4000
    merge a.npy b.npy -o disk/out.npy
    merge_status=$status
    says "No space left on device"
    split -n 2 b.npy -o disk/new/
    ls -A disk >left
    umount disk
    [ "$merge_status" -eq 75 ]
    ended_with 75
    [ ! -s left ]
}

@test "a limit on the size of files is an error like a full disk" {
    npy a.npy 3000
    run limited bash -c 'ulimit -f 1000; exec "$@"' - "$MUSTER" merge a.npy -o out.npy
    ended_with 75
    run limited bash -c 'ulimit -f 1000; exec "$@"' - "$MUSTER" split -n 2 a.npy -o parts/
    ended_with 75
    only a.npy
}

# killed SIGNAL: what is left by a merge and a split that are ended in the middle.
killed() {
    npy a.npy 4000000 # far more than can be written before the signal
    "$MUSTER" merge -q a.npy -o out.npy 3>&- &
    sleep 0.2
    kill "-$1" $!
    wait $! || true
    "$MUSTER" split -q -n 3 a.npy 3>&- >/dev/null &
    sleep 0.2
    kill "-$1" $!
    wait $! || true
    only a.npy
}

@test "kill -9 leaves nothing" {
    killed KILL
}

@test "a signal leaves nothing" {
    killed TERM
}

@test "words of a file cannot steer a terminal" {
    safetensors '\u001b[31mred' a.safetensors 10
    safetensors '\u001b[31mred' b.safetensors 20
    merge a.safetensors b.safetensors -o out.safetensors
    ended_with 65
    says "red"
    ! grep -q "$(printf '\033')" <<<"$output" || return 1
}

@test "what is named as tensors and is none is never cut or joined as text" {
    printf 'a\nb\n' >text.pt
    : >empty.PTH
    printf '{"a":1}\n' >a.safetensors
    printf 'a\n' >a.npy
    printf 'stub\nPK\3\4' >stub.npz
    for name in text.pt empty.PTH a.safetensors a.npy stub.npz; do
        split -n 2 "$name" -o parts/
        ended_with 65
        says "$name is named as a file of tensors, and is none"
        merge "$name" -o out
        ended_with 65
        says "$name is named as a file of tensors, and is none"
    done
    only text.pt empty.PTH a.safetensors a.npy stub.npz
}

@test "the output's extension is that of what is in it" {
    npy in.npy 4
    printf 'a\nb\n' >a.txt
    for name in o.pt o.safetensors o.npz o.csv o.jsonl o.npy.gz o.npy.xz; do
        merge in.npy -o "$name"
        ended_with 2
        says "the files are npy" "$name"
    done
    merge a.txt -o o.pt
    ended_with 2
    says "o.pt is named as a file of tensors (torch), and the files are records"
    merge in.npy -o o.npy --format csv
    ended_with 2
    says "--format and --format-out are about records"
    merge in.npy -o o.npy --format-out csv
    ended_with 2
    split -n 2 in.npy -o 'o{n}.csv'
    ended_with 2
    says "the files are npy" "o{n}.csv"
    split -n 2 a.txt -o 'o{n}.pt'
    ended_with 2
    says "o{n}.pt is named as a file of tensors"
    only a.txt in.npy
    merge in.npy -o o.bin
    ended_with 0
    same in.npy o.bin
}

@test "a file that is not there is said to be so, beside which files it may be" {
    npy in.npy 4
    merge in.npy nothere.npy -o out.npy
    ended_with 2
    says "open nothere.npy: No such file or directory"
    merge nothere.txt in.npy -o out.npy
    ended_with 2
    says "open nothere.txt: No such file or directory"
    split -n 2 nothere.npy
    ended_with 2
    says "open nothere.npy: No such file or directory"
}

@test "--inspect takes no option that only a merge can obey" {
    npy in.npy 4
    for option in "-o out.npy" "--rule .=first" "--rules rules.txt"; do
        merge --inspect in.npy $option
        ended_with 2
        says "--inspect shows what is in the files and merges nothing"
    done
    only in.npy
}

@test "a single number of npy goes over as it stands" {
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f8', 'fortran_order': False, 'shape': (), }" >one.npy
    printf 'abcdefgh' >>one.npy
    merge one.npy -o out.npy
    ended_with 0
    same one.npy out.npy
    npy in.npy 4
    merge one.npy in.npy -o third.npy
    ended_with 65
    says "the array has no dimension in one.npy"
}

@test "a part is one line of the table, whatever its name" {
    npy $'a\nb\xff\033[31m.npy' 4
    "$MUSTER" split -q -n 2 a*.npy >table
    [ "$(wc -l <table)" -eq 3 ]
    [ "$(grep -c '^ab.*part_0[01].npy  ' table)" -eq 2 ]
    iconv -f utf-8 -t utf-8 table >/dev/null
    ! grep -q "$(printf '\033')" table || return 1
    "$MUSTER" split -q --force --json -n 2 a*b*m.npy | grep -qF '"path":"a\nb'
}
