#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Verbs that are programs of their own: muster-NAME beside muster, in libexec, in PATH.
load helpers

# A muster in ./bin, with nothing beside it; DIR/muster-greet says where it is and what it was given.
lone_muster() {
    mkdir -p prefix/bin prefix/libexec/muster path
    cp "$MUSTER" prefix/bin/muster
}

greeter() {
    printf '#!/bin/sh\necho "%s: $*"\nexit 7\n' "$1" >"$1/muster-greet"
    chmod +x "$1/muster-greet"
}

@test "a word that is no verb runs the program of that name, with the words behind it and its status" {
    lone_muster
    greeter path
    PATH=$PWD/path:$PATH run prefix/bin/muster greet 'a b' --flag
    ended_with 7
    says "path: a b --flag"
}

@test "what lies beside muster comes before libexec, and that before PATH" {
    lone_muster
    greeter path
    greeter prefix/libexec/muster
    PATH=$PWD/path:$PATH run prefix/bin/muster greet
    says "prefix/libexec/muster:"
    greeter prefix/libexec
    PATH=$PWD/path:$PATH run prefix/bin/muster greet
    says "prefix/libexec:"
    greeter prefix/bin
    PATH=$PWD/path:$PATH run prefix/bin/muster help greet
    says "prefix/bin: --help"
}

@test "a verb that is not installed is said to be missing, not to be unknown" {
    lone_muster
    run prefix/bin/muster kge tracin
    ended_with 69
    says "muster: kge: muster-kge is not installed: it is neither beside" "libexec or PATH"
    run prefix/bin/muster --help
    says "kge        graph embeddings"
    run prefix/bin/muster keg
    ended_with 2
    says "unknown verb 'keg' (did you mean 'kge'?)"
}

@test "a folder of PATH that cannot be read makes no verb of an unknown word" {
    lone_muster
    [ "$(id -u)" -ne 0 ] || skip "root reads every folder"
    chmod 000 path
    PATH=$PWD/path:$PATH run prefix/bin/muster greet
    chmod 755 path
    ended_with 2
    says "unknown verb 'greet'"
}

@test "a program that cannot be run is named with the reason" {
    lone_muster
    touch path/muster-greet
    PATH=$PWD/path run prefix/bin/muster greet
    ended_with 69
    says "run muster-greet: Permission denied"
}

@test "signals that muster ignores are as they were for the program" {
    lone_muster
    printf '#!/bin/sh\nyes | head -1\ngrep SigIgn /proc/self/status\n' >path/muster-greet
    chmod +x path/muster-greet
    PATH=$PWD/path:$PATH run prefix/bin/muster greet
    says "y"
    ignored=$((16#$(sed -n 's/^SigIgn:[^0-9a-f]*//p' <<<"$output")))
    [ $((ignored >> 12 & 1)) -eq 0 ]
    [ $((ignored >> 24 & 1)) -eq 0 ]
}

@test "muster's own helpers and paths are no verbs" {
    lone_muster
    cp "$(dirname "$MUSTER")/muster-guard" "$(dirname "$MUSTER")/muster-devices" prefix/bin/
    run prefix/bin/muster guard
    ended_with 2
    run prefix/bin/muster devices
    ended_with 2
    run prefix/bin/muster ../path/x
    ended_with 2
    says "unknown verb"
}
