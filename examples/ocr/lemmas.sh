#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lemmas.sh [COUNT]: COUNT lemmas of WordNet (default 2000) as JSONL, {"lemma":"paper
# clip","pos":"n"}, spread evenly over nouns, verbs, adjectives and adverbs in the dictionary's own
# order: the same ones every time. Words of 4 to 20 small letters, collocations of at most three
# words with spaces. Debian: wordnet-base.
set -eu

count=${1:-2000}
dict=${WNSEARCHDIR:-/usr/share/wordnet}
if [ ! -r "$dict/index.noun" ]; then
    echo "lemmas.sh: $dict/index.noun is not there: install wordnet-base, or set WNSEARCHDIR" >&2
    exit 69
fi

for pos in noun verb adj adv; do
    cat "$dict/index.$pos"
done | LC_ALL=C awk -v count="$count" '
    /^ / { next }
    $1 ~ /^[a-z]+(_[a-z]+)?(_[a-z]+)?$/ && length($1) >= 4 && length($1) <= 20 && !seen[$1]++ {
        lemma[n++] = $1
        pos[n - 1] = $2
    }
    END {
        if (count > n) {
            print "lemmas.sh: WordNet has " n " such lemmas, not " count > "/dev/stderr"
            exit 1
        }
        for (i = 0; i < count; i++) {
            k = int(i * n / count)
            gsub("_", " ", lemma[k])
            printf "{\"lemma\":\"%s\",\"pos\":\"%s\"}\n", lemma[k], pos[k]
        }
    }'
