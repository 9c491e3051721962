/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of experiments that are refused, and the sentences that say why.
 */
#include "unit/test.h"

#include "unit/graph/refused.h"

static const struct {
    const char *text, *sentence;
    const char *overrides[5];
} files[] = {
    {"jobs: {a: {run: x, afer: b}}", "f:1:20: unknown key 'afer' of a job (did you mean 'after'?)"},
    {"jobs: {a: {run: x}, a: {run: y}}",
     "f:1:21: the key 'a' is in line 1 already; remove one of them"},
    {"job: {}", "f:1:1: unknown key 'job' of the file (did you mean 'jobs'?)"},
    {"jobs: {}", "f:1:7: there are no jobs; `jobs` is a mapping of stages, as {train: {run: …}}"},
    {"[1]", "f:1:1: expected a mapping with `jobs`, found a list"},
    {"jobs: {a: x}", "f:1:11: expected a mapping for a job, found a text"},
    {"jobs: {a: {run: x, run: y}}",
     "f:1:20: the key 'run' is in line 1 already; remove one of them"},
    {"jobs: {a: {cpus: 1}}", "f:1:8: 'a' has no `run`, `map`, `launch` or `merge`"},
    {"jobs: {a: {run: x, map: {}}}",
     "f:1:25: a job has both 'run' and 'map'; make two stages of it"},
    {"jobs: {a: {run: x, after: b, needs: c}}",
     "f:1:27: 'needs' and 'after' are two names of one key; use one of them"},
    {"jobs: {a: {run: \"x {famly}\"}}\n"
     "vars: {family: [a]}",
     "f:1:17: {famly} is no variable (did you mean 'family'?); braces that stand for themselves "
     "are doubled: {{famly}}"},
    {"jobs: {a: {run: \"x {family}\"}}\n"
     "vars: {family: [a]}",
     "f:1:17: {family} is a list of values, and no variable of 'a'; add it to its `for`"},
    {"jobs: {a: {run: \"x\", out: \"{gpu}\"}}",
     "f:1:27: {gpu} is known only when a job runs; it can stand in commands and in `env`"},
    {"jobs: {a: {run: \"awk {print $1}\"}}",
     "f:1:17: a single { has to be a part of a {name}; braces that stand for themselves are "
     "doubled: {{ and }}"},
    {"jobs: {a: {run: \"echo 'a\"}}", "f:1:17: 'echo 'a': a quote is not closed"},
    {"jobs: {a: {run: \"\"}}", "f:1:17: 'run': no command stands here"},
    {"jobs: {a: {run: []}}", "f:1:17: 'run': no command stands here"},
    {"jobs: {a: {run: x, memory: 1}}",
     "f:1:20: unknown key 'memory' of a job; the memory of a device is gpus: {memory: …}"},
    {"vars: {gpu: 1}\n"
     "jobs: {a: {run: x}}",
     "f:1:8: 'gpu' cannot be the name of a variable: {gpu} is filled in when a job runs; choose "
     "another name"},
    {"vars: {a-b: 1}\n"
     "jobs: {a: {run: x}}",
     "f:1:8: 'a-b' cannot be the name of a variable: a letter, then letters, digits and _, at "
     "most 64"},
    {"vars: {a: \"{b}\", b: \"{a}\"}\n"
     "jobs: {a: {run: x}}",
     "f:1:11: the variable 'a' refers to itself; break the circle"},
    {"vars: {a: [1, 2], b: \"{a}\"}\n"
     "jobs: {a: {run: x}}",
     "f:1:22: {a} is a list; only a variable with one text can be a part of another"},
    {"vars: {a: 1..5..0}\n"
     "jobs: {a: {run: x}}",
     "f:1:11: the range 1..5..0 never ends; its step has to lead from the first number to the "
     "last"},
    {"vars: {a: 1..5000}\n"
     "jobs: {a: {run: x}}",
     "f:1:11: the range 1..5000 has more than 1000 values; make it smaller"},
    {"vars: {a: 1..100, b: 1..100}\n"
     "jobs: {a: {for: [a, b], run: x}}",
     "f:2:17: the values of 'a' have too many combinations: a file has at most 1000 jobs, and 16 "
     "combinations for each that are left out; use smaller lists, or `zip`"},
    {"vars: {a: 1..1000, b: 1..1000, c: 1..1000, d: 1..1000, e: 1..1000, f: 1..1000, g: "
     "1..1000}\n"
     "jobs: {a: {for: [a, b, c, d, e, f, g], when: a == b, run: x}}",
     "f:2:17: the values of 'a' have too many combinations: a file has at most 1000 jobs, and 16 "
     "combinations for each that are left out; use smaller lists, or `zip`"},
    {"vars: {a: 1..100, b: 1..100}\n"
     "jobs: {a: {for: [a, b], when: a <= b, run: x}}",
     "f:2:8: with the jobs of 'a' the file has more than 1000; make it smaller"},
    {"vars: {a: [x, y]}\n"
     "jobs: {a: {for: [a, b], run: x}}",
     "f:2:21: there is no variable 'b'; its values stand in `vars`"},
    {"vars: {a: [x, y]}\n"
     "jobs: {a: {for: [a, a], run: x}}",
     "f:2:21: 'a' stands twice in `for`; remove one of them"},
    {"jobs: {a: {for: {zip: {a: [1], b: [1, 2]}}, run: x}}",
     "f:1:23: the lists in `zip` have to be equally long: 'a' has 1, 'b' has 2"},
    {"vars: {a: [xray, y]}\n"
     "jobs: {a: {for: a, run: x, cpus: {xrya: 1}}}",
     "f:2:35: 'xrya' is no value of 'a' (did you mean 'xray'?)"},
    {"vars: {a: [x, y], b: [x, y]}\n"
     "jobs: {a: {for: [a, b], run: x, cpus: {x: 1}}}",
     "f:2:39: 'x' is a value of more than one of a and b; say which: {b: {…}}"},
    {"jobs: {a: {run: x, cpus: {x: 1}}}",
     "f:1:27: expected a number of CPUs, found a mapping with the key 'x'"},
    {"vars: {a: [x, y]}\n"
     "jobs: {a: {for: a, run: x, only: {a: z}}}",
     "f:2:38: 'z' is no value of 'a'"},
    {"vars: {a: [x, y]}\n"
     "jobs: {a: {for: a, run: x, exclude: {b: z}}}",
     "f:2:38: 'b' is no variable of 'a', which has a"},
    {"vars: {a: [x, y]}\n"
     "jobs: {a: {for: a, run: x, when: \"alog == x\"}}",
     "f:2:34: 'alog' is no variable; a text that is compared with another stands in quotes"},
    {"vars: {a: [x1, y1]}\n"
     "jobs: {a: {for: a, run: x, when: \"a == x2\"}}",
     "f:2:34: 'x2' is no value of 'a' (did you mean 'x1'?)"},
    {"vars: {a: [x1, y1]}\n"
     "jobs: {a: {for: a, run: x, when: \"a < 2\"}}",
     "f:2:34: in 'a < 2': 'x1' is no number"},
    {"vars: {a: [x1, y1]}\n"
     "jobs: {a: {for: a, run: x, when: \"a = x1\"}}",
     "f:2:34: in 'a = x1': expected ==, !=, <, <=, >, >= or `in`, found '='; write =="},
    {"vars: {a: [x1, y1]}\n"
     "jobs: {a: {for: a, run: x, when: \"a == x1 && a == y1\"}}",
     "f:2:34: in 'a == x1 && a == y1': expected `and`, `or` or the end, found '&&'; write `and`"},
    {"vars: {a: [x1, y1]}\n"
     "jobs: {a: {for: a, run: x, when: \"(a == x1\"}}",
     "f:2:34: in '(a == x1': expected ), found the end"},
    {"vars: {a: [x1, y1]}\n"
     "jobs: {a: {for: a, run: x, priority: \"a * 2\"}}",
     "f:2:38: in 'a * 2': 'x1' is no number"},
    {"vars: {a: 1..2}\n"
     "jobs: {a: {for: a, run: x, priority: \"aa * 2\"}}",
     "f:2:38: 'aa' is no variable (did you mean 'a'?)"},
    {"vars: {a: 1..2}\n"
     "jobs: {a: {for: a, run: x, priority: \"a * 2000\"}}",
     "f:2:8: the priority of 'a/a1' is 2000; it has to be within ±1000"},
    {"jobs: {a: {run: x, after: b}}", "f:1:27: there is no stage 'b'"},
    {"jobs: {rollouts: {run: x, after: rollout}}",
     "f:1:34: there is no stage 'rollout' (did you mean 'rollouts'?)"},
    {"jobs: {a: {run: x, after: a}}",
     "f:1:27: jobs need each other in a circle: 'a' needs 'a'; remove one of these needs"},
    {"jobs: {a: {run: x, after: b}, b: {run: x, after: c}, c: {run: x, after: b}}",
     "f:1:50: jobs need each other in a circle: 'b' needs 'c' needs 'b'; remove one of these "
     "needs"},
    {"vars: {m: [p, q]}\n"
     "jobs: {a: {for: m, only: {m: p}, run: x}, b: {for: m, run: x, after: a}}",
     "f:2:70: 'b/q' needs 'a' with m=q, and there is no such job; name what it needs by value, "
     "or leave one of the two out"},
    {"vars: {m: [p, q], n: [-1, 1]}\n"
     "jobs: {a: {for: n, run: x}, b: {for: n, run: x, after: {a: {n: -1}}}}",
     "f:2:64: -1 may be a value of 'n' or a distance in its list; a value is [-1]"},
    {"vars: {m: [p, q], n: [0, 1]}\n"
     "jobs: {a: {for: n, run: x}, b: {for: m, run: x, after: {a: {n: -1}}}}",
     "f:2:64: -1 counts from the job's own 'n', and 'b' has no such variable; add it to its `for`"},
    {"vars: {m: [p, q]}\n"
     "jobs: {p: {run: x}, b: {for: m, run: x, after: {p: p}}}",
     "f:2:48: 'p' is a stage and a value of 'm'; say which: {m: {…}} for the value, [{…}] for "
     "the stage"},
    {"vars: {m: [p, q]}\n"
     "jobs: {a: {for: m, run: x, out: o}}",
     "f: 'a/p' and 'a/q' (line 2) both leave 'o'; give each a path of its own, with the values "
     "in which they differ"},
    {"jobs: {a: {run: x, out: o/}, b: {run: x, out: ./o/../o/p/q}}",
     "f: 'b' leaves './o/../o/p/q', which is in 'o/', and that is left by 'a' (line 1); give "
     "them folders that are apart"},
    {"jobs: {a: {run: x, out: \"{{\"}, b: {run: x, cwd: /tmp, out: \"x\"}, c: {run: x, out: "
     "/tmp/x}}",
     "f: 'b' leaves 'x' and 'c' leaves '/tmp/x' (line 1), which is the same file; give each a path "
     "of its own, with the values in which they differ"},
    {"jobs: {a: {run: x, retries: many}}",
     "f:1:29: 'retries': expected a whole number, found 'many'"},
    {"jobs: {a: {run: x, timeout: 3 weeks}}",
     "f:1:29: 'timeout': expected a duration such as 90s or 2h, found '3 weeks'"},
    {"jobs: {a: {run: x, gpus: 1..}}",
     "f:1:26: 'gpus': expected a number such as 2, or 1..3, found '1..'"},
    {"jobs: {a: {run: x, gpus: {count: 0, memory: 3GiB}}}",
     "f:1:45: no device is asked for (count: 0), so there is nothing to have a part of"},
    {"jobs: {a: {run: x, gpus: {memory: lots}}}",
     "f:1:35: 'memory': expected a size such as 24GiB, or auto, found 'lots'"},
    {"jobs: {a: {run: x, shell: yes}}", "f:1:27: 'shell': expected true or false, found yes"},
    {"jobs: {a: {run: [x], shell: true}}",
     "f:1:17: with `shell: true`, 'run' is one text, found a list"},
    {"jobs: {a: {run: x, env: {A-B: 1}}}",
     "f:1:26: 'A-B' cannot be the name of a variable of the environment"},
    {"jobs: {a: {run: x, out: {count: 1}}}", "f:1:25: `out` has no `path`"},
    {"jobs: {a: {run: x, out: {path: a, pattern: b}}}",
     "f:1:44: `pattern` says which names `count` counts; add `count`"},
    {"jobs: {a: {run: x, out: {path: a, count: 2, pattern: b}}}",
     "f:1:32: `pattern` is about what is in a folder, and 'a' is a file; the path of a folder ends "
     "with a slash"},
    {"jobs: {a: {run: x, cwd: [b, c]}}", "f:1:25: 'cwd': expected a folder, found a list"},
    {"jobs: {a: {run: x, in: [b, \"\"]}}", "f:1:28: a path of what 'a' reads is empty"},
    {"jobs: {a: {run: x, gpus: 65}}",
     "f:1:26: 'gpus': a job can have at most 64 devices, found '65'"},
    {"jobs: {a: {run: x, gpus: {count: 70..80}}}",
     "f:1:34: 'count': a job can have at most 64 devices, found '70..80'"},
    {"jobs: {a: {run: x, out: {path: a/, json-has: b}}}",
     "f:1:32: `json-has` looks into a file, and 'a/' is a folder"},
    {"jobs: {a: {map: {worker: x, output: y}}}",
     "f:1:17: `map` has no `input`: the file of its items"},
    {"jobs: {a: {map: {worker: x, input: y}}}",
     "f:1:8: 'a' has no output; say where it goes with `out`"},
    {"jobs: {a: {map: {input: x, output: y}}}",
     "f:1:17: `map` has no `worker`: the command that it starts"},
    {"jobs: {a: {map: {worker: x, input: y, gpus: 2}}}",
     "f:1:39: the devices of a job are the job's own key `gpus`, beside `map`"},
    {"jobs: {a: {launch: {script: x, command: y}}}",
     "f:1:32: 'script' and 'command' exclude each other"},
    {"jobs: {a: {merge: {output: x}}}",
     "f:1:8: 'a' has no `inputs`, and needs no job that leaves a file"},
    {"jobs: {a/b: {run: x}}",
     "f:1:8: 'a/b' cannot be the name of a stage: letters, digits, _ and then - . +, at most 64"},
    {"version: 2\n"
     "jobs: {a: {run: x}}",
     "f:1:10: this muster reads version 1 of the format"},
    {"jobs: {a: {run: x}}\n"
     "---\n"
     "jobs: {}",
     "f:2:1: a second document begins here; a file has one"},
    {"jobs: {a: {run: !!str x}}",
     "f:1:23: a tag (!…) has no meaning here; remove it, or put the text in quotes"},
    {"jobs: {a: {run: *b}}", "f:1:18: there is no anchor &b before this"},
    {"a: &a [*a]", "f:1:9: *a stands inside of &a, which has no end"},
    {"a: &a [x,x,x,x,x,x,x,x,x,x]\n"
     "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
     "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
     "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
     "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
     "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
     "g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"
     "h: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g,*g]",
     "f:7:7: with its aliases filled in, the file has more than 16 million parts; make it "
     "smaller, with variables and ranges"},
    {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
     "f:1:33: lists and mappings are more than 32 deep; make them flatter"},
    {"? [a]\n"
     ": b",
     "f:1:3: a list is a key here; a key has to be a text"},
    {"jobs: {a: {run: \"\\0\"}}", "f:1:18: there is a NUL character in the text; remove it"},
    {"jobs: [a: b", "f:2:1: malformed YAML: flow sequence without a closing bracket"},
    {"jobs: {a: {run: python {x}}}",
     "f:1:24: malformed YAML: missing comma in flow mapping; inside of {…} and […], put a text "
     "that has one of {}[], in quotes"},
    {"a: b: c", "f:1:5: malformed YAML: invalid nested block mapping on the same line"},
    {"\ta: b", "f:1:1: malformed YAML: invalid tab as indendation in a mapping"},
    {"jobs: {a: {run: x}}",
     "override 'vars.n=1':1:1: there is no variable 'n' in 'f'",
     {"vars.n=1"}},
    {"vars: {m: 1}\n"
     "jobs: {a: {run: x}}",
     "'vars.m' is no override; it is written NAME=VALUE, as vars.round=1..3",
     {"vars.m"}},
    {"jobs: {a: {run: x}}",
     "override 'job.a.cpus=1':1:1: an override is vars.NAME=…, defaults.KEY=… or "
     "jobs.STAGE.KEY=… (did you mean 'jobs'?)",
     {"job.a.cpus=1"}},
    {"jobs: {a: {run: x}}",
     "override 'jobs.b.cpus=1':1:1: there is no stage 'b' in 'f'",
     {"jobs.b.cpus=1"}},
    {"jobs: {a: {run: x}}",
     "override 'jobs.a.cpsu=1':1:1: unknown key 'cpsu' of a job (did you mean 'cpus'?)",
     {"jobs.a.cpsu=1"}},
    {"vars: {m: 1}\n"
     "jobs: {a: {run: x}}",
     "override 'vars.m=[a':2:1: malformed YAML: flow sequence without a closing bracket",
     {"vars.m=[a"}},
    {"vars: {m: [p], k: {}}\n"
     "jobs: {a: {run: x}}",
     "f:1:19: expected a text, a list or a range, found a mapping"},
    {"jobs: {a: {for: {m: [p, q], include: [{m: z, n: 1}]}, run: x}}",
     "f:1:46: 'n' is no variable of 'a', which has m"},
    {"vars: {m: [p, q]}\n"
     "defaults: {cpus: {p: 1, q: 2}}\n"
     "jobs: {a: {run: x}}",
     "f:2:19: expected a number of CPUs, found a mapping with the key 'p'"},
    {"x-a: &a {run: x}\n"
     "jobs: {a: *a, b: {<<: 1}}",
     "f:2:23: '<<' takes a mapping, such as *name, found a text"},
    {"vars: {m: [p, q]}\n"
     "jobs: {a: {for: m, run: {p: x}}}",
     "f:2:8: 'a/q' has no command for its values; add \"*\""},
    {"vars: {m: [aa, bb]}\n"
     "jobs: {a: {for: {mm: [aa]}, run: x}, b: {run: x, after: {a: {mn: 1}}}}",
     "f:2:62: 'mn' is no variable of 'a', which has mm (did you mean 'mm'?)"},
    {"jobs: {a: {run: x, after: {a: 1}}}",
     "f:1:31: expected a mapping of variables to values for 'a', such as {round: -1}, found a "
     "text"},
    {"vars: {m: [1, 2]}\n"
     "jobs: {a: {for: m, run: x, cpus: {1: 1, 2: \"{m}x\"}}}",
     "f:2:44: 'cpus': expected a whole number, found '2x'"},
    {"jobs: {a: {run: x, when: \"'a' == b\"}}",
     "f:1:26: 'b' is no variable; a text that is compared with another stands in quotes"},
    {"jobs: {a: {run: x, when: \"not\"}}",
     "f:1:26: in 'not': expected a variable or a value, found the end"},
    {"jobs: {a: {run: x, out: [a, '']}}", "f:1:29: 'out': expected a text, found nothing"},
    {"jobs: {a: {run: x, hosts: {}}}",
     "f:1:27: expected a text or a list of texts, found a mapping in which nothing stands"},
    {"vars: {m: [a, b], n: [1, 2]}\njobs: {a: {for: [m, n], run: 'x', gpus: {}}}",
     "f:2:41: expected a number such as 2 or 1..3, a share such as 0.5, or {count, share, memory}, "
     "or a mapping by values of m and n, found a mapping in which nothing stands"},
    {"vars: [1]\n"
     "jobs: {a: {run: x}}",
     "f:1:7: expected a mapping of variables, found a list"},
    {"vars: {x: }\n"
     "jobs: {a: {run: x}}",
     "f:1:8: expected a value of a variable, found nothing; a value is a text"},
    {"vars: {e: ''}\n"
     "jobs: {a: {run: x, out: '{e}'}}",
     "f:2:25: the path of what 'a' leaves is empty"},
    {"jobs: {a: {run: x, name: y}}\n"
     "name: [a]",
     "f:2:7: expected a text, found a list"},
    {"jobs: {a: {run: x, priority: [1]}}",
     "f:1:30: expected a number, or an expression such as -10 * round, found a list"},
    {"jobs: {a: {run: x, priority: 1 + }}",
     "f:1:30: in '1 +': expected a variable or a value, found the end"},
    {"jobs: {a: {run: x, for: [[a]]}}",
     "f:1:26: expected the name of a variable, found a list; lists that advance together are "
     "{zip: […]}"},
    {"jobs: {a: {run: x, for: [{exclude: []}]}}",
     "f:1:27: 'exclude' stands beside `for`, not in its list"},
    {"vars: {m: [p]}\n"
     "jobs: {a: {for: m, run: x, include: {m: p}}}",
     "f:2:37: expected a list of mappings for `include`, found a mapping"},
    {"vars: {m: [p, q], n: [u, v]}\n"
     "jobs: {a: {for: [m, n], run: x, include: [{m: p}]}}",
     "f:2:43: 'n' is missing; `include` names all of m and n"},
    {"vars: {m: [p]}\n"
     "jobs: {a: {run: x, only: {mm: p}}}",
     "f:2:27: there is no variable 'mm' (did you mean 'm'?); 'a' has no `for`"},
    {"vars: {m: [pp]}\n"
     "jobs: {a: {run: x, only: {m: pq}}}",
     "f:2:30: 'pq' is no value of 'm' (did you mean 'pp'?)"},
    {"jobs: {a: {run: x, shell: true, in: {a: b}}}",
     "f:1:38: expected a path or a list of paths, found a mapping with the key 'a'"},
    {"jobs: {a: {run: x, gpus: {count: 1, shares: 2}}}",
     "f:1:37: unknown key 'shares' of `gpus` (did you mean 'share'?)"},
    {"jobs: {a: {map: {worker: x, input: y, --force: true}}}",
     "f:1:39: '--force' is no long option of muster map (without dashes)"},
    {"jobs: {a: {run: x}}",
     "override 'defaults=1':1:1: an override is vars.NAME=…, defaults.KEY=… or jobs.STAGE.KEY=… "
     "(did you mean 'defaults'?)",
     {"defaults=1"}},
    {"jobs: {a: {map: {worker: x, input: a, inputs: b, output: c}}}",
     "f:1:39: 'input' and 'inputs' are two names of one key"},
    {"jobs: {a: {map: [x]}}", "f:1:17: expected a mapping of options for `map`, found a list"},
    {"vars: {m: [p, q]}\n"
     "jobs: {a: {for: m, map: {worker: {p: x}, input: a, output: 'o{m}'}}}",
     "f:2:8: 'a/q' has no command for its values; add \"*\""},
    {"jobs: {a: {run: x, for: [{zip: a}]}}",
     "f:1:32: expected a list of variables, or a mapping of lists, for `zip`, found a text"},
    {"jobs: {a: {run: x, for: {a b: [1]}}}",
     "f:1:26: 'a b' cannot be the name of a variable: a letter, then letters, digits and _, at "
     "most 64"},
    {"jobs: {a: {run: x, when: \"'a\"}}", "f:1:26: in ''a' a quote is not closed"},
    {"vars: {l: [1, 2]}\n"
     "jobs: {a: {run: x, when: l == 1}}",
     "f:2:26: 'l' is a list of values, and no variable of 'a'; add it to its `for`"},
    {"jobs: {a: {run: x, for: {l: [1]}, when: l in 1}}",
     "f:1:41: in 'l in 1': expected a list, [a, b], found '1'"},
    {"jobs: {a: {run: x, for: {l: [1]}, when: 'l in [1, (]'}}",
     "f:1:41: in 'l in [1, (]': expected a variable or a value, found '('"},
    {"jobs: {a: {run: x, for: {l: [1]}, when: "
     "'((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((l == "
     "1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))'}}",
     "f:1:41: the condition is more than 64 deep"},
    {"jobs: {a: {run: x, priority: "
     "'((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1)))))))))))))))))))"
     ")))))))))))))))))))))))))))))))))))))))))))))))))))'}}",
     "f:1:30: the expression is more than 64 deep"},
    {"jobs: {a: {run: x, priority: '(1'}}", "f:1:30: in '(1': expected ), found the end"},
    {"jobs: {a: {run: x, priority: "
     "'1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+"
     "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
     "+1+1+1+1+1+1+1+1'}}",
     "f:1:30: the expression is longer than 4096 bytes"},
    {"jobs: {a: {run: x, env: {A: [1]}}}", "f:1:29: 'A': expected a text, found a list"},
    {"jobs: {a: {run: x, env: [A]}}",
     "f:1:25: expected a mapping of names to values for `env`, found a list"},
    {"vars: {m: [p]}\n"
     "jobs: {a: {for: m, run: x, cpus: {p: }}}",
     "f:2:35: 'cpus': expected a number of CPUs, found nothing"},
    {"vars: {m: [p]}\n"
     "jobs: {a: {for: m, run: x, only: {}}}",
     "f:2:34: expected a mapping of variables to values, such as {m: …}, found a mapping"},
    {"jobs: {a: {run: x, needs: [[b]]}}", "f:1:28: expected the name of a stage, found a list"},
    {"jobs: {a: {run: x, gpus: {share: 2}}}",
     "f:1:34: 'share': expected a share of a device such as 0.5, found '2'"},
    {"jobs: {a: {run: x, in: [[b]]}}", "f:1:25: 'in': expected a text, found a list"},
    {"jobs:\n"
     "  j0: {run: x, needs: j1}\n"
     "  j1: {run: x, needs: j2}\n"
     "  j2: {run: x, needs: j3}\n"
     "  j3: {run: x, needs: j4}\n"
     "  j4: {run: x, needs: j5}\n"
     "  j5: {run: x, needs: j6}\n"
     "  j6: {run: x, needs: j7}\n"
     "  j7: {run: x, needs: j8}\n"
     "  j8: {run: x, needs: j0}",
     "f:2:23: jobs need each other in a circle: 'j0' needs 'j1' needs 'j2' needs 'j3' needs 'j4' "
     "needs 'j5' needs … (3 more) needs 'j0'; remove one of these needs"},
    {"jobs: {a: {for: {m: [p], include: [{m: [q]}]}, run: x}}",
     "f:1:40: expected a value of 'm', found a list"},
    {"jobs: {a: {for: {m: [p], include: [q]}, run: x}}",
     "f:1:36: expected a mapping of variables to values, found a text"},
    {"jobs: {a: {for: {m: [r1, 1]}, run: x}, b: {for: {x: [1], y: [x=1, 1]}, run: x}, c: {for: "
     "{y: [1, y=1]}, run: x}}",
     "f: two jobs have the name 'c/y=1'; their values have to differ"},
    {"jobs: {a: {run: 'x {btach}'}}",
     "f:1:17: {btach} is no variable (did you mean 'batch'?); braces that stand for themselves "
     "are doubled: {{btach}}"},
    {"jobs:\n"
     "  a: {run: x, out: o}\n"
     "  b: {run: x, out: o}",
     "f: 'a' and 'b' (lines 2 and 3) both leave 'o'; give each a path of its own, with the "
     "values in which they differ"},
    {"x-a: {<<: [1]}\n"
     "jobs: {a: {run: x}}",
     "f:1:12: '<<' takes mappings, found a text"},
    {"jobs: {a: {run: x, for: {m: 1..2}, needs: {a: {m: -1}}, cpus: {x: 1, m: 2}}}",
     "f:1:64: expected a number of CPUs, or a mapping by values of m, found a mapping with the "
     "key 'x'"},
    {"jobs: {a: {run: x, for: {m: [aa, bb]}, needs: {aa: a, bbb: a}}}",
     "f:1:55: 'bbb' is no value of 'm' (did you mean 'bb'?)"},
    {"jobs: {a: {run: x, cwd: [a], hosts: [], gpus: -1}}",
     "f:1:47: 'gpus': expected a number such as 2, or 1..3, found '-1'"},
    {"jobs: {a: {run: x, gpus: 0.0001}}",
     "f:1:26: 'gpus': expected a share of a device such as 0.5, found '0.0001'"},
    {"jobs: {a: {run: x, timeout: 0}}",
     "f:1:29: 'timeout': no time at all; leave it out for no limit"},
};

static void files_are_refused_with_a_place_and_a_cure(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(files); i++) {
        struct graph_file_opts opts = {files[i].overrides, 0};
        while (files[i].overrides[opts.n_overrides])
            opts.n_overrides++;
        check_refused(str_of(files[i].text), &opts, files[i].sentence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_refused_with_a_place_and_a_cure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
