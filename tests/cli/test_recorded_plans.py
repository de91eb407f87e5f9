"""Recorded inputs of the planner: `pagedkv plan --specs -` answers as vLLM's own planner did.

tests/data/plans/README.md says how they were made. Every field that vLLM answers must be there and
equal, in order; more fields are allowed. A refusal must be one of the same kind; its text is ours.
Where vLLM's `tokens` is the floor of a rounded product, the floor of the exact one will do.

Usage: test_recorded_plans.py PAGEDKV
"""
import copy
import gzip
import json
import pathlib
import subprocess
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "data/plans/recorded.jsonl.gz"

SUMMARY = ("num_blocks", "bytes_per_block", "tokens", "max_concurrency", "max_model_len", "layout")
OPTIONAL = ("zeroing", "mixed_precision", "tp_replicas", "scheduler_block_size", "hash_block_size",
            "hit_alignment", "steady_concurrency", "host_num_blocks", "host_block_stride")
LISTS = {
    "groups": (("kind", "block_size", "page_bytes", "layers", "is_eagle"),
               ("uniform_type", "host", "transfer", "role")),
    "tensors": (("size", "offset", "layer_stride", "block_stride", "layers"), ("host",)),
}


def equal(a, b):
    """Equal JSON values; true is not 1, and doubles may differ in their last digits."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        numbers = all(isinstance(x, (int, float)) for x in (a, b))
        return numbers and abs(a - b) <= 1e-9 * max(1.0, abs(a), abs(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    return a == b


def differ(where, want, got):
    return f"{where}: expected {json.dumps(want)[:300]}, found {json.dumps(got)[:300]}"


def inside(want, got, where):
    """Where `got` lacks or changes something that `want` holds; "" if nowhere."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key, value in want.items():
            if key not in got:
                return f"{where}.{key}: absent"
            found = inside(value, got[key], f"{where}.{key}")
            if found:
                return found
        return ""
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        found = (inside(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(want, got)))
        return next(filter(None, found), "")
    return "" if equal(want, got) else differ(where, want, got)


def floor_of_rounded(want, got):
    """Whether `tokens` differ by one because the product lies next to a whole number."""
    product = want["max_concurrency"] * want["max_model_len"]
    return abs(want["tokens"] - got["tokens"]) == 1 and abs(product - round(product)) < 1e-6


def some(want, got, where, needed, optional):
    """Compares `needed` fields, and `optional` ones that both sides have."""
    for key in needed + tuple(k for k in optional if k in want and k in got):
        if key not in got:
            return f"{where}.{key}: absent"
        if key == "tokens" and floor_of_rounded(want, got):
            continue
        if not equal(want[key], got[key]):
            return differ(f"{where}.{key}", want[key], got[key])
    return ""


def plan_difference(want, got, where, needed):
    found = some(want, got, where, needed, OPTIONAL)
    for name, (fields, optional) in LISTS.items():
        a, b = want[name], got.get(name)
        if not found and (not isinstance(b, list) or len(a) != len(b)):
            found = differ(f"{where}.{name}", a, b)
        for i in range(0 if found else len(a)):
            optional_here = tuple(k for k in optional if k in b[i])
            found = found or some(a[i], b[i], f"{where}.{name}[{i}]", fields, optional_here)
    return found


def difference(doc, want, got):
    """The first place where an answer is not vLLM's; "" if it is."""
    if "error" in want or "error" in got:
        if want.get("code") != got.get("code"):
            texts = [x.get("error", "a plan") for x in (want, got)]
            return differ("code", [want.get("code"), texts[0]], [got.get("code"), texts[1]])
        return inside(want.get("derived"), got.get("derived"), "derived")
    if "layers" not in doc:
        return inside(want, got, "")
    found = inside(want["derived"], got.get("derived"), "derived")
    for i, (a, b) in enumerate(zip(want.get("workers", ()), got.get("workers", ()))):
        found = found or plan_difference(a, b, f"workers[{i}]",
                                         ("num_blocks", "bytes_per_block"))
    return found or plan_difference(want, got, "", SUMMARY)


def leaves(value, path=()):
    """Paths to every number, text and truth value."""
    if isinstance(value, dict):
        value = list(value.items())
    elif isinstance(value, list):
        value = list(enumerate(value))
    else:
        return [path]
    return [leaf for key, inner in value for leaf in leaves(inner, path + (key,))]


def altered(answer, path):
    """A copy of the answer with one leaf changed."""
    result = copy.deepcopy(answer)
    at = result
    for key in path[:-1]:
        at = at[key]
    old = at[path[-1]]
    at[path[-1]] = not old if isinstance(old, bool) else old + 2 if isinstance(old, (int, float)) \
        else "x"
    return result


def check_comparison(entries):
    """The comparison itself: an answer equals itself, and any one changed value is noticed."""
    unnoticed = 0
    for number, entry in enumerate(entries[::20]):
        doc, want = entry["doc"], entry["want"]
        assert difference(doc, want, want) == "", want
        paths = [path for path in leaves(want) if path != ("error",)]
        for path in paths[number % 37::37]:
            if difference(doc, want, altered(want, path)) == "":
                print(f"a change of {path} goes unnoticed")
                unnoticed += 1
    return unnoticed


def main():
    with gzip.open(DATA, "rt") as lines:
        head, *entries = map(json.loads, lines)
    assert len(entries) == head["kept"] >= 400, head
    text = "".join(json.dumps(entry["doc"]) + "\n" for entry in entries)
    done = subprocess.run([sys.argv[1], "plan", "--specs", "-", "--json", "--derived"], input=text,
                          capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    bad = check_comparison(entries)
    if done.returncode != 0 or len(answers) != len(entries):
        sys.exit(f"exit {done.returncode}, {len(answers)} answers to {len(entries)} documents\n"
                 f"{done.stderr[-2000:]}")
    for number, (entry, got) in enumerate(zip(entries, answers), 2):
        found = difference(entry["doc"], entry["want"], got)
        if found:
            bad += 1
            print(f"line {number}: {found}\n  {json.dumps(entry['doc'])[:2000]}")
    print(f"{len(entries)} recorded answers of {head['planner']}, {bad} problem(s)")
    sys.exit(1 if bad else 0)


main()
