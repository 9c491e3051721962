/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of experiments: what they say, and the jobs that come of it, one a line (plan_text.h).
 */
#include "unit/test.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "graph/file/file.h"
#include "unit/graph/plan_text.h"

enum {
    JOBS_MAX = 1000
};

static const struct {
    const char *text, *jobs;
    const char *overrides[5];
} files[] = {
    {"jobs: {a: {run: \"echo 'a b' c\\\\ d\"}}", "a: echo a b c d"},
    {"jobs: {a: {run: ['it''s', 'a''''b', '''''''', ' x\n"
     "  y\n"
     "\n"
     "\n"
     "  z ', \"q\\x41\"]}}",
     "a: it's a''b '''  x y\n"
     "\n"
     "z  qA"},
    {"jobs: {a: {run: [echo, \"a b\", \"{{x}}\"]}}", "a: echo a b {{x}}"},
    {"jobs: {a: {run: \"echo {{x}} ${{HOME}} {gpu} {batch}\", shell: true, env: {X: "
     "\"{{}}{seed}\", Y: }}}",
     "a: sh -c echo {{x}} ${{HOME}} {gpu} {batch} env:X={{}}{seed} env:Y"},
    {"vars: {base: runs, run: \"{base}/p\", x: [\"{run}/1\", b]}\n"
     "jobs: {a: {for: x, run: \"t {x}\", out: \"{run}/{{{x}}}\"}}",
     "a/runs%2Fp%2F1: t runs/p/1 > runs/p/{runs/p/1}\n"
     "a/b: t b > runs/p/{b}"},
    {"vars: {i: 0..4..2, j: 3..1, e: [0.5, 1.0], s: [a/b, \"1\", .x]}\n"
     "jobs: {a: {for: i, run: x}, b: {for: [j], run: x}, c: {for: [e], run: x}, d: {for: s, run: "
     "x}}",
     "a/i0: x\n"
     "a/i2: x\n"
     "a/i4: x\n"
     "b/j3: x\n"
     "b/j2: x\n"
     "b/j1: x\n"
     "c/e=0.5: x\n"
     "c/e=1.0: x\n"
     "d/a%2Fb: x\n"
     "d/1: x\n"
     "d/%2Ex: x"},
    {"vars: {rank: 1..2, round: 1..1}\n"
     "jobs: {a: {for: [rank, round], run: x}}",
     "a/rank=1,round=1: x\n"
     "a/rank=2,round=1: x"},
    {"jobs: {a: {for: {m: [p, q], n: 1..2, exclude: [{m: p, n: 2}], include: [{m: z, n: 9}]}, "
     "run: \"x {m} {n}\"}}",
     "a/p,n1: x p 1\n"
     "a/q,n1: x q 1\n"
     "a/q,n2: x q 2\n"
     "a/z,n9: x z 9"},
    {"vars: {a: [1, 2], b: [x, y]}\n"
     "jobs: {s: {for: [{zip: [a, b]}], run: \"x {a} {b}\"}, t: {matrix: {zip: {p: [1, 2], q: [u, "
     "v]}, w: [k]}, run: \"x {p} {q} {w}\"}}",
     "s/a=1,x: x 1 x\n"
     "s/a=2,y: x 2 y\n"
     "t/p=1,u,k: x 1 u k\n"
     "t/p=2,v,k: x 2 v k"},
    {"vars: {m: [p, q, r], n: 1..4}\n"
     "jobs:\n"
     "  a: {for: [m, n], when: \"m == p and (n > 2 or n in [1]) or not (m != q) and n not in [1, "
     "2, 3]\", run: x}\n"
     "  b: {for: [m, n], only: {m: [q, r], n: 1..2}, exclude: {m: q, n: [1]}, run: x}",
     "a/p,n1: x\n"
     "a/p,n3: x\n"
     "a/p,n4: x\n"
     "a/q,n4: x\n"
     "b/q,n2: x\n"
     "b/r,n1: x\n"
     "b/r,n2: x"},
    {"vars: {m: [p, q], n: 1..3}\n"
     "jobs:\n"
     "  a: {for: [m, n], run: x}\n"
     "  b: {for: [m, n], run: x, after: a}",
     "a/p,n1: x\n"
     "a/p,n2: x\n"
     "a/p,n3: x\n"
     "a/q,n1: x\n"
     "a/q,n2: x\n"
     "a/q,n3: x\n"
     "b/p,n1: x <- a/p,n1\n"
     "b/p,n2: x <- a/p,n2\n"
     "b/p,n3: x <- a/p,n3\n"
     "b/q,n1: x <- a/q,n1\n"
     "b/q,n2: x <- a/q,n2\n"
     "b/q,n3: x <- a/q,n3"},
    {"vars: {m: [p, q], n: 1..2}\n"
     "jobs:\n"
     "  a: {for: [m, n], run: x}\n"
     "  all: {run: x, needs: a}\n"
     "  m: {for: m, run: x, needs: a}\n"
     "  last: {for: m, run: x, needs: {a: {n: 2}}}\n"
     "  other: {for: m, run: x, needs: {a: {n: [1], m: \"*\"}}}\n"
     "  next: {for: [m, n], run: x, needs: [{next: {n: -1}}, all, {p: last, q: other}]}",
     "a/p,n1: x\n"
     "a/p,n2: x\n"
     "a/q,n1: x\n"
     "a/q,n2: x\n"
     "m/p: x <- a/p,n1 a/p,n2\n"
     "last/p: x <- a/p,n2\n"
     "other/p: x <- a/p,n1 a/q,n1\n"
     "other/q: x <- a/p,n1 a/q,n1\n"
     "all: x <- a/p,n1 a/p,n2 a/q,n1 a/q,n2\n"
     "m/q: x <- a/q,n1 a/q,n2\n"
     "last/q: x <- a/q,n2\n"
     "next/p,n1: x <- last/p all\n"
     "next/q,n1: x <- other/q all\n"
     "next/p,n2: x <- last/p all next/p,n1\n"
     "next/q,n2: x <- other/q all next/q,n1"},
    {"vars: {m: [p, q, r], n: 1..2}\n"
     "defaults: {gpus: 1, retries: 2, timeout: {p: 1h, \"*\": 90s}, batch: {p: 2, q: \"{n}\"}, "
     "cpus: 3}\n"
     "jobs:\n"
     "  a: {for: [m, n], run: {p: x, \"*\": y}, gpus: {q: 0, r: {count: 1..2, share: 0.25, "
     "memory: {n: {1: auto, \"*\": 1GiB}}}}, priority: {q: \"-10 * n + 3\", \"*\": high}}",
     "a/p,n1: x cpus=3 priority=10 retries=2 timeout=3600s batch=2\n"
     "a/p,n2: x cpus=3 priority=10 retries=2 timeout=3600s batch=2\n"
     "a/q,n1: y gpus=0 cpus=3 priority=-7 retries=2 timeout=90s batch=1\n"
     "a/q,n2: y gpus=0 cpus=3 priority=-17 retries=2 timeout=90s batch=2\n"
     "a/r,n1: y gpus=1..2 share=250 memory=auto cpus=3 priority=10 retries=2 timeout=90s\n"
     "a/r,n2: y gpus=1..2 share=250 memory=1024M cpus=3 priority=10 retries=2 timeout=90s"},
    {"jobs: {a: {run: x, timeout: 1h, cwd: /w, hosts: [n1, \"n*\"], in: [a, b], out: [p, {path: "
     "d/, count: 3, pattern: \"*.pt\"}, {path: j.json, json-has: k}], gpus: 0.5, priority: low, "
     "env: {A: 1}}}",
     "a: x > p > d/(count 3)(pattern *.pt) > j.json(json-has k) share=500 priority=-10 "
     "timeout=3600s env:A=1 in:a in:b cwd=/w hosts=n1,n*"},
    {"defaults: {env: {A: 1, B: 2}, run: echo}\n"
     "jobs: {a: {env: {B: {\"*\": 3}}}, b: {run: x}}",
     "a: echo env:A=1 env:B=3\n"
     "b: x env:A=1 env:B=2"},
    {"vars: {s: 1..2}\n"
     "jobs:\n"
     "  part: {for: s, map: {worker: \"w.py {s} {start} {{end}} {batch}\", input: [a.jsonl, "
     "\"b{s}\"], force: true, join: false, timeout: 5m, batch-size: {1: 3, \"*\": 4}}, out: "
     "\"p{s}\"}\n"
     "  all: {merge: {dedupe: id}, needs: part, out: \"all{{}}\"}\n"
     "  one: {merge: {inputs: [a, b], output: c}}\n"
     "  t: {launch: {nproc-per-node: 2, script: \"t.py --x {s}\"}, for: s}\n"
     "  u: {launch: {command: \"./t\"}}",
     "part/s1: {muster} map --output=p1 --force --force --timeout=5m --batch-size=3 a.jsonl b1 -- w.py 1 "
     "{{start}} {{{{end}}}} {batch} > p1\n"
     "part/s2: {muster} map --output=p2 --force --force --timeout=5m --batch-size=4 a.jsonl b2 -- w.py 2 "
     "{{start}} {{{{end}}}} {batch} > p2\n"
     "one: {muster} merge --output=c --force a b > c\n"
     "t/s1: {muster} launch --nproc-per-node=2 t.py --x 1\n"
     "t/s2: {muster} launch --nproc-per-node=2 t.py --x 2\n"
     "u: {muster} launch --no-python ./t\n"
     "all: {muster} merge --output=all{{}} --force --dedupe=id p1 p2 <- part/s1 part/s2 > all{}"},
    {"vars: {m: [p, q]}\n"
     "jobs: {a: {for: m, run: x, batch: {p: 1, q: 2}, only: {m: [p, q]}}}",
     "a/q: x gpus=1..3 retries=3 batch=2",
     {"vars.m=[q]", "jobs.a.retries=3", "defaults.gpus=1..3"}},
    {"vars: {b: &l [1, 2]}\n"
     "jobs: {a: &a {run: x, for: {c: *l}}, b: {<<: *a, cpus: 2}, c: {<<: [{run: y}, *a]}}",
     "a/c=1: x\n"
     "a/c=2: x\n"
     "b/c=1: x cpus=2\n"
     "b/c=2: x cpus=2\n"
     "c/c=1: y\n"
     "c/c=2: y"},
    {"vars: {n: 1..2}\n"
     "jobs:\n"
     "  a: {run: x}\n"
     "  b: {run: x, after: {\"*\": a}}\n"
     "  c: {run: x, after: []}\n"
     "  d: {for: {n: }, run: x, after: {a: , b: }}",
     "a: x\n"
     "c: x\n"
     "b: x <- a\n"
     "d/n1: x <- a b\n"
     "d/n2: x <- a b"},
    {"vars: {x: [1, 2], y: [1.0, 2.0]}\n"
     "jobs: {a: {for: x, run: x}, b: {for: {x: [1.0, 2.00]}, run: x, after: a}}",
     "a/x=1: x\n"
     "a/x=2: x\n"
     "b/x=1.0: x <- a/x=1\n"
     "b/x=2.00: x <- a/x=2"},
    {"vars: {x: [a]}\n"
     "jobs: {a: {for: {long: "
     "[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]}, run: x}}",
     "a/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "a@fa240accc40b8987: x"},
    {"jobs: {a: {for: {m: [r1], n: 1..1, include: [{m: x, n: y}]}, run: x}}", "a/r1,n1: x\n"
                                                                              "a/x,y: x"},
    {"vars: {m: [p, q]}\n"
     "defaults: {cpus: {p: 1, \"*\": 2}}\n"
     "jobs: {a: {run: x}}",
     "a: x cpus=2"},
    {"vars: {mode: fast}\n"
     "jobs: {a: {run: x, only: {mode: full}}, b: {run: y, only: {mode: [full, fast]}}}",
     "b: y"},
    {"x-a: &a {run: x}\n"
     "version: 1\n"
     "name: n\n"
     "jobs: {a: *a, b: {<<: *a, cpus: 2}}",
     "a: x\n"
     "b: x cpus=2"},
    {"vars: {m: [p, q], n: [1, 2]}\n"
     "jobs: {a: {for: [m, n], run: x, only: [{m: p}, {n: 2}], exclude: [{m: p, n: 2}]}, b: {run: "
     "x, only: {m: q}}, c: {run: x, only: {m: \"*\"}}}",
     "a/p,n=1: x\n"
     "a/q,n=2: x\n"
     "b: x\n"
     "c: x"},
    {"vars: {m: [p, q]}\n"
     "jobs: {b: {run: x, only: {m: q}}, a: {for: m, run: x, after: {q: b}, env: {W: {q: 1}}}}",
     "a/p: x",
     {"vars.m=[p]"}},
    {"vars: {m: [p, q], k: 3}\n"
     "jobs: {a: {for: m, run: x, when: \"k >= 3.0 and m in [p, q] and 'p' == m\"}, b: {run: x, "
     "when: \"k < 2\"}, c: {run: x, when: \"false or true\"}}",
     "a/p: x\n"
     "c: x"},
    {"vars: {m: [p], n: [1]}\n"
     "jobs: {a: {run: x, cwd: /sub/../x, out: a}, b: {run: x, cwd: /other, out: a}, c: {run: x, "
     "out: [d/, d/e]}}",
     "a: x > a cwd=/sub/../x\n"
     "b: x > a cwd=/other\n"
     "c: x > d/ > d/e"},
    {"vars: {a: \"{{x}}\", b: [u v, \"q'\"]}\n"
     "jobs: {a: {for: b, run: \"echo {a} {b}\", shell: true, out: \"{a}{b}\"}, b: {for: b, run: "
     "\"echo {a} {b}\"}}",
     "a/u%20v: sh -c echo {{x}} u v > {x}u v\n"
     "a/q%27: sh -c echo {{x}} q' > {x}q'\n"
     "b/u%20v: echo {{x}} u v\n"
     "b/q%27: echo {{x}} q'"},
    {"vars: {r: 1..3, m: [p, q]}\n"
     "jobs:\n"
     "  gen: {for: [m, r], run: g, after: {fit: {r: -1, m: [p]}}}\n"
     "  fit: {for: [m, r], run: f, needs: gen}\n"
     "  look: {for: r, run: l, needs: [{gen: {r: +1}}, {1: fit}]}",
     "gen/p,r1: g\n"
     "gen/q,r1: g\n"
     "look/r3: l\n"
     "fit/p,r1: f <- gen/p,r1\n"
     "fit/q,r1: f <- gen/q,r1\n"
     "gen/p,r2: g <- fit/p,r1\n"
     "gen/q,r2: g <- fit/p,r1\n"
     "fit/p,r2: f <- gen/p,r2\n"
     "fit/q,r2: f <- gen/q,r2\n"
     "look/r1: l <- fit/p,r1 fit/q,r1 gen/p,r2 gen/q,r2\n"
     "gen/p,r3: g <- fit/p,r2\n"
     "gen/q,r3: g <- fit/p,r2\n"
     "fit/p,r3: f <- gen/p,r3\n"
     "fit/q,r3: f <- gen/q,r3\n"
     "look/r2: l <- gen/p,r3 gen/q,r3"},
    {"vars: {r: 1..2, m: [p, q]}\n"
     "jobs:\n"
     "  a: {for: [m, r], run: x}\n"
     "  b: {for: m, run: x}\n"
     "  c: {for: m, run: x, needs: [{a: {r: 2}}, b]}\n"
     "  d: {for: m, run: x, needs: [b, c], only: {m: \"*\"}}\n"
     "  e: {for: [m, r], run: x, when: \"(r == 1)\", needs: {e: {r: -1}, a: {m: [p, q], r: 1}}}",
     "a/p,r1: x\n"
     "a/p,r2: x\n"
     "a/q,r1: x\n"
     "a/q,r2: x\n"
     "b/p: x\n"
     "b/q: x\n"
     "e/p,r1: x <- a/p,r1 a/q,r1\n"
     "e/q,r1: x <- a/p,r1 a/q,r1\n"
     "c/p: x <- a/p,r2 b/p\n"
     "c/q: x <- a/q,r2 b/q\n"
     "d/p: x <- b/p c/p\n"
     "d/q: x <- b/q c/q"},
    {"vars: {b: 2, m: [p, q]}\n"
     "jobs:\n"
     "  a: {for: [m], run: x, gpus: {memory: 1GiB}, priority: \"-(2 + b) * 3\", hosts: \"{m}*\", "
     "in: \"{m}\"}\n"
     "  b: {for: [m], run: x, gpus: {share: 1, count: 2}, hosts: [\"{m}\", k], timeout: 1m}",
     "a/p: x memory=1024M priority=-12 in:p hosts=p*\n"
     "a/q: x memory=1024M priority=-12 in:q hosts=q*\n"
     "b/p: x gpus=2 timeout=60s hosts=p,k\n"
     "b/q: x gpus=2 timeout=60s hosts=q,k"},
    {"jobs: {a: {for: {m: [p, q], exclude: {m: p}, include: [{m: p}, {m: p}, {m: q}, {m: z}, {m: "
     "z}, {m: y}]}, run: \"x {m}\"}}",
     "a/q: x q\n"
     "a/p: x p\n"
     "a/z: x z\n"
     "a/y: x y"},
    {"defaults: {cpus: 7}\n"
     "jobs: {a: {run: x, env: {Y: 2}}, a.b: {run: y}}",
     "a: x env:Y env:X=1\n"
     "a.b: y cpus=2",
     {"jobs.a.b.cpus=2", "jobs.a.env.X=1", "jobs.a.env.Y=", "defaults.cpus="}},
    {"vars: {m: [\"{nothing}\", p]}\n"
     "jobs: {a: {for: m, run: x}}",
     "a/q: x\n"
     "a/r: x",
     {"vars.m=[q, r]"}},
    {"vars: {r: 1..2}\n"
     "jobs: {a: {for: {rr: 1..2, ry: 1..1}, run: x}, b: {for: r, run: x}, c: {for: {rr: 1..1}, "
     "run: x}}",
     "a/rr=1,ry=1: x\n"
     "a/rr=2,ry=1: x\n"
     "b/r1: x\n"
     "b/r2: x\n"
     "c/rr=1: x"},
    {"vars: {\"m\": [p]}\n"
     "jobs: {a: {for: m, run: x, needs: {\"m\": {p: b}}}, b: {run: x}, c: {for: {m: [p, b]}, "
     "run: x, needs: [{b: {}}]}}",
     "b: x\n"
     "a/p: x <- b\n"
     "c/p: x <- b\n"
     "c/b: x <- b"},
};

static void files_become_jobs(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(files); i++) {
        struct graph_file_opts opts = {files[i].overrides, 0};
        struct plan plan;
        struct err err = {0};
        cleanup_buf struct buf jobs = BUF_INIT;
        while (files[i].overrides[opts.n_overrides])
            opts.n_overrides++;
        if (graph_text_read("f", str_of(files[i].text), &opts, JOBS_MAX, &plan, &err))
            fail_msg("%s\n%s", files[i].text, err.text);
        plan_describe(&plan, &jobs);
        if (!str_equal(buf_str(&jobs), str_of(files[i].jobs)))
            fail_msg("%s\nbecame\n%s\nnot\n%s", files[i].text, buf_text(&jobs), files[i].jobs);
        plan_release(&plan);
    }
}

/* ---- the file of 25 chains ---- */

static void fixture_read(const struct graph_file_opts *opts, struct plan *plan)
{
    struct err err = {0};
    if (graph_file_read(FIXTURES "/graph/pita.yaml", opts, plan, &err))
        fail_msg("%s", err.text);
}

static const struct plan_job *job_of(const struct plan *plan, const char *name)
{
    uint32_t number = plan_find(plan, name);
    if (number == UINT32_MAX)
        fail_msg("there is no job '%s'", name);
    return &plan->jobs[number];
}

/* The only need of a job; NULL: it needs nothing. */
static const char *need_of(const struct plan *plan, const char *name)
{
    const struct plan_job *job = job_of(plan, name);
    assert_in_range(job->n_needs, 0, 1);
    return job->n_needs > 0 ? plan->jobs[job->needs[0]].name : NULL;
}

static void stages_have_the_jobs_of_25_chains(void **state)
{
    (void)state;
    static const struct plan_stage wanted[] = {
        {"rollouts", 50}, {"rescore", 50}, {"train", 150}, {"evaluate", 600}, {"base", 25}};
    struct plan plan;
    fixture_read(NULL, &plan);
    assert_int_equal(plan.n_stages, countof(wanted));
    for (size_t i = 0; i < countof(wanted); i++) {
        assert_string_equal(plan.stages[i].name, wanted[i].name);
        assert_int_equal(plan.stages[i].n_jobs, wanted[i].n_jobs);
    }
    assert_int_equal(plan.n_jobs, 875);
    /* 25 rollouts of round 2, and one need of each of the others but base */
    assert_int_equal(plan.n_edges, 25 + 50 + 150 + 600);
    plan_release(&plan);
}

static void chains_need_what_their_algorithm_needs(void **state)
{
    (void)state;
    static const char *const needs[][2] = {
        {"rollouts/phi,MATH,r1", NULL},
        {"rollouts/phi,MATH,r2", "train/phi,MATH,PITA,r1"},
        {"rescore/gemma,TLDR,r2", "rollouts/gemma,TLDR,r2"},
        {"train/phi,MATH,PITA,r1", "rollouts/phi,MATH,r1"},
        {"train/qwen3,TLDR,QSharp,r2", "rollouts/qwen3,TLDR,r2"},
        {"train/phi,MATH,QSharp-HF,r2", "rescore/phi,MATH,r2"},
        {"evaluate/phi,MATH,PITA,r1,eta=1.0", "train/phi,MATH,PITA,r1"},
        {"base/llama-old,GSM8K", NULL},
    };
    struct plan plan;
    fixture_read(NULL, &plan);
    for (size_t i = 0; i < countof(needs); i++) {
        const char *need = need_of(&plan, needs[i][0]);
        if (!need != !needs[i][1] || (need && strcmp(need, needs[i][1]) != 0))
            fail_msg("%s needs %s", needs[i][0], need ? need : "nothing");
    }
    for (uint32_t i = 0; i < plan.n_jobs; i++)
        for (uint32_t k = 0; k < plan.jobs[i].n_needs; k++)
            assert_true(plan.jobs[i].needs[k] < i);
    assert_true(job_of(&plan, "rollouts/gemma,MATH,r1")->devices.mem_bytes == 24ull << 30);
    assert_true(job_of(&plan, "rollouts/phi,MATH,r1")->devices.mem_bytes == 70ull << 30);
    assert_true(job_of(&plan, "rollouts/qwen3,MATH,r1")->devices.mem_bytes == 40ull << 30);
    plan_release(&plan);
}

static void values_that_an_override_takes_away_may_stay_written(void **state)
{
    (void)state;
    static const char *const texts[] = {"vars.algo=[PITA]", "vars.family=[phi]", "vars.round=2"};
    const struct graph_file_opts opts = {texts, countof(texts)};
    struct plan plan;
    fixture_read(&opts, &plan);
    assert_int_equal(plan.stages[1].n_jobs, 0);
    assert_int_equal(plan.stages[2].n_jobs, 5);
    assert_int_equal(plan.stages[3].n_jobs, 20);
    assert_null(need_of(&plan, "rollouts/phi,MATH,r2"));
    plan_release(&plan);
}

/* ---- what the tables cannot say ---- */

static void a_relative_cwd_is_below_the_working_folder(void **state)
{
    (void)state;
    struct plan plan;
    struct err err = {0};
    cleanup_free char *cwd = path_cwd();
    cleanup_free char *wanted = path_join(cwd, "sub");
    assert_int_equal(
        graph_text_read("f", STR("jobs: {a: {run: x, cwd: sub}}"), NULL, JOBS_MAX, &plan, &err), 0);
    assert_string_equal(plan.jobs[0].cwd, wanted);
    assert_int_equal(plan.jobs[0].line, 1);
    plan_release(&plan);
}

static void names_are_found_and_others_are_not(void **state)
{
    (void)state;
    struct plan plan;
    struct err err = {0};
    struct str text = STR("jobs: {a: {run: x, for: {i: 1..300}}}");
    assert_int_equal(graph_text_read("f", text, NULL, JOBS_MAX, &plan, &err), 0);
    for (uint32_t i = 0; i < plan.n_jobs; i++)
        assert_int_equal(plan_find(&plan, plan.jobs[i].name), i);
    assert_int_equal(plan_find(&plan, "a/i301"), UINT32_MAX);
    assert_int_equal(plan_find(&plan, "a"), UINT32_MAX);
    plan_release(&plan);
    assert_int_equal(plan_find(&plan, "a"), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_become_jobs),
        cmocka_unit_test(stages_have_the_jobs_of_25_chains),
        cmocka_unit_test(chains_need_what_their_algorithm_needs),
        cmocka_unit_test(values_that_an_override_takes_away_may_stay_written),
        cmocka_unit_test(a_relative_cwd_is_below_the_working_folder),
        cmocka_unit_test(names_are_found_and_others_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
