#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster merge: what it joins, what it refuses, and that it leaves nothing behind when it refuses.
load helpers

merge() { run limited "$MUSTER" merge "$@"; }

# Nothing but the files that the test made.
untouched() {
    [ "$(ls -A)" = "$before" ] && return
    printf 'expected the files: %s\nfound: %s\n' "$before" "$(ls -A)"
    return 1
}

# refuses STATUS WORDS -- ARGS: nothing is there afterwards that was not before.
refuses() {
    local wanted=$1 words=$2
    shift 3
    before=$(ls -A)
    merge "$@" -o new.out
    ended_with "$wanted"
    says "$words"
    untouched
    status=0
    limited "$MUSTER" merge "$@" -o - >"$BATS_TEST_TMPDIR.bytes" 2>/dev/null || status=$?
    [ "$status" -eq "$wanted" ]
    [ ! -s "$BATS_TEST_TMPDIR.bytes" ]
}

# ---- CSV ----

@test "CSV: one header, the rows in the order of the files, cells as they were written" {
    printf 'id,text\n1,"a,b\n""x"""\n2,NA\n' >a.csv
    printf 'id,text\n3,1.50\n4,5 "x" y\n' >b.csv
    merge b.csv a.csv -o out.csv
    ended_with 0
    says "4 records of 2 files"
    printf 'id,text\n3,1.50\n4,5 "x" y\n1,"a,b\n""x"""\n2,NA\n' >wanted
    same out.csv wanted
}

@test "CSV: columns in another order are put into the first file's, quotes kept" {
    printf 'id,text\n1,x\n' >a.csv
    printf 'text,id\n"q,1","2"\n,3\n' >b.csv
    merge a.csv b.csv -o out.csv
    ended_with 0
    printf 'id,text\n1,x\n"2","q,1"\n3,\n' >wanted
    same out.csv wanted
}

@test "CSV: other columns are refused with their names, and joined by --union" {
    printf 'id,text\n1,x\n' >a.csv
    printf 'id,score\n2,0.5\n' >b.csv
    refuses 65 "b.csv lacks 'text' and has 'score', unlike a.csv; --union" -- a.csv b.csv
    merge --union a.csv b.csv -o out.csv
    ended_with 0
    printf 'id,text,score\n1,x,\n2,,0.5\n' >wanted
    same out.csv wanted
    merge --union a.csv b.csv -o out.tsv
    ended_with 0
    same out.tsv <(tr , '\t' <wanted)
}

@test "CSV: a name that occurs twice goes over where headers are alike, and is refused where it matters" {
    printf 'id,x,x\n1,a,b\n' >a.csv
    printf 'id,x,x\n2,c,d\n' >b.csv
    printf 'x,id,x\ne,3,f\n' >order.csv
    printf 'id,x\n4,g\n' >once.csv
    merge a.csv b.csv -o out.csv --id id
    ended_with 0
    same out.csv <(printf 'id,x,x\n1,a,b\n2,c,d\n')
    refuses 65 "order.csv has two columns 'x', so which of them goes where is not known; give" -- a.csv order.csv
    refuses 65 "a.csv has two columns 'x'" -- a.csv once.csv
    refuses 65 "a.csv has two columns 'x'" -- once.csv a.csv
    refuses 65 "a.csv has two columns 'x', and --union goes by the names" -- --union a.csv b.csv
    refuses 65 "b.csv has two columns 'x', and --union goes by the names" -- --union once.csv b.csv
    refuses 65 "a.csv has two columns 'x', and --id needs one; give them different names" -- --id x a.csv b.csv
}

@test "CSV: a row with too few or too many fields is refused with its line" {
    printf 'id,text\n1,x\n' >a.csv
    printf 'id,text\n1,"x\ny"\n2\n' >few.csv
    printf 'id,text\n1,x\n2,y,z\n' >many.csv
    refuses 65 "few.csv line 4: expected 2 fields as in the header, found 1" -- a.csv few.csv
    refuses 65 "many.csv line 3: expected 2 fields as in the header, found 3" -- a.csv many.csv
}

@test "CSV: lone quotes, NUL bytes and lone carriage returns are refused with their line" {
    printf 'id,text\n1,x\n' >a.csv
    printf 'id,text\n1,x\n2,"y\n3,z\n' >open.csv
    printf 'id,text\n1,5" x\n2,6" y\n' >inch.csv
    printf 'id,text\n1,"x"y\n' >behind.csv
    printf 'id,text\n1,%070d\n2,x\0y\n' 0 >nul.csv
    printf 'id,text\n1,x\ry\n' >cr.csv
    refuses 65 "open.csv line 3: a quote that is opened here is never closed" -- a.csv open.csv
    refuses 65 "inch.csv line 2: a quote within an unquoted field" -- a.csv inch.csv
    refuses 65 "behind.csv line 2: text follows a closing quote" -- a.csv behind.csv
    refuses 65 "nul.csv line 3: a NUL byte" -- a.csv nul.csv
    refuses 65 "cr.csv line 2: a carriage return outside quotes" -- a.csv cr.csv
}

@test "CSV: line ends become the first file's, byte-order marks go, a last newline comes" {
    printf '\xef\xbb\xbfid,text\r\n1,x\r\n' >a.csv
    printf '\xef\xbb\xbfid,text\n2,"y\nz"\n\n3,w' >b.csv
    merge a.csv b.csv -o out.csv
    ended_with 0
    says "b.csv had no newline at its end; it is added"
    printf 'id,text\r\n1,x\r\n2,"y\nz"\r\n3,w\r\n' >wanted
    same out.csv wanted
    merge b.csv a.csv -o out2.csv
    printf 'id,text\n2,"y\nz"\n\n3,w\n1,x\n' >wanted
    same out2.csv wanted
}

@test "CSV: empty files and files with a header alone are accepted and said" {
    printf 'id,text\n1,x\n' >a.csv
    printf 'id,text\n' >head.csv
    : >empty.csv
    merge empty.csv a.csv head.csv -o out.csv
    ended_with 0
    says "empty.csv has no records" "head.csv has no records"
    same out.csv a.csv
}

@test "TSV too" {
    printf 'id\ttext\n1\ta,b\n' >a.tsv
    printf 'text\tid\n"c\td"\t2\n' >b.tsv
    merge a.tsv b.tsv -o out.tsv
    ended_with 0
    printf 'id\ttext\n1\ta,b\n2\t"c\td"\n' >wanted
    same out.tsv wanted
}

# ---- lines, JSONL, JSON ----

@test "lines are joined, empty ones too, and a half one gets its end" {
    printf 'a\n\nb' >a.txt
    printf 'c\n' >b.txt
    merge a.txt b.txt -o out.txt
    ended_with 0
    says "4 records" "a.txt had no newline at its end; it is added"
    printf 'a\n\nb\nc\n' >wanted
    same out.txt wanted
}

@test "JSONL: a last line that was cut off is refused, with or without its newline" {
    printf '{"id":1}\n' >a.jsonl
    printf '{"id":2}\n{"id":' >cut.jsonl
    printf '{"id":2}\n{"id":\n' >cut2.jsonl
    refuses 65 "cut.jsonl: the last record, at byte 9, is cut off" -- a.jsonl cut.jsonl
    refuses 65 "cut2.jsonl line 2: not a JSON value" -- a.jsonl cut2.jsonl
}

@test "JSONL: --check looks at every line" {
    printf '{"id":1}\nnonsense\n{"id":2}\n' >a.jsonl
    merge a.jsonl -o out.jsonl
    ended_with 0
    rm out.jsonl
    refuses 65 "a.jsonl line 2: not a JSON value" -- --check a.jsonl
}

@test "JSON arrays become one, elements as they were written" {
    printf '[\n  {"id": 1, "t": "]"},\n  {"id": 1.50}\n]\n' >a.json
    printf '[]' >b.json
    printf '[{"id": 3},4]' >c.json
    merge a.json b.json c.json -o out.json
    ended_with 0
    says "b.json has no records" "4 records"
    printf '[\n  {"id": 1, "t": "]"},\n  {"id": 1.50},\n{"id": 3},4\n]\n' >wanted
    same out.json wanted
}

@test "JSON: what follows an array, is missing of it, or is no value is refused" {
    echo '[1]' >a.json
    echo '[1] 2]' >behind.json
    echo '[1, 2' >open.json
    echo '[1,, 2]' >gap.json
    echo '[1, x]' >word.json
    refuses 65 "behind.json" -- a.json behind.json
    refuses 65 "open.json is cut off" -- a.json open.json
    refuses 65 "gap.json" -- a.json gap.json
    refuses 65 "word.json element 2: not a JSON value" -- a.json word.json
}

@test "arrays and objects do not join" {
    echo '[1]' >a.json
    echo '{"a":1}' >b.json
    refuses 2 "b.json holds one object, a.json does not" -- a.json b.json
}

@test "a record longer than any window, of each kind" {
    "$PYTHON" - <<'END'
import json
text = "x" * 3_000_000
with open("a.jsonl", "w") as f:
    f.write(json.dumps({"id": 1, "t": text}) + "\n" + json.dumps({"id": 2}) + "\n")
with open("a.csv", "w") as f:
    f.write('id,t\n1,"' + text + '\n"\n2,y\n')
json.dump([{"id": 1, "t": text}, 2], open("a.json", "w"))
END
    for kind in jsonl csv; do
        merge --id id "a.$kind" -o "out.$kind"
        ended_with 0
        same "out.$kind" "a.$kind"
    done
    merge a.json -o out.json
    ended_with 0
    "$PYTHON" -c 'import json; assert json.load(open("a.json")) == json.load(open("out.json"))'
}

@test "an open quote in a large file is found without reading the file into memory" {
    [ -n "${DEAD_FS:-}" ] || skip "a sanitizer wants more memory than this allows"
    "$PYTHON" - <<'END'
with open("a.csv", "w") as f:
    f.write('id,t\n1,"x\n' + "2,y\n" * 25_000_000)
END
    run env -i PATH="$PATH" bash -c "ulimit -v 200000; '$MUSTER' merge a.csv -o out.csv"
    ended_with 65
    says "a.csv line 2: a quote that is opened here is never closed"
}

@test "a small file before large records does not make room for ids that never come" {
    [ -n "${DEAD_FS:-}" ] || skip "a sanitizer wants more memory than this allows"
    echo '{"id":0}' >a.jsonl
    "$PYTHON" - <<'END'
with open("b.jsonl", "w") as f:
    for i in range(1, 129):
        f.write('{"id":%d,"text":"%s"}\n' % (i, "x" * 1_000_000))
END
    run env -i PATH="$PATH" bash -c "ulimit -v 200000; '$MUSTER' merge --id id a.jsonl b.jsonl -o out.jsonl"
    ended_with 0
    cat a.jsonl b.jsonl | cmp - out.jsonl
}

@test "too little memory is status 75 with a sentence, and no word of runs" {
    [ -n "${DEAD_FS:-}" ] || skip "a sanitizer wants more memory than this allows"
    head -c 100000000 /dev/zero | tr '\0' x | sed 's/.*/"&"/' >a.jsonl
    run env -i PATH="$PATH" bash -c "ulimit -v 100000; '$MUSTER' merge a.jsonl -o out.jsonl"
    ended_with 75
    says "muster: out of memory: could not get"
    says_not "resume"
    [ ! -e out.jsonl ]
    run env -i PATH="$PATH" bash -c "ulimit -v 150000; '$MUSTER' map -q -g cpu:1 a.jsonl -o out.jsonl -- cat"
    ended_with 75
    says "a run can be resumed (muster resume)"
}

@test "packed files are unpacked" {
    printf 'id,text\n1,x\n' >a.csv
    printf 'id,text\n2,y\n' | gzip >b.csv.gz
    merge a.csv b.csv.gz -o out.csv
    ended_with 0
    printf 'id,text\n1,x\n2,y\n' >wanted
    same out.csv wanted
    echo a | gzip >a.txt.gz
    merge a.txt.gz -o out.txt
    ended_with 0
    [ "$(cat out.txt)" = a ]
    merge a.csv -o out.csv.gz
    ended_with 2
    says "the output is not packed"
}

@test "more files than may be open at once" {
    mkdir parts
    for i in $(seq -w 0 299); do printf '{"id":%d}\n' "$((10#$i))" >"parts/$i.jsonl"; done
    run bash -c "ulimit -n 100; exec '$MUSTER' merge --id id parts/*.jsonl -o out.jsonl --expect 300"
    ended_with 0
    same out.jsonl <(seq 0 299 | sed 's/.*/{"id":&}/')
}

# ---- formats ----

@test "where too few files may be open the output is there, or it is not and status says so" {
    echo '{"id":1}' >a.jsonl
    for n in 5 6 7 8 9; do # with fewer the program does not load
        run limited bash -c "exec 3>&- 4>&-; ulimit -n $n; exec '$MUSTER' merge --id id a.jsonl -o out.jsonl"
        if [ "$status" -eq 0 ]; then
            same out.jsonl a.jsonl
        else
            says "Too many open files"
            [ ! -e out.jsonl ]
        fi
        last=$status
        rm -f out.jsonl
    done
    [ "$last" -eq 0 ]
}

@test "more packed files than may be open, where more may be had" {
    mkdir parts
    for i in $(seq -w 0 99); do printf '{"id":%d}\n' "$((10#$i))" | gzip >"parts/$i.jsonl.gz"; done
    run limited bash -c 'ulimit -Sn 64; exec "$@"' - "$MUSTER" merge parts/*.gz -o out.jsonl --expect 100
    ended_with 0
    run limited bash -c 'ulimit -Sn 64; exec "$@"' - "$MUSTER" split -q -n 2 -o s-{n}.jsonl parts/*.gz
    ended_with 0
    cat s-0?.jsonl | cmp - out.jsonl
}

@test "the output's name says its format" {
    printf '{"id":1,"t":"a,b"}\n{"t":"c","id":2}\n' >a.jsonl
    merge a.jsonl -o out.csv
    ended_with 0
    printf 'id,t\n1,"a,b"\n2,c\n' >wanted
    same out.csv wanted
    merge out.csv -o back.json
    ended_with 0
    [ "$(jq -c . back.json)" = '[{"id":"1","t":"a,b"},{"id":"2","t":"c"}]' ]
}

@test "files of different formats are refused, unless the output's is named" {
    printf '{"id":1}\n' >a.jsonl
    printf 'id\n2\n' >b.csv
    refuses 2 "a.jsonl is jsonl, b.csv is csv; give --format-out, the format of the output, or --format" -- a.jsonl b.csv
    refuses 2 "records of jsonl cannot be written as lines; give --format-out jsonl, json, csv or tsv" -- a.jsonl --format-out lines
    echo x >c.txt
    refuses 2 "records of csv cannot be written as lines" -- c.txt b.csv --format-out lines
    merge a.jsonl b.csv --format-out jsonl -o out
    ended_with 0
    printf '{"id":1}\n{"id":"2"}\n' >wanted
    same out wanted
}

@test "a name that says nothing: the first bytes do, or --format" {
    printf '{"id":1}\n' >part-0
    printf 'a,b\n' >part-1
    : >part-2
    merge part-0 part-2 -o out.jsonl
    ended_with 0
    same out.jsonl part-0
    refuses 2 "part-1: its name does not say what it holds; --format" -- part-1
    merge --format lines part-1 -o out.txt
    ended_with 0
}

# ---- ids and counts ----

@test "an id that is there twice is refused with both places" {
    printf '{"id":"q_0"}\n\n{"id":"q_1"}\n' >a.jsonl
    printf '{"id":"q_2"}\n{"x":{"id":"q_1"},"id":"q\\u005f1"}\n' >b.jsonl
    refuses 65 "b.jsonl line 2: its 'id' is \"q\\u005f1\", as that of a.jsonl line 3" -- --id id a.jsonl b.jsonl
    printf 'id,t\n1,"x\ny"\n2,z\n' >a.csv
    printf 't,id\nw,"2"\n' >b.csv
    refuses 65 "b.csv line 2: its 'id' is \"2\", as that of a.csv line 4" -- --id id a.csv b.csv
    echo '[{"id":1},{"id":2}]' >a.json
    echo '[{"id":3},{"id":2}]' >b.json
    refuses 65 "b.json element 2: its 'id' is 2, as that of a.json element 2" -- --id id a.json b.json
}

@test "a name is the same however a writer escapes it" {
    printf '{"\\u0069d":1,"y":"a","\\u00e9":1}\n' >a.jsonl
    printf '{"id":1,"\\u0079":"a","é":1}\n' >b.jsonl
    refuses 65 "b.jsonl line 1: its 'id' is 1, as that of a.jsonl line 1" -- --id id a.jsonl b.jsonl
    merge a.jsonl b.jsonl -o out.jsonl --score y=é
    ended_with 0
    merge a.jsonl b.jsonl --format json -o merged.json
    ended_with 0
    [ "$(jq -c '[.id,.y,.["é"]]' merged.json)" = '[1,"a",1]' ]
    [ "$(grep -c '^  "' merged.json)" -eq 5 ]
}

@test "a number is the same id however it is written, and is not rounded" {
    printf '{"id":1.0}\n{"id":10000000000000000000001}\n' >a.jsonl
    printf '{"id":2}\n{"id":1e0}\n' >b.jsonl
    refuses 65 "b.jsonl line 2: its 'id' is 1e0, as that of a.jsonl line 1" -- --id id a.jsonl b.jsonl
    printf '{"id":10000000000000000000000}\n{"id":"\\ud800"}\n{"id":"\\ud801"}\n' >b.jsonl
    merge --id id a.jsonl b.jsonl -o out.jsonl
    ended_with 0
    echo '{"q":[{"id":10000000000000000000001}]}' >a.json
    echo '{"q":[{"id":10000000000000000000001.0}]}' >b.json
    refuses 65 "the id '10000000000000000000001' is at a.json: q.0.id, and again at b.json: q.0.id" -- a.json b.json --id 'q.*.id'
}

@test "values of metadata are the same however they are written" {
    echo '{"model":"\u00e9/x","gpu":{"rate":1.0,"of":[2]}}' >a.json
    echo '{"gpu":{"of":[2.0],"rate":1},"model":"é\/x"}' >b.json
    merge a.json b.json -o out.json --rule gpu=same --rule model=same
    ended_with 0
    [ "$(jq -c '[.model, .gpu.rate == 1]' out.json)" = '["é/x",true]' ]
}

@test "--score takes 1.0 for the label 1" {
    printf '{"y":1,"p":1.0}\n{"y":0,"p":0.0}\n{"y":1,"p":0}\n' >a.jsonl
    merge a.jsonl -o out.jsonl --score y=p
    ended_with 0
    says "0.6667"
}

@test "a label that is a number is named by --positive and --ignore however it is written" {
    printf '{"y":1.0,"p":1.0}\n{"y":0.0,"p":1}\n{"y":2,"p":2}\n' >a.jsonl
    local label
    for label in 1 1.0 1e0 10e-1; do
        merge -f a.jsonl -o out.jsonl --score y=p --positive $label
        ended_with 0
        says "1                               1     0.5000     1.0000     0.6667"
        merge -f a.jsonl -o out.jsonl --score y=p --ignore $label
        ended_with 0
        says "left out by --ignore: '$label': 2"
    done
    # A text is no number, and the label that is spelled so comes first.
    printf '{"y":"1.0","p":"1.0"}\n{"y":1,"p":1}\n{"y":1,"p":2}\n' >b.jsonl
    merge b.jsonl -f -o out.jsonl --score y=p --positive 1.0
    says "1.0                             1     1.0000     1.0000"
    merge b.jsonl -f -o out.jsonl --score y=p --ignore 1
    says "left out by --ignore: '1': 2"
    merge b.jsonl -f -o out.jsonl --score y=p --positive 3.0
    ended_with 65
    says "no record has '3.0' as its true label"
}

@test "a text and a number are two ids" {
    printf '{"id":"1"}\n{"id":1}\n' >a.jsonl
    merge --id id a.jsonl -o out.jsonl
    ended_with 0
}

@test "an id that is missing, empty or no id is refused with its place" {
    printf '{"id":1}\n{"di":2}\n' >a.jsonl
    printf '{"id":1}\n{"id":null}\n' >null.jsonl
    printf '1\n' >bare.jsonl
    printf 'id,t\n,x\n' >a.csv
    printf 't\nx\n' >b.csv
    echo '[{"id":1},[]]' >a.json
    refuses 65 "a.jsonl line 2: it has no 'id'" -- --id id a.jsonl
    refuses 65 "null.jsonl line 2: its 'id' is no text and no number: null" -- --id id null.jsonl
    refuses 65 "bare.jsonl line 1: not an object, so it has no 'id'" -- --id id bare.jsonl
    refuses 65 "a.csv line 2: its 'id' is empty" -- --id id a.csv
    refuses 2 "b.csv has no column 'id', which --id names" -- --id id b.csv
    refuses 65 "a.json element 2: not an object, so it has no 'id'" -- --id id a.json
}

@test "another number of records than expected is status 1" {
    printf 'a\nb\n' >a.txt
    refuses 1 "expected 3 records, found 2" -- --expect 3 a.txt
    echo '{"a":1}' >a.json
    refuses 1 "expected 3 records, but not every file has a member that counts its records, such as" -- --expect 3 a.json
    merge a.txt
    ended_with 2
    says "-o is needed: the file for the result, or - for standard output"
    merge --expect 2 a.txt -o out.txt
    ended_with 0
}

# ---- the output ----

@test "an output that exists is kept, and replaced by --force" {
    echo new >a.txt
    echo old >out.txt
    merge a.txt -o out.txt
    ended_with 2
    says "out.txt exists; --force replaces it"
    [ "$(cat out.txt)" = old ]
    merge a.txt -o out.txt --force
    ended_with 0
    same out.txt a.txt
}

@test "--force replaces the output and nothing that stands beside it, whatever its name" {
    echo '{"a":1}' >a.jsonl
    echo old >out.jsonl
    echo '{"a":2}' >out.jsonl.new
    merge --force a.jsonl out.jsonl.new --format jsonl -o out.jsonl
    ended_with 0
    same out.jsonl <(printf '{"a":1}\n{"a":2}\n')
    same out.jsonl.new <(echo '{"a":2}')
    [ "$(ls -A)" = "$(printf 'a.jsonl\nout.jsonl\nout.jsonl.new')" ]
}

@test "the output must not be one of the files, and no file may come twice" {
    echo a >a.txt
    ln -s a.txt b.txt
    echo c >c.txt
    refuses 2 "a.txt and b.txt are one file" -- a.txt c.txt b.txt
    merge c.txt b.txt -o a.txt --force
    ended_with 2
    says "b.txt is the output and one of the files too"
    [ "$(cat a.txt)" = a ]
}

@test "files that are not there, folders and pipes are refused" {
    mkdir folder
    refuses 2 "open none.txt" -- none.txt
    refuses 2 "folder is a folder" -- folder
    merge /dev/stdin -o out.txt < <(echo a)
    ended_with 2
    says "is no file"
    mkfifo fifo # of which nobody is the writer
    refuses 2 "fifo is no file; files are read more than once: save it first" -- fifo
    run limited "$MUSTER" merge --inspect fifo
    ended_with 2
    says "fifo is no file that can be read from any place"
}

@test "a full disk is status 75, and leaves nothing" {
    head -c 3000000 /dev/zero | tr '\0' '\n' >a.txt
    before=$(ls -A)
    run bash -c "ulimit -f 1000; exec '$MUSTER' merge a.txt -o out.txt"
    ended_with 75
    untouched
}

@test "standard output gets the records and nothing else" {
    printf 'a' >a.txt
    printf 'b\n' >b.txt
    limited "$MUSTER" merge a.txt b.txt -o - >got 2>said
    printf 'a\nb\n' >wanted
    same got wanted
    holds said "a.txt had no newline"
}

@test "--dry-run says what would be done and does nothing" {
    printf 'id\n1\n2\n' >a.csv
    printf 'id\n3\n' >b.csv
    before=$(ls -A)
    merge --dry-run a.csv b.csv -o out.jsonl
    ended_with 0
    says "2  a.csv" "1  b.csv" "3  would go into out.jsonl (jsonl)"
    untouched
    merge --dry-run --json a.csv b.csv -o out.csv
    says '{"file":"a.csv","records":2}'
    merge --dry-run --id id a.csv b.csv -o a.csv
    ended_with 2
    echo '{"a":1}' >a.json
    cp a.json b.json
    merge --dry-run a.json b.json -o out.json
    says "1  a.json" "1  b.json" "2  would go into out.json (json)"
}

@test "names in another order than their numbers are said, with the cure" {
    for i in 1 2 10; do echo "$i" >"part_$i.txt"; done
    merge part_*.txt -o out.txt
    ended_with 0
    says "part_10.txt comes before part_2.txt" "ls -v"
    merge part_1.txt part_2.txt part_10.txt -o out2.txt
    says_not "comes before"
    merge part_2.txt other.txt -o out3.txt --dry-run || true
    says_not "comes before"
}

@test "numbers that are the same are in order, and one of a thing is one" {
    echo a >part_1.txt
    echo b >part_01.txt
    merge part_1.txt part_01.txt -o two.txt
    ended_with 0
    says "2 records of 2 files into two.txt"
    says_not "comes before"
    merge part_1.txt -o one.txt
    says "1 record of 1 file into one.txt"
}

@test "an output that is a folder is refused with the cure" {
    echo a >a.txt
    mkdir folder
    for folder in folder folder/; do
        for how in -q --force --dry-run; do
            merge $how a.txt -o $folder
            ended_with 2
            says "$folder is a folder; name the file in it"
        done
    done
    merge a.txt -o fresh/
    ended_with 2
    says "fresh/ is a folder; name the file in it"
    [ "$(ls -A)" = "$(printf 'a.txt\nfolder')" ]
}

@test "what is missing of the command line is said" {
    echo a >a.txt
    merge a.txt
    ended_with 2
    says "-o is needed: the file for the result"
    merge -o out.txt
    ended_with 2
    says "no files are named"
    merge --by x a.txt -o out.txt
    ended_with 2
    says "--score"
}

# ---- metadata ----

metadata() {
    printf '{"task": "gsm8k", "model": "%s", "num_questions": %s, "accuracy": %s, "timestamp": "2025-12-26T12:00:0%s",
 "batch_name": "gsm8k_x_gpu_%s", "data_file": "gpu_%s.pt", "args": {"seed": %s}}' "$2" "$3" "$4" "$1" "$1" "$1" "$1" >"m$1.json"
}

@test "metadata: counts are added, accuracy comes from whole numbers, what differs is listed" {
    metadata 0 a 50 0.58
    metadata 1 a 22 0.6818181818181818
    metadata 3 b 28 0.5
    merge m0.json m1.json m3.json -o out.json
    ended_with 0
    [ "$(jq -c '[.task, .model, .num_questions, .accuracy, .timestamp, .batch_name, .data_file, .args.seed, .num_gpus]' out.json)" = \
        '["gsm8k",["a","a","b"],100,0.58,"2025-12-26T12:00:03","gsm8k_x_merged",null,[0,1,3],3]' ]
    [ "$(jq -c '.gpu_metadata[0].data_file, (.gpu_metadata | length)' out.json | tr '\n' ' ')" = '"gpu_0.pt" 3 ' ]
    holds out.json '"accuracy": 0.58'
}

@test "metadata: rates come from their counts, and one without counts is listed and said" {
    echo '{"true_positive":1,"false_positive":0,"false_negative":1,"true_negative":8,"precision":1.0,"recall":0.5,"auc":0.9,"f1":0.5}' >a.json
    echo '{"true_positive":9,"false_positive":10,"false_negative":1,"true_negative":0,"precision":0.47,"recall":0.9,"auc":0.7,"f1":0.5}' >b.json
    merge a.json b.json -o out.json
    ended_with 0
    [ "$(jq -c '[.true_positive, .precision, .recall, .auc]' out.json)" = '[10,0.5,0.8333333333333334,[0.9,0.7]]' ]
    echo '{"precision":0.5}' >c.json
    echo '{"precision":0.7}' >d.json
    merge c.json d.json -o out2.json
    says "'precision' has no counts to be worked out from"
    [ "$(jq -c .precision out2.json)" = '[0.5,0.7]' ]
}

@test "metadata: a merge of merges lists what they list" {
    metadata 0 a 50 0.58
    metadata 1 a 22 0.5
    metadata 2 a 10 0.3
    merge m0.json m1.json -o x_merged.json
    merge m2.json -o y_merged.json
    merge x_merged.json y_merged.json -o out.json
    ended_with 0
    [ "$(jq -c '[.num_gpus, (.gpu_metadata | length), .num_questions, .accuracy, .batch_name]' out.json)" = \
        '[3,3,82,0.524390243902439,"gsm8k_x_merged"]' ]
}

@test "metadata: within an object nothing is dropped" {
    echo '{"num_gpus":1,"data_file":"a","hardware":{"num_gpus":8,"gpu_metadata":["x"],"data_file":"d"}}' >a.json
    echo '{"num_gpus":1,"data_file":"b","hardware":{"num_gpus":4,"gpu_metadata":["x"],"data_file":"d"}}' >b.json
    merge a.json b.json -o out.json
    ended_with 0
    [ "$(jq -c '[.num_gpus,has("data_file"),.hardware]' out.json)" = \
        '[2,false,{"num_gpus":[8,4],"gpu_metadata":["x"],"data_file":"d"}]' ]
}

@test "metadata: a count that a file lacks is said; a member that is there twice is refused" {
    echo '{"num_samples":3}' >a.json
    echo '{"model":"m"}' >b.json
    merge a.json b.json -o out.json
    ended_with 0
    says "b.json has no 'num_samples'; the sum is without it"
    [ "$(jq -c '[.num_samples, .model]' out.json)" = '[3,[null,"m"]]' ]
    echo '{"a":1,"a":2}' >c.json
    refuses 65 "c.json has 'a' twice" -- a.json c.json
    echo '{"a":9223372036854775807,"n_items":9223372036854775807}' >d.json
    cp d.json e.json
    refuses 65 "beyond 64 bits" -- d.json e.json
}

@test "metadata: rules say what becomes of a member, num_gpus among them" {
    echo '{"gpu":0,"tags":["a"],"hist":{"x":1},"num_correct":1,"num_questions":4,"num_gpus":1}' >a.json
    echo '{"gpu":1,"tags":["b","c"],"hist":{"x":2,"y":1},"num_correct":2,"num_questions":4,"num_gpus":1}' >b.json
    printf '# how\ntags=concat\nhist=sum-by-key\n' >how.rules
    merge a.json b.json -o out.json --rule gpu=drop --rules how.rules --rule +share=num_correct/num_questions \
        --rule gpu_metadata=drop --rule num_gpus=max
    ended_with 0
    [ "$(jq -c . out.json)" = '{"tags":["a","b","c"],"hist":{"x":3,"y":1},"num_correct":3,"num_questions":8,"num_gpus":1,"share":0.375}' ]
    refuses 65 "'gpu' differs between a.json and b.json" -- a.json b.json --rule gpu=same
    refuses 2 "cat0 is about tensors" -- a.json b.json --rule tags=cat0
    refuses 2 "the rule for 'nowhere' fits nothing" -- a.json b.json --rule nowhere=sum
    echo 1 >lines.txt
    refuses 2 "these hold records" -- lines.txt --rule a=sum
}

@test "metadata: ids by their path are there once each" {
    echo '{"q":[{"id":"a"},{"id":1}],"name":"x"}' >a.json
    echo '{"q":[{"id":"b"},{"id":1.0}],"name":"y"}' >b.json
    merge a.json b.json -o out.json --id name
    ended_with 0
    [ "$(jq -c .name out.json)" = '["x","y"]' ]
    refuses 65 "the id '1' is at a.json: q.1.id, and again at b.json: q.1.id" -- a.json b.json --id 'q.*.id'
    refuses 65 "a.json: q.0 has no 'x', which --id asks for" -- a.json b.json --id 'q.*.x'
    refuses 65 "a.json: q is an array (* stands for each of its elements) without 'id'" -- a.json b.json --id q.id
    refuses 65 "a.json: name is neither an object nor an array, and has no 'x'" -- a.json b.json --id name.x
    refuses 65 "a.json: q.0 is no text and no number, so it is no id" -- a.json b.json --id 'q.*'
    refuses 2 "'q..id' is no path" -- a.json b.json --id q..id
    merge a.json b.json -o out2.json --id 'q.0.[a-i]d'
    ended_with 0
    echo '{"q":[{"id":"a"},{"id":2},{"id":null}]}' >c.json
    refuses 65 "c.json: q.2.id is no text and no number" -- c.json --id 'q.*.id'
    echo '{"q":[{"id":NaN}]}' >nan.json
    refuses 65 "nan.json: not a JSON value: it has NaN or infinity" -- nan.json --id 'q.*.id'
    echo '{"q":[{"id":"\u0061"},{"id":"1"}]}' >d.json
    refuses 65 "the id 'a' is at a.json: q.0.id, and again at d.json: q.0.id" -- a.json d.json --id 'q.*.id'
}

@test "objects one a line in a .json file: the cure is said" {
    printf '{"a":1}\n{"a":2}\n' >a.json
    refuses 65 "a.json is not one JSON object; if it has one value a line, say --format jsonl" -- a.json
    merge --format jsonl a.json -o out.jsonl
    ended_with 0
}

# ---- figures ----

@test "figures come from the counts of all records, and what is no label is named" {
    printf 'true_label,predicted_label,group\nhate,hate,a\nhate,normal,a\nnormal,normal,b\n' >a.csv
    printf 'true_label,predicted_label,group\nnormal,ERROR,b\nnormal,hate,b\nhate,,a\n,hate,a\n' >b.csv
    limited "$MUSTER" merge a.csv b.csv -o out.csv --score true_label=predicted_label --by group --json >figures
    [ "$(jq -c 'select(.group == null and .label == null)' figures)" = \
        '{"group":null,"records":6,"correct":2,"accuracy":0.3333333333333333,"macro_precision":0.5,"macro_recall":0.3333333333333333,"macro_f1":0.4,"errors":{"ERROR":1,"":1},"unlabelled":1,"ignored":0}' ]
    [ "$(jq -c 'select(.group == null and .label == "hate") | [.true_positive,.false_positive,.false_negative,.true_negative,.precision,.recall,.f1_score,.false_positive_rate,.false_negative_rate]' figures)" = \
        '[1,1,2,2,0.5,0.3333333333333333,0.4,0.3333333333333333,0.6666666666666666]' ]
    [ "$(jq -c 'select(.group == "b" and .label == "hate") | [.recall,.false_positive_rate]' figures)" = '[null,0.3333333333333333]' ]
    merge a.csv b.csv -o out2.csv --score true_label=predicted_label --positive hate
    ended_with 0
    says "predictions that are no true label of any record count as wrong, 2 in all: 'ERROR' (1), '' (1)" \
        "1 record without a true label is left out" "mean of all labels" "accuracy 0.3333"
    says_not "mean of the labels"
}

@test "figures of a group without a true label are none" {
    printf 'y,p,g\n1,1,a\n,1,b\n' >a.csv
    merge a.csv -o out.csv --score y=p --by g
    ended_with 0
    grep -Eq '^b +mean of the labels +0 +- +- +-  accuracy -$' <<<"$output"
    grep -Eq '^a +mean of the labels +1 +1.0000 +1.0000 +1.0000  accuracy 1.0000$' <<<"$output"
}

@test "figures of as many groups as records take no longer than reading them" {
    { echo y,p,g; seq 60000 | sed 's/.*/1,1,g&\n0,1,g&/'; } >a.csv
    timeout 20 "$MUSTER" merge -q a.csv -o out.csv --score y=p --by g --json >figures
    [ "$(grep -c '"accuracy":0.5' figures)" -eq 60001 ]
}

@test "labels are told apart in the table: as wide as they are, and cut in the middle if they must be" {
    local long=http://example.org/a/very/long/way/to/the/class
    printf 'y,p,g\nhttp://example.org/class/cat,http://example.org/class/dog,%s/one\nhttp://example.org/class/dog,x,%s/two\n' $long $long >a.csv
    echo "Übergröße-Maße-Füße-Söße,Übergröße-Maße-Füße-Söße,ä" >>a.csv
    merge a.csv -o out.csv --score y=p --by g
    ended_with 0
    grep -Eq '^all +http://example.org/class/cat +1 ' <<<"$output"
    grep -Eq '^http://example.org.*\.\.\..*the/class/one +http://example.org/class/dog +0 ' <<<"$output"
    grep -Eq '^http://example.org.*\.\.\..*the/class/two +http://example.org/class/dog +1 ' <<<"$output"
    grep -Eq '^ä +Übergröße-Maße-Füße-Söße +1 ' <<<"$output"
    # each line has its first number in the same column, counted in characters
    [ "$($PYTHON -c 'import re, sys; print(len({re.search(" ([0-9]+)  ", line).end() for line in sys.stdin if re.search(" [0-9]+  ", line)}))' <<<"$output")" = 1 ]
}

@test "words of the data cannot steer a terminal" {
    printf 'y,p,g\n1,"\033[31mred\n",\302\2331mgroup\n1,1,\302\265\177\n' >a.csv
    merge a.csv -o out.csv --score y=p --by g
    ended_with 0
    says "count as wrong, 1 in all: ' [31mred ' (1)" " 1mgroup " "$(printf '\302\265') "
    says_not "$(printf '\033')" "$(printf '\177')" "$(printf '\302\233')"
    printf '{"id":1}\n' >a.jsonl
    merge a.csv --id "$(printf '\033[31mid')" -o out2.csv
    ended_with 2
    says "a.csv has no column '\u001b[31mid'"
    says_not "$(printf '\033')"
}

@test "figures of JSONL, of numbers and booleans too" {
    printf '{"y":1,"p":1}\n{"y":0,"p":1}\n{"y":0,"p":0}\n{"y":1,"p":null}\n' >a.jsonl
    limited "$MUSTER" merge a.jsonl -o out.jsonl --score y=p --json >figures
    [ "$(jq -c 'select(.label == null) | [.records,.correct,.errors]' figures)" = '[4,2,{"":1}]' ]
}

@test "figures that cannot be written do not undo the output, and that is said" {
    printf 'y,p\n1,1\n' >a.csv
    status=0
    "$MUSTER" merge -q a.csv -o out.csv --score y=p >/dev/full 2>said || status=$?
    output=$(cat said)
    ended_with 1
    says "merge: the output is in place, but stdout does not take"
    same out.csv a.csv
}

@test "figures go to stderr when the records go to stdout" {
    printf 'y,p\n1,1\n' >a.csv
    limited "$MUSTER" merge a.csv -o - --score y=p >got 2>said
    same got a.csv
    holds said "accuracy 1.0000"
}

@test "figures of fields that are not there, or of nothing, are refused before anything is written" {
    printf 'y,p\n1,1\n' >a.csv
    printf 'y,p\n,1\n' >none.csv
    echo a >a.txt
    refuses 65 "a.csv line 2: it has no 'q' to be scored by" -- --score y=q a.csv
    refuses 65 "nothing to score" -- --score y=p none.csv
    refuses 65 "--positive: no record has '2' as its true label" -- --score y=p --positive 2 a.csv
    refuses 2 "expected two fields" -- --score y a.csv
    refuses 2 "a.txt holds lines, which have no fields" -- --score y=p a.txt
}

@test "records with an ignored label, true or predicted, are left out of the figures and counted" {
    printf 'y,p,g\na,a,1\na,b,1\nb,b,2\nb,ERROR,2\nskip,a,1\n' >a.csv
    merge a.csv -o out.csv --score y=p --ignore ERROR --ignore skip
    says "records left out by --ignore: 'ERROR', 'skip': 2" "accuracy 0.6667"
    says_not "are no true label"
    [ "$(wc -l <out.csv)" -eq 6 ]
    limited "$MUSTER" merge -q a.csv -o out2.csv --score y=p --ignore ERROR --ignore skip --json >figures
    [ "$(jq -c 'select(has("records")) | [.records,.correct,.ignored]' figures)" = "[3,2,2]" ]
    refuses 65 "no record is left to score: --ignore and missing true labels leave out all 5" -- --score y=p --ignore a --ignore b --ignore skip a.csv
    refuses 2 "--by, --positive, --ignore and --score-out need --score TRUE=PREDICTED" -- --ignore a a.csv
}

@test "the figures as a file: the same as CSV, JSON and JSON Lines" {
    printf 'y,p,g\na,a,1\na,b,1\nb,b,"2, two"\n' >a.csv
    local name
    for name in f.csv f.tsv f.json f.jsonl; do
        merge a.csv -o "out.$name" --format-out csv --score y=p --by g --score-out $name
    done
    limited "$MUSTER" merge -q a.csv -o last.csv --score y=p --by g --json >figures
    same f.jsonl figures
    [ "$(jq -c '.[]' f.json | wc -l)" -eq "$(wc -l <f.jsonl)" ]
    $PYTHON - <<'END'
import csv, json
rows = list(csv.DictReader(open("f.csv", newline="")))
assert rows == list(csv.DictReader(open("f.tsv", newline=""), delimiter="\t"))
for one in map(json.loads, open("f.jsonl")):
    group = one["group"] or ""
    [row] = [r for r in rows if r["group"] == group and r["label"] == one.get("label", "")]
    for key in ("accuracy", "precision", "recall", "f1_score", "false_positive_rate", "true_positive"):
        assert (row[key] == "") or key in one or "macro_" + key.replace("_score", "") in one, (row, one, key)
        if key in one:
            assert row[key] == ("" if one[key] is None else repr(one[key])), (row, one, key)
    if "macro_f1" in one:
        assert float(row["f1_score"]) == one["macro_f1"] and int(row["records"]) == one["records"]
assert {r["group"] for r in rows} == {"", "1", "2, two"}
END
    refuses 2 "f.csv exists" -- --score y=p --score-out f.csv a.csv
    refuses 2 "--score-out f.txt: the extension must be .json, .jsonl, .csv or .tsv" -- --score y=p --score-out f.txt a.csv
}

# ---- files that change ----

# while_merged FILE...: merges them into a pipe, and appends to the first one while it is written.
while_merged() {
    mkfifo pipe
    limited "$MUSTER" merge "$@" -o - >pipe 2>said &
    local merging=$! reader
    exec {reader}<pipe
    head -c 100 <&$reader >begun
    printf more >>"$1"
    cat <&$reader >rest
    exec {reader}<&-
    status=0
    wait "$merging" || status=$?
    output=$(<said)
    rm pipe
}

@test "a file that is written to while it is merged is an error, of whatever kind" {
    seq 400000 >a.txt
    seq 9 >b.txt
    while_merged a.txt b.txt
    ended_with 65
    says "a.txt was written to while it was read" "2688895 bytes then, 2688899 now" "a copy"
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (2688895,), }" >a.npy
    head -c 2688895 a.txt >>a.npy
    cp a.npy b.npy
    while_merged a.npy b.npy
    ended_with 65
    says "a.npy was written to while it was read"
}
