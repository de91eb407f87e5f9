"""Recorded layout problems: `pagedkv layout --file -` answers one of the answers that are right.

tests/data/layout/README.md says how they were made. More fields are allowed in an answer; strides
of axes of size 1 say nothing and are not compared; texts of refusals are ours.

Usage: test_recorded_layouts.py PAGEDKV
"""
import gzip
import json
import pathlib
import subprocess
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "data/layout/recorded.jsonl.gz"
CODES = {"ambiguous", "inconsistent", "unsupported"}


def idle(holder):
    """Fields of an object that step along an axis of size 1."""
    if "num_blocks" in holder:
        sizes = {"block_stride": holder["num_blocks"], "head_stride": holder["num_heads"],
                 "token_stride": holder["block_size"] or holder["tokens"]}
    elif "block_stride_elems" in holder:
        sizes = {"block_stride_elems": holder["nb"]}
    elif "block_pitch" in holder:
        sizes = {"block_pitch": holder["tokens"] // holder["block_size"],
                 "token_pitch": holder["block_size"]}
    else:
        sizes = {}
    return {name for name, size in sizes.items() if size == 1}


def differ(want, got, where="answer", skip=frozenset()):
    """Where `got` lacks or changes something that `want` holds; None if nowhere."""
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return f"{where}: an object was expected"
        skip = idle(want) | (skip if where.endswith(".v") else set())
        for name, value in want.items():
            if name == "error" and "code" in want or name in skip:
                continue
            if name == "format" and value == "*":
                continue
            if name == "strides" and "shape" in want:
                live = [i for i, n in enumerate(want["shape"]) if n != 1]
                if [got[name][i] for i in live] != [value[i] for i in live]:
                    return f"{where}: strides {value} were expected, found {got[name]}"
                continue
            found = differ(value, got.get(name, "nothing"), f"{where}.{name}", skip)
            if found:
                return found
        return None
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return next(filter(None, (differ(a, b, f"{where}[{i}]", skip)
                                  for i, (a, b) in enumerate(zip(want, got)))), None)
    if want == got and isinstance(want, bool) == isinstance(got, bool):
        return None
    return f"{where}: {want!r} was expected, found {got!r}"


def wrong(line, got):
    """Why an answer is wrong, or None."""
    codes, good = line["codes"], line["good"]
    if codes is None:
        return None if got.get("code") == "INPUT" else f"accepted: {got}"
    if "code" in got:
        if got["code"] not in CODES or not got["error"]:
            return f"no refusal: {got}"
        if got["code"] == "ambiguous" and len(got["readings"]) < 2:
            return "ambiguous, and less than two readings"
        return None if got["code"] in codes else f"{got['code']}, not one of {codes}"
    found = [differ(answer, got) for answer in good]
    return None if None in found else f"of {len(good)} right answers none: {found[-1:]}"


def main():
    lines = [json.loads(text) for text in gzip.open(DATA, "rt", encoding="utf-8")]
    text = "".join(json.dumps(line["problem"]) + "\n" for line in lines)
    done = subprocess.run([sys.argv[1], "layout", "--file", "-"], input=text, capture_output=True,
                          text=True, check=False, timeout=250)
    answers = done.stdout.splitlines()
    if done.returncode or done.stderr or len(answers) != len(lines):
        sys.exit(f"exit {done.returncode}, {len(answers)} answers of {len(lines)}: {done.stderr}")
    failed = 0
    for line, answer in zip(lines, answers):
        why = wrong(line, json.loads(answer))
        if why:
            failed += 1
            print(f"[{line['rule']}] {why}\n  {json.dumps(line['problem'])[:600]}")
    print(f"{len(lines)} problems, {failed} wrong")
    sys.exit(failed > 0)


main()
