/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of commands and the jobs that they are: the tests compare them with what list.c makes, and
 * with what GNU parallel makes where it is installed.
 */
#pragma once

#include <stdbool.h>

/* Each word of a job in brackets, a `/` behind each job. */
struct list_case {
    const char *words; /* as a shell would read them */
    const char *input; /* NULL: none */
    const char *jobs;
    bool is_own;   /* GNU parallel does it otherwise, for the reason that stands beside it */
    bool is_shell; /* the jobs are `sh -c`, and the words in brackets those that sh reads */
    bool has_header;
    const char *separator;
};

static const struct list_case list_cases[] = {
    /* products and links */
    {"echo {} ::: a b c", NULL, "[echo][a]/[echo][b]/[echo][c]/"},
    {"echo ::: a b", NULL, "[echo][a]/[echo][b]/"},
    {"echo {1} {2} ::: a b ::: 1 2", NULL, "[echo][a][1]/[echo][a][2]/[echo][b][1]/[echo][b][2]/"},
    {"echo x ::: a ::: 1 2", NULL, "[echo][x][a][1]/[echo][x][a][2]/"},
    {"echo {2} ::: a b ::: c", NULL, "[echo][c]/[echo][c]/"},
    {"echo {1} {2} ::: a b :::+ 1 2", NULL, "[echo][a][1]/[echo][b][2]/"},
    {"echo {1} {2} ::: a b c d :::+ 1 2", NULL, "[echo][a][1]/[echo][b][2]/"},
    {"echo {1} {2} ::: a b :::+ 1 2 3 4", NULL, "[echo][a][1]/[echo][b][2]/"},
    {"echo {1} {2} {3} ::: a b ::: x y z :::+ 1 2", NULL,
     "[echo][a][x][1]/[echo][a][y][2]/[echo][b][x][1]/[echo][b][y][2]/"},
    {"echo {1} {2} {3} ::: a b :::+ x y ::: 1 2", NULL,
     "[echo][a][x][1]/[echo][a][x][2]/[echo][b][y][1]/[echo][b][y][2]/"},
    {"echo {} ::: a :::+ x :::+ 1", NULL, "[echo][a][x][1]/"},
    {"echo {} :::", NULL, ""},
    {"::: ", NULL, ""},
    /* forms */
    {"echo {.} {/} {//} {/.} ::: /a/b.c/d.tar.gz a.b ./x.y dir.d/f a. .", NULL,
     "[echo][/a/b.c/d.tar][d.tar.gz][/a/b.c][d.tar]/[echo][a][a.b][.][a]/[echo][./x][x.y][.][x]/"
     "[echo][dir.d/f][f][dir.d][f]/[echo][a][a.][.][a]/[echo][][.][.][]/"},
    {"echo {.} {/} {//} {/.} ::: /x .hid a/.hid a/ / // a//b a/b// .. ''", NULL,
     "[echo][/x][x][/][x]/[echo][][.hid][.][]/[echo][a/][.hid][a][]/[echo][a/][][.][]/"
     "[echo][/][][/][]/[echo][//][][/][]/[echo][a//b][b][a][b]/[echo][a/b//][][a][]/"
     "[echo][.][..][.][.]/[echo][][][.][]/"},
    {"echo {1.} {2/} {1//} {2/.} {-1} {-2.} {01} ::: a/b.c ::: q/r.s", NULL,
     "[echo][a/b][r.s][a][r][q/r.s][a/b][a/b.c]/"},
    {"echo {.} {/} ::: a/b.c ::: d/e.f", NULL, "[echo][a/b][d/e][b.c][e.f]/"},
    {"echo x{}y {}{} ::: a ::: b", NULL, "[echo][xa][by][a][ba][b]/"},
    {"echo {#}{1}-{1} ::: a b", NULL, "[echo][1a-a]/[echo][2b-b]/"},
    {"echo {#} ::: a b", NULL, "[echo][1]/[echo][2]/"},
    {"echo {0#} {##} ::: a b c d e f g h i j", NULL,
     "[echo][01][10]/[echo][02][10]/[echo][03][10]/[echo][04][10]/[echo][05][10]/[echo][06][10]/"
     "[echo][07][10]/[echo][08][10]/[echo][09][10]/[echo][10][10]/"},
    {"echo {foo} { } {1 {1}} {{1}} {{}} {}} {1..} {+1} } { ::: a", NULL,
     "[echo][{foo}][{][}][{1][a}][{a}][{a}][a}][{1..}][{+1}][}][{]/"},
    {"echo ::: '{x}' '{}' '}{' '{1}'", NULL, "[echo][{x}]/[echo][{}]/[echo][}{]/[echo][{1}]/"},
    /* arguments stay what they are */
    {"echo ::: 'b c' \"it's\" 'x\"y' '$HOME' '' 'é' 'a*' '~' -n '#a' 'a\\b' '`x`' ';' '!'", NULL,
     "[echo][b c]/[echo][it's]/[echo][x\"y]/[echo][$HOME]/[echo][]/[echo][é]/[echo][a*]/[echo][~]/"
     "[echo][-n]/[echo][#a]/[echo][a\\b]/[echo][`x`]/[echo][;]/[echo][!]/"},
    {"'echo {} x' ::: 'b c' \"it's\" '$HOME' '' '{1}'", NULL,
     "[echo][b c][x]/[echo][it's][x]/[echo][$HOME][x]/[echo][][x]/[echo][{1}][x]/", false, true},
    {"'echo x' ::: 'b c' ::: d", NULL, "[echo][x][b c][d]/", false, true},
    {"'echo {1}; echo {}' ::: 'a b' ::: c", NULL, "[echo][a b;][echo][a b][c]/", false, true},
    /* whole commands */
    {"::: 'echo a' 'echo \"b c\"'", NULL, "[echo][a]/[echo][b c]/", false, true},
    {"{} ::: 'echo a' 'echo {}'", NULL, "[echo][a]/[echo][{}]/", false, true},
    {"::: echo printf ::: a b", NULL, "[echo][a]/[echo][b]/[printf][a]/[printf][b]/", false, true},
    {"", "echo a\necho {1} ${x}", "[echo][a]/[echo][{1}][${x}]/", false, true},
    /* GNU parallel would run an empty command */
    {"",
     "\xef\xbb\xbf"
     "echo a\r\n\r\n  \n# c\n  # c\necho b # x\r\n",
     "[echo][a]/[echo][b][#][x]/", true, true},
    {"", "", "", false, true},
    /* lines */
    {"echo", "a\n\n# c\nb c", "[echo][a]/[echo][]/[echo][# c]/[echo][b c]/"},
    {"echo {} - {#}", "a\nb\n", "[echo][a][-][1]/[echo][b][-][2]/"},
    {"echo {1} {2} :::: - ::: x", "a\nb\n", "[echo][a][x]/[echo][b][x]/"},
    {"echo {1} {2} ::: x y ::::+ -", "a\nb\n", "[echo][x][a]/[echo][y][b]/"},
    /* GNU parallel leaves the CR in the argument */
    {"echo", "a\r\nb\r\n", "[echo][a]/[echo][b]/", true},
    {"echo", "", ""},
    /* columns and headers */
    {"echo {2} {1}", "a,b,c\nd,e\n", "[echo][b][a]/[echo][e][d]/", .separator = ","},
    {"echo", "a,b,c\nd,e\n", "[echo][a][b][c]/[echo][d][e]/", .separator = ","},
    {"echo {3}-{1}", "a\tb\tc\nd\te\n", "[echo][c-a]/[echo][-d]/", .separator = "\\t"},
    {"echo {A} {B.} {A/} {1} ::: A a/b ::: B 1.1 2", NULL,
     "[echo][a/b][1][b][a/b]/[echo][a/b][2][b][a/b]/", .has_header = true},
    {"echo {y}-{x}", "x,y\n1,2\n3,4\n", "[echo][2-1]/[echo][4-3]/", .separator = ",",
     .has_header = true},
    {"echo {2}", "a--b-c\n", "[echo][b-c]/", .separator = "--"},
    /* names, which GNU parallel has from headers only */
    {"echo {a} {b} ::: a=1,2 b=x,y", NULL, "[echo][1][x]/[echo][1][y]/[echo][2][x]/[echo][2][y]/",
     true},
    {"echo {a} {b} {c} ::: a=1,2 b=x,y :::+ c=3,4", NULL,
     "[echo][1][x][3]/[echo][1][y][4]/[echo][2][x][3]/[echo][2][y][4]/", true},
    {"'echo {a}-{b.}' ::: a=1 b=x.y,", NULL, "[echo][1-x]/[echo][1-]/", true, true},
    {"echo {a} {2} {-1} ::: a=1 ::: x", NULL, "[echo][1][x][x]/", true},
    {"echo {seed} ::: seed=1,2", NULL, "[echo][1]/[echo][2]/", true},
    {"echo {} ::: a=1 b=2", NULL, "[echo][a=1]/[echo][b=2]/"},
    {"echo ${a} {} ::: a=1", NULL, "[echo][${a}][a=1]/"},
    {"echo {a} {3} ::: a=x--y ::: 1--2", NULL, "[echo][x--y][2]/", true, .separator = "--"},
    /* what is the run's: braces of a template stand single, all others double */
    {"train {gpu} {gpus} {gpu_uuid} {batch} {seed} {attempt} {job} {run_dir} {%} {slot} ::: a",
     NULL,
     "[train][{gpu}][{gpus}][{gpu_uuid}][{batch}][{seed}][{attempt}][{job}][{run_dir}][{slot}]"
     "[{slot}]/",
     true},
    {"train ${gpu} {muster} {} ::: '{gpu}'", NULL, "[train][${gpu}][{muster}][{gpu}]/"},
    /* without arguments there is nothing to replace; GNU parallel would wait for them */
    {"find . -exec rm {} {1} ';'", NULL, "[find][.][-exec][rm][{}][{1}][;]/", true},
};
