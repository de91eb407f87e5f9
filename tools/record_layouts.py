#!/usr/bin/env python3
"""Records layout problems with the right answers, for tests/cli/test_recorded_layouts.py.

Draws problems with the generator of the oracle's diff_layout.py, which asks LMCache's own code and
knows where it is wrong, and keeps one whenever it shows something that fewer than QUOTA of those
before it showed: a rule, an engine with a format or a refusal, a kind of question with its outcome.

Usage: record_layouts.py --oracle DIR --root DIR [--seed N] [--count N] [--quota N]
    DIR: of diff_layout.py; of the unzipped LMCache package. Writes tests/data/layout.
"""
import argparse
import collections
import gzip
import itertools
import json
import pathlib
import random
import sys

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/layout"
README = """# Recorded layouts

recorded.jsonl.gz: {kept} problems of `pagedkv layout`, each with what is right. The answers are
those of LMCache 0.5.6's own detection, run without a GPU, except where it is known to misread:
there they are those of the rule named. tools/record_layouts.py wrote it:

    record_layouts.py --oracle DIR --root DIR --seed {seed} --count {count} --quota {quota}

drew {count} random problems beside the fixed ones and kept those that show something new (the
script says what). Every line is `{{"problem": input, "rule": name, "codes": refusals that are
right, "good": answers that are right}}`; `codes` null: the input is malformed. Strides of axes of
size 1 do not count.

Problems of each rule:

{rules}
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--oracle", required=True, help="folder of diff_layout.py")
    parser.add_argument("--root", required=True, help="folder of the LMCache package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=6000)
    parser.add_argument("--quota", type=int, default=3)
    return parser.parse_args()


def public(x):
    """Without the fields that only the oracle uses."""
    if isinstance(x, dict):
        return {k: public(v) for k, v in x.items() if not k.startswith("_")}
    return [public(v) for v in x] if isinstance(x, list) else x


def shows(problem, rule, codes, good):
    """What a problem is an example of."""
    if codes is None:
        return {("malformed", json.dumps(problem)[:200])}
    where = problem.get("engine"), problem.get("structure"), problem.get("revision")
    marks = {("rule", rule, problem.get("engine"), bool(good))}
    marks |= {("refused", *where, code) for code in codes}
    for answer in good:
        marks |= {("format", *where, row["format"]) for row in answer.get("layers", [])}
        marks |= {("groups", len(answer.get("groups", [])))}
        for question, got in zip(problem.get("ask") or [], answer.get("answers", [])):
            marks.add(("asked", question["q"], question.get("what"), got.get("code")))
    return marks


def problems(oracle, diff, seed, count):
    for problem in diff.malformed():
        if not isinstance(problem, str):
            yield problem, ("bad-input", None, [])
    for problem in itertools.chain(diff.fixed(), diff.questions()):
        yield problem, diff.verdict(problem, oracle)
    draw = random.Random(seed)
    for _ in range(count):
        problem = diff.dressed(draw, diff.random_problem(draw))
        yield problem, diff.verdict(problem, oracle)


def main():
    args = arguments()
    sys.path.insert(0, args.oracle)
    import diff_layout as diff
    import lmcache_oracle
    oracle = lmcache_oracle.Oracle(lmcache_oracle.find_root(args.root))
    seen, rules, lines = collections.Counter(), collections.Counter(), []
    for problem, (rule, codes, good) in problems(oracle, diff, args.seed, args.count):
        marks = shows(problem, rule, codes, good)
        if all(seen[mark] >= args.quota for mark in marks):
            continue
        seen.update(marks)
        rules[rule] += 1
        lines.append(json.dumps({"problem": problem, "rule": rule,
                                 "codes": None if codes is None else sorted(codes),
                                 "good": public(good)}, separators=(",", ":")))
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "recorded.jsonl.gz", "wb") as raw:
        with gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            file.write("\n".join(lines).encode() + b"\n")
    table = "\n".join(f"* {rule}: {n}" for rule, n in sorted(rules.items()))
    (OUT / "README.md").write_text(README.format(kept=len(lines), rules=table, **vars(args)))
    print(f"{len(lines)} problems")


main()
