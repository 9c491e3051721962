#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster split as users meet it. What random files give stands in tests/python/test_split.py.
load helpers

split() { run limited "$MUSTER" split "$@"; }

# Nothing but these files is in the folder.
only() {
    [ "$(ls -A | grep -v '^locks$')" = "$(printf '%s\n' "$@" | sort)" ] && return
    ls -lA
    return 1
}

# csv_rows N: a header and N rows, every third with a newline in quotes.
csv_rows() {
    echo "id,text"
    seq 1 "$1" | awk '{ printf "%d,%s\n", $1, $1 % 3 ? "plain" : "\"two\nlines, \"\"quoted\"\"\"" }'
}

@test "parts stand beside the input, sizes by divmod, the first ones larger" {
    seq 10 >in.jsonl
    split -n 4 in.jsonl
    ended_with 0
    says "in.part_00.jsonl" "10 records (jsonl) in 4 parts"
    [ "$(wc -l <in.part_00.jsonl) $(wc -l <in.part_01.jsonl) $(wc -l <in.part_02.jsonl) $(wc -l <in.part_03.jsonl)" = "3 3 2 2" ]
    cat in.part_0?.jsonl >back
    same back in.jsonl
}

@test "every CSV part has the header as it was, with its mark and its line ends" {
    { printf '\357\273\277'; csv_rows 100; } | sed 's/$/\r/' >in.csv
    split -q --records 30 in.csv
    ended_with 0
    only in.csv in.part_00.csv in.part_01.csv in.part_02.csv in.part_03.csv
    for part in in.part_*.csv; do [ "$(head -n1 "$part" | od -c)" = "$(head -n1 in.csv | od -c)" ]; done
    { head -n1 in.csv; tail -qn+2 in.part_*.csv; } >back
    same back in.csv
}

@test "parts of a JSON array are arrays, laid out as it was" {
    printf '[\n  {"a": [1, 2]},\n  "],[",\n  null\n]\n' >in.json
    split -q -n 2 in.json
    ended_with 0
    same in.part_00.json <(printf '[\n  {"a": [1, 2]},\n  "],["\n]\n')
    same in.part_01.json <(printf '[\n  null\n]\n')
}

@test "parts of a size hold as many records as fit, and a large record alone" {
    { seq 100 199; head -c 3000 /dev/zero | tr '\0' x; echo; seq 200 249; } >in.txt
    split -q --size 100 -o p-{n}.txt in.txt
    ended_with 0
    [ "$(stat -c %s p-00.txt p-03.txt p-04.txt p-05.txt p-06.txt | tr '\n' ' ')" = "100 100 3001 100 100 " ]
    cat p-0?.txt >back
    same back in.txt
}

@test "a byte-order mark counts as well" {
    { printf '\357\273\277'; seq 100 199; } >in.txt
    split -q --size 100 -o p-{n}.txt in.txt
    ended_with 0
    [ "$(stat -c %s p-00.txt p-01.txt p-04.txt | tr '\n' ' ')" = "99 100 4 " ]
    cat p-0?.txt >back
    same back in.txt
    { printf '\357\273\277'; csv_rows 50; } >in.csv
    split -q --size 100 -o c-{n}.csv in.csv
    [ "$(stat -c %s c-*.csv | sort -n | tail -n1)" -le 100 ]
}

@test "a folder is made, a pattern followed, numbers as wide as they must be" {
    seq 12 >in.txt
    split -q -n 12 -o new/ in.txt
    ended_with 0
    [ "$(ls new | head -n1) $(ls new | wc -l)" = "in.part_00.txt 12" ]
    split -q -n 12 --digits 5 -o 'newer/{parts}/x-{n}-of-{parts}.jsonl' in.txt
    ended_with 0
    [ "$(cat newer/00012/x-00011-of-00012.jsonl)" = 12 ]
    split -q --records 1 -o '{n}' <(seq 101) --format lines
    ended_with 0
    [ "$(cat 100)" = 101 ]
}

@test "standard input, gzip and Zstandard, several files as one sequence" {
    csv_rows 10 >a.csv
    csv_rows 7 >b.csv
    gzip -k a.csv
    zstd -q b.csv
    split -q -n 2 -o out/ a.csv.gz b.csv.zst
    ended_with 0
    { cat a.csv; tail -n+2 b.csv; } >all.csv
    { cat out/a.part_00.csv; tail -n+2 out/a.part_01.csv; } >back
    same back all.csv
    split -q -n 2 --format csv -o in/ - <all.csv
    ended_with 0
    same in/part_00.csv out/a.part_00.csv
    same in/part_01.csv out/a.part_01.csv
    split -n 2 - <all.csv
    ended_with 2
    says "stdin has no name"
}

@test "fewer records than parts: the others are empty, with header, and it is said" {
    csv_rows 1 >in.csv
    split -n 3 in.csv
    ended_with 0
    says "2 of the parts have no record"
    same in.part_00.csv in.csv
    same in.part_02.csv <(echo "id,text")
    printf '[]' >in.json
    split -q -n 2 in.json
    same in.part_01.json <(echo "[]")
    : >empty.jsonl
    split -q --records 5 empty.jsonl
    ended_with 0
    [ -e empty.part_00.jsonl ] && [ ! -s empty.part_00.jsonl ]
}

@test "a last line without its end gets one, in the style of the file, and it is said" {
    printf 'a,b\r\n1,2\r\n3,4' >in.csv
    split -n 2 in.csv
    ended_with 0
    says "had no end, and got one"
    same in.part_01.csv <(printf 'a,b\r\n3,4\r\n')
    printf '{"a":1}\n{"a":2}' >x.jsonl
    printf '{"a":3}' >y.jsonl
    split -q -n 1 x.jsonl y.jsonl
    same x.part_00.jsonl <(printf '{"a":1}\n{"a":2}\n{"a":3}\n')
}

@test "the same input gives the same bytes, and a table that programs can read" {
    csv_rows 1000 >in.csv
    split -q --json -n 7 -o one/ in.csv
    ended_with 0
    [ "$(jq -s 'map(.records) | add' <<<"$output")" = 1000 ]
    [ "$(jq -rs '.[3].path' <<<"$output")" = one/in.part_03.csv ]
    [ "$(jq -rs '.[3].bytes' <<<"$output")" = "$(stat -c %s one/in.part_03.csv)" ]
    split -q -n 7 -o two/ in.csv
    diff -r one two
}

@test "the table is as wide as its names are printed" {
    seq 4 >in.txt
    run "$MUSTER" split -q -n 2 -o $'a\xff{n}.txt' in.txt
    ended_with 0
    says 'a\xff'
    [ "$(awk '{ print length }' <<<"$output" | sort -u | wc -l)" = 1 ]
}

@test "a folder for temporary files that is not there is wrong usage" {
    seq 9 | sed 's/.*/{"id":&}/' | gzip >in.jsonl.gz
    TMPDIR=/nowhere run "$MUSTER" split -n 3 in.jsonl.gz
    ended_with 2
    says "/nowhere (TMPDIR)"
    TMPDIR=/nowhere run "$MUSTER" merge in.jsonl.gz -o out.jsonl
    ended_with 2
    says "/nowhere (TMPDIR)"
}

@test "a table that cannot be written does not undo the parts, and says so" {
    seq 9 >in.txt
    status=0
    "$MUSTER" split -n 3 in.txt >/dev/full 2>said || status=$?
    output=$(cat said)
    ended_with 1
    says "the parts are in place, but stdout does not take what is told of it: No space left on device"
    cat in.part_*.txt | cmp - in.txt
    mkfifo pipe
    : <pipe & # a reader that is gone
    exec 7>pipe
    wait $!
    status=0
    "$MUSTER" split -n 3 --force in.txt >&7 2>said || status=$?
    exec 7>&-
    output=$(cat said)
    ended_with 0
    cat in.part_*.txt | cmp - in.txt
    status=0
    "$MUSTER" split --dry-run -n 3 --force in.txt >/dev/full 2>said || status=$?
    [ "$status" -ne 0 ]
    [ "$("$MUSTER" split -q -n 3 --force in.txt | wc -l)" -eq 4 ]
}

@test "--dry-run says what would be there, and checks, and writes nothing" {
    csv_rows 9 >in.csv
    split --dry-run -n 2 -o new/ in.csv
    ended_with 0
    says "new/in.part_01.csv" "nothing was written"
    echo "one field" >>in.csv
    split --dry-run -n 2 -o new/ in.csv
    ended_with 65
    echo there >in.part_01.csv
    split --dry-run -n 2 in.csv
    ended_with 2
    says "in.part_01.csv exists; --force replaces it"
    split --dry-run -n 1 in.csv
    ended_with 2
    says "in.part_01.csv is there from another cut"
    only in.csv in.part_01.csv
    same in.part_01.csv <(echo there)
}

@test "what is malformed is refused with its place, and nothing is left" {
    refused() { # NAME WORDS…, the file on stdin
        local name=$1
        shift
        cat >"$name"
        split -n 3 "$name"
        ended_with 65
        says "$name" "$@"
        only "$name"
        rm "$name"
    }
    printf 'a,b\n1,2\n"x\ny",3\n4\n5,6\n' | refused in.csv "line 5: expected 2 fields as in the header, found 1"
    printf 'a,b\n1,2\n3,4\n5,6,7' | refused in.csv "line 4: expected 2 fields as in the header, found 3"
    printf 'a,b\n1,"2\n3,4\n' | refused in.csv "line 2: a quote that is opened here is never closed"
    printf 'a,b\n1,5" x\n2,6" y\n' | refused in.csv "line 2: a quote within an unquoted field"
    printf 'a,b\n1,2\n"x"y,3\n' | refused in.csv "line 3: text follows a closing quote"
    printf '[1,2,3] 4' | refused in.json "cut off or not an array"
    printf '[1,2,3] [4]' | refused in.json "behind the ']'"
    printf '[1,2,3' | refused in.json "cut off"
    printf '[1,{"a":},3]' | refused in.json "element 2: not a JSON value"
    printf '[1,,3]' | refused in.json "element that is empty"
    printf '{"a":1}' | refused in.json "not a JSON array" "--format jsonl"
    printf '{"a":1}\n{"a":' | refused in.jsonl "the last record, at byte 8, is cut off"
    printf 'a,b\n1,2\n3,4' | gzip | head -c 20 | refused in.csv.gz "cut off"
}

@test "quotes within unquoted fields of one line are taken as they stand, as map takes them" {
    printf 'id,size\n1,5" x 6"\n2,"a ""b"""\n3,plain\n' >in.csv
    split -q -n 3 in.csv
    ended_with 0
    same in.part_00.csv <(printf 'id,size\n1,5" x 6"\n')
}

@test "headers that differ are refused, and names that occur twice are none of its business" {
    printf 'a,b\n1,2\n' >x.csv
    printf 'a,c\n1,2\n' >y.csv
    split -n 2 x.csv y.csv
    ended_with 65
    says "y.csv: column 2 is 'c', expected 'b' as in x.csv"
    printf 'a,a\n1,2\n' >z.csv
    split -q -n 1 z.csv
    ended_with 0
    same z.part_00.csv z.csv
}

@test "parts that exist are left alone without --force, and so are those of another cut" {
    seq 9 >in.txt
    split -q -n 8 in.txt
    ended_with 0
    cp in.part_00.txt before
    seq 5 >in.txt
    split -n 8 in.txt
    ended_with 2
    says "in.part_00.txt exists; --force replaces it"
    rm in.part_0[0-3].txt
    split -n 4 in.txt
    ended_with 2
    says "in.part_04.txt is there from another cut" "--force removes it"
    [ ! -e in.part_00.txt ]
    split -q -n 4 --force in.txt
    ended_with 0
    only before in.part_00.txt in.part_01.txt in.part_02.txt in.part_03.txt in.txt
    cat in.part_*.txt >back
    same back in.txt
}

@test "--force touches no file beside the parts that is not one" {
    seq 600 >in.txt
    split -q -n 300 in.txt
    for part in in.part_000.txt in.part_299.txt; do echo mine >"$part.new"; done
    split -q -n 300 --force in.txt
    ended_with 0
    same in.part_000.txt.new <(echo mine)
    same in.part_299.txt.new <(echo mine)
    [ "$(ls | wc -l)" -eq 303 ]
}

@test "a part never takes the input's place" {
    seq 5 >in.part_00.txt
    cp in.part_00.txt before
    ln -s in.part_00.txt in.txt
    split -n 2 --force in.txt
    ended_with 2
    says "would replace the input"
    same in.part_00.txt before
}

@test "an input that looks like a part is neither replaced nor removed" {
    seq 5 >in.part_07.txt
    cp in.part_07.txt before
    split -n 2 --force -o 'in.part_{n}.txt' in.part_07.txt
    ended_with 2
    says "the input in.part_07.txt looks like one of its 2 parts; give them another name (-o)"
    split -n 2 --force -o 'in.part_{n}.txt' - <in.part_07.txt
    ended_with 2
    says "the input in.part_07.txt looks like"
    split -n 9 --force -o 'in.part_{n}.txt' - <in.part_07.txt
    ended_with 2
    says "part 7 would replace the input"
    only before in.part_07.txt
    same in.part_07.txt before
    split -q -n 2 -o 'again_{n}.txt' in.part_07.txt
    ended_with 0
}

@test "a folder that looks like a part is left where it is" {
    seq 5 >in.txt
    mkdir in.part_07.txt
    split -n 2 --force in.txt
    ended_with 2
    says "in.part_07.txt is a folder"
    only in.part_07.txt in.txt
}

@test "folders that had to be made go again if nothing comes of it, others stay" {
    printf 'a\n1,2\n' >in.csv
    mkdir there
    split -n 2 -o there/new/er/ in.csv
    ended_with 65
    split -n 2 -o 'fresh/../there/x/{n}' in.csv
    ended_with 65
    only in.csv there
    [ -z "$(ls -A there)" ]
    split -n 2 -o new/in.csv/ in.csv
    ended_with 65
    split -n 2 -o "new/$(printf '%0300d' 0)/" in.csv
    ended_with 2
    only in.csv there
}

@test "wrong usage is one sentence" {
    seq 5 >in.txt
    split in.txt
    ended_with 2
    says "into how many parts?"
    split -n 2 --records 3 in.txt
    ended_with 2
    says "exclude each other"
    split -n 2
    ended_with 2
    says "no input is named"
    split -n 2 absent.txt
    ended_with 2
    says "absent.txt"
    split -n 0 in.txt
    ended_with 2
    for size in 0 0KB 0.1; do
        split --size $size in.txt
        ended_with 2
        says "--size: expected a byte or more, found '$size'"
    done
    split -n 2 -o name in.txt
    ended_with 2
    says "put {n} where the number goes"
    split -n 2 -o '{n}/x' in.txt
    ended_with 2
    says "not of its folder"
    split --records 1 -o 'p{n}' <(seq 100001) --format lines
    ended_with 2
    says "more than 100000 parts"
    split -n 2 -o 'in.txt/p{n}' in.txt
    ended_with 2
    says "in.txt"
    only in.txt
}

@test "a folder that cannot be written to is named" {
    seq 5 >in.txt
    mkdir -m 555 shut
    if [ "$(id -u)" -eq 0 ]; then # who may write everywhere
        mount -t tmpfs -o ro tmpfs shut 2>/dev/null || skip "needs a tmpfs mount"
    fi
    split -n 2 -o shut/ in.txt
    [ "$(id -u)" -ne 0 ] || umount shut
    ended_with 2
    says "write in folder shut"
    only in.txt shut
}

@test "a full disk ends it with 75 and leaves nothing behind" {
    mkdir disk
    mount -t tmpfs -o size=3m tmpfs disk 2>/dev/null || skip "needs root and a tmpfs mount"
    seq 1000000 >in.txt
    split -n 4 -o disk/new/ in.txt
    ls -A disk >left
    split_status=$status
    split -n 300 -o disk/ in.txt # more than are kept open: these have names meanwhile
    ls -A disk >>left
    umount disk
    [ "$split_status" -eq 75 ]
    ended_with 75
    says "No space left on device"
    [ ! -s left ]
}

@test "a limit on the size of files is an error like a full disk" {
    seq 1000000 >in.txt
    run limited bash -c 'ulimit -f 512; exec "$@"' - "$MUSTER" split -n 4 in.txt
    ended_with 75
    says "ulimit -f"
    only in.txt
}

# begin_cut COMMAND…: of 300 parts, in the background; returns when some are written.
begin_cut() {
    [ -e in.txt ] || yes "a line of some length, to be written many times" | head -n 8000000 >in.txt
    "$@" "$MUSTER" split -q -n 300 in.txt >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for some_parts
}

# Nameless yet, or with a name beside their own.
some_parts() {
    compgen -G 'in.part_*' >/dev/null || [ "$(ls -l "/proc/$PID/fd" | grep -c deleted)" -gt 3 ]
}

FEW_FILES=(bash -c 'ulimit -n 200; exec "$@"' -)
UNHEARD=(bash -c 'trap "" HUP; exec "$@"' -)

# The end of it: $status and $output, as after run.
end_cut() {
    status=0
    wait "$PID" || status=$?
    output=$(cat said)
    rm said
}

@test "a signal while parts are written leaves nothing behind" {
    begin_cut env
    kill -TERM "$PID"
    end_cut
    ended_with 143
    [ -z "$output" ]
    only in.txt
    begin_cut "${FEW_FILES[@]}"
    kill -TERM "$PID"
    end_cut
    ended_with 143
    only in.txt
}

@test "a signal that was ignored at the start, as under nohup, stays ignored" {
    begin_cut "${UNHEARD[@]}"
    kill -HUP "$PID"
    end_cut
    ended_with 0
    [ "$(ls in.part_*.txt | wc -l)" -eq 300 ]
}

@test "kill -9 leaves nothing where as many files may be open as there are parts" {
    begin_cut env
    kill -KILL "$PID"
    end_cut
    ended_with 137
    only in.txt
}

@test "what kill -9 left elsewhere is said by the next cut, and is not taken for parts" {
    begin_cut "${FEW_FILES[@]}"
    kill -KILL "$PID"
    end_cut
    ended_with 137
    set -- in.part_*.new
    touch in.part_000.txt.77-1.new in.part_000.txt.7-new
    "${FEW_FILES[@]}" "$MUSTER" split -n 300 in.txt >/dev/null 2>said
    holds said "in.part_000.txt.77-1.new and $# like it may be what a cut that was killed left behind"
    "${FEW_FILES[@]}" "$MUSTER" merge -q in.part_*.txt -o back.txt
    same back.txt in.txt
}

@test "a folder that is made for parts is theirs alone, and what a killed cut left beside it is said" {
    seq 10 >in.txt
    mkdir -p deep/out.new
    split -q -n 2 -o deep/out/ in.txt
    ended_with 0
    [ "$(ls deep) $(ls deep/out | wc -l)" = "out 2" ]
    mkdir next.new && touch next.new/in.part_00.txt
    split -n 2 -o next/ in.txt
    ended_with 0
    says "next.new may be what a cut that was killed left behind"
    [ "$(ls -d next*)" = "next
next.new" ]
}

@test "while a cut names its parts no other one does, and what is no journal of muster's stays" {
    seq 10 >in.txt
    printf '%s\n' "Parts that muster split was about to name; the next cut into these names clears up." >in.part_.txt.naming
    run limited flock in.part_.txt.naming "$MUSTER" split -q -n 2 in.txt
    ended_with 2
    says "another muster split is naming its parts: in.part_.txt.naming"
    split -q -n 2 in.txt
    ended_with 0
    only in.part_00.txt in.part_01.txt in.txt
    echo mine >in.part_.txt.naming
    split -q -n 2 --force in.txt
    ended_with 2
    says "in.part_.txt.naming is there and is none of muster's"
    same in.part_.txt.naming <(echo mine)
}

@test "a journal that another user planted removes nothing" {
    seq 10 >in.txt
    echo precious >mine
    "$PYTHON" - <<'END'
import os
st = os.stat("mine")
sec, nsec = divmod(st.st_mtime_ns, 10**9)
with open("in.part_.txt.naming", "w") as out:
    out.write("Parts that muster split was about to name; the next cut into these names clears up.\n")
    out.write(f"{st.st_ino} {st.st_size} {sec}.{nsec:09d} mine\0" "1 1 1.000000001 gone\0")
END
    cp -p in.part_.txt.naming planted
    if [ "$(id -u)" -eq 0 ]; then
        chown 54321 in.part_.txt.naming
        split -q -n 2 in.txt
        ended_with 2
        says "in.part_.txt.naming belongs to uid 54321"
        [ "$(cat mine)" = precious ]
    fi
    ln -sf planted in.part_.txt.naming
    split -q -n 2 in.txt
    ended_with 65
    says "a symbolic link"
    rm in.part_.txt.naming
    mkfifo in.part_.txt.naming
    split -q -n 2 in.txt
    ended_with 65
    [ "$(cat mine)" = precious ]
}

@test "more parts than files may be open" {
    seq 1200 >in.txt
    run limited bash -c 'ulimit -n 250; exec "$@"' - "$MUSTER" split -q -n 1200 -o out/ in.txt
    ended_with 0
    cat out/* >back
    same back in.txt
    [ "$(ls out | wc -l)" -eq 1200 ]
}

@test "split and merge give the whole again, for real files too" {
    for file in /usr/share/ieee-data/oui.csv /usr/share/iso-codes/json/iso_639-3.json; do
        [ -e "$file" ] || continue
        name=$(basename "$file")
        case $name in
        *.json) jq -c '.[]' "$file" | jq '.[]' -c | sed '1s/^/[\n/; $!s/$/,/; $s/$/\n]/' >"$name" ;;
        *) cp "$file" "$name" ;;
        esac
        split -q -n 7 -o parts/ "$name"
        ended_with 0
        "$MUSTER" merge -q -o "back-$name" parts/"${name%.*}".part_*
        same "back-$name" "$name"
    done
    csv_rows 1000 >in.csv
    split -q --size 2000 in.csv
    "$MUSTER" merge -q -o back.csv in.part_*.csv
    same back.csv in.csv
}

@test "a file that is written to while it is cut leaves no part" {
    seq 10 >in.txt
    mkfifo pipe
    limited "$MUSTER" split -n 2 -o parts/ in.txt - <pipe >said 2>&1 &
    local cutting=$! writer
    exec {writer}>pipe
    seq 40000 >&$writer # more than a pipe holds, so all files are open
    echo 11 >>in.txt
    exec {writer}>&-
    status=0
    wait "$cutting" || status=$?
    output=$(<said)
    ended_with 65
    says "in.txt was written to while it was read (21 bytes then, 24 now)"
    only in.txt pipe said
}
