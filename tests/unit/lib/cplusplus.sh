#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The public headers in C++: each alone, without a warning; and one program that uses the library by all of them. It is
# skipped where there is no compiler.
#
#     cplusplus.sh INCLUDE-FOLDER LIBRARY
include=$1 library=$2
command -v c++ >/dev/null || { echo "skipped: there is no c++"; exit 77; }
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
set -- c++ -std=c++11 -pedantic -Wall -Wextra -Werror -I "$include"
{
    for header in "$include"/muster/*.h; do
        echo "#include <muster/${header##*/}>" | tee "$folder/alone.cpp"
        "$@" -fsyntax-only "$folder/alone.cpp" || exit 1
    done
    cat <<'END'
int main()
{
    struct muster_dist *dist = muster_dist_open(nullptr);
    struct muster_ddp *ddp = muster_ddp_new(dist, nullptr, 0, nullptr);
    struct muster_metrics *metrics = muster_metrics_new();
    struct muster_place place;
    uint64_t begin;
    float value = 3;
    muster_worker_place(&place);
    muster_dist_all_reduce(dist, &value, 1, MUSTER_FLOAT32, MUSTER_SUM);
    muster_metrics_free(metrics);
    muster_ddp_free(ddp);
    muster_dist_close(dist);
    return value == 3 && metrics && muster_share(10, 1, 2, &begin) == 5 && begin == 5 ? 0 : 1;
}
END
} >"$folder/all.cpp" || exit 1
"$@" "$folder/all.cpp" -o "$folder/all" "$library" -Wl,-rpath,"${library%/*}" && "$folder/all"
