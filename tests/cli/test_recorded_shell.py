"""Recorded work of a cache: `pagedkv shell` answers as vLLM's own cache manager did.

tests/data/shell/README.md says how the scripts were made. One process carries out all of them, each
after a `restart`: once line by line, and once with runs of lines as one `batch`. Answers must be
equal, fields, order and numbers; an error must have the same code, and its text is ours.

Usage: test_recorded_shell.py PAGEDKV
"""
import copy
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parent.parent / "data/shell"
RUNS = (1, 2, 5, 40, 3)  # lengths of batches, over and over
ALONE = ("batch", "restart")
# operations that vLLM's side of the recording answers, but for those of layers not managed yet
OPERATIONS = {"open", "lookup", "allocate", "append", "computed", "cache", "blocks", "keys",
              "preempt", "free", "evict", "reset", "step", "steps", "state", "stats", "cached",
              "events", "check", "zero"}
# per file: its sets, models, and operations beside those of all files
FILES = {
    "recorded": ({"usual", "more"}, {"full", "hybrid", "sliding", "mla", "swmla"}, set()),
    "kinds": ({"kinds", "states"},
              {"swmla", "chunked", "mamba", "mambanone", "ring", "kpool", "cross", "rswa"},
              {"offloads", "finish"}),
}
# what the file of all kinds must show
STATES = ("allocate: some copies", "offloads: some offloads", "finish: some offloads",
          "lookup with connector", "lookup: some diverged", "states model mamba, eagle",
          "states model mamba, prefix_match_unit", "states model mamba, retention_interval",
          "states model mamba, shared_prefix_checkpoint",
          "states model mamba, num_speculative_blocks",
          "states model mamba, num_prefill_checkpoint_blocks",
          "kinds model swmla, bounded_replay")


def read(file):
    """The head, and per script its line number, what it says of itself, operations, answers."""
    with gzip.open(DATA / f"{file}.jsonl.gz", "rt") as lines:
        head, *rest = map(json.loads, lines)
    scripts, at = [], 0
    while at < len(rest):
        about = rest[at]
        pairs = rest[at + 1:at + 1 + about["operations"]]
        assert len(pairs) == about["operations"] and all(isinstance(x, list) for x in pairs), at
        scripts.append((at + 3, about, [x[0] for x in pairs], [x[1] for x in pairs]))
        at += 1 + len(pairs)
    return head, scripts


def check_data(file, head, scripts):
    """That the recording is whole, and shows all that it should."""
    sets, models, operations = FILES[file]
    ops = [op for _, _, script, _ in scripts for op in script]
    assert len(scripts) == head["scripts"] >= 60 and len(ops) == head["operations"], head
    missing = (OPERATIONS | operations) - {op["op"] for op in ops}
    assert not missing, missing
    for _, _, script, answers in scripts:
        assert script[-1] == {"op": "check"} and answers[-1] == {"ok": True}
    assert {about["set"] for _, about, _, _ in scripts} == sets
    assert {about["model"] for _, about, _, _ in scripts} == models
    if file == "kinds":
        assert all(head["shown"].get(label) for label in STATES), head["shown"]


def shorten(value, digits):
    """Keys cut to as many digits as the recording has."""
    if isinstance(value, str):
        key = len(value) in (32, 64) and re.fullmatch("[0-9a-f]+", value)
        return value[:digits] if key else value
    if isinstance(value, list):
        return [shorten(one, digits) for one in value]
    if isinstance(value, dict):
        return {key: shorten(one, digits) for key, one in value.items()}
    return value


def difference(want, got, where="answer"):
    """The first place where two values differ, or ""; true is not 1, and 1 is not 1.0."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in [*want, *(key for key in got if key not in want)]:
            if key not in want or key not in got:
                return f"{where}.{key}: " + ("unexpected" if key not in want else "absent")
            found = difference(want[key], got[key], f"{where}.{key}")
            if found:
                return found
        return ""
    if isinstance(want, list) and isinstance(got, list):
        for i, (a, b) in enumerate(zip(want, got)):
            found = difference(a, b, f"{where}[{i}]")
            if found:
                return found
        return "" if len(want) == len(got) else \
            f"{where}: {len(want)} items expected, {len(got)} found"
    if type(want) is type(got) and want == got:
        return ""
    return f"{where}: expected {json.dumps(want)[:300]}, found {json.dumps(got)[:300]}"


def compare(want, got, digits):
    """As difference(), for an answer; a refusal's text is not compared, but must be there."""
    if set(want) == {"code"}:
        text = got.get("error") if isinstance(got, dict) else None
        if isinstance(text, str) and text and set(got) == {"error", "code"}:
            got = {"code": got["code"]}
    return difference(want, got if digits is None else shorten(got, digits))


def batched(ops):
    """The same operations in fewer lines, and how many operations each line is."""
    lines, sizes, at = [], [], 0
    while at < len(ops):
        part = ops[at:at + RUNS[len(lines) % len(RUNS)]]
        alone = [i for i, op in enumerate(part) if op["op"] in ALONE]
        if alone:
            part = part[:max(1, alone[0])]
        single = part[0]["op"] in ALONE
        lines.append(part[0] if single else {"op": "batch", "ops": part})
        sizes.append(0 if single else len(part))
        at += len(part)
    return lines, sizes


def flat(answers, sizes):
    """One answer per operation again; None where an answer is missing."""
    out = []
    for answer, size in zip(answers, sizes):
        if size == 0:
            out.append(answer)
            continue
        inner = answer.get("answers")
        whole = isinstance(inner, list) and len(inner) == size and len(answer) == 1
        out += inner if whole else [answer] * size
    return out


def ask(program, first, lines):
    """Answers of one process to all lines."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(first, file)
        file.flush()
        done = subprocess.run([program, "shell", "--specs", file.name], text=True, check=False,
                              input="".join(json.dumps(line) + "\n" for line in lines),
                              capture_output=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or done.stderr or len(answers) != len(lines):
        sys.exit(f"exit {done.returncode}, {len(answers)} answers to {len(lines)} lines\n"
                 f"{done.stderr[-2000:]}")
    return answers


def replay(program, scripts, in_batches):
    """The first difference of each script that has one: (operations up to it, text)."""
    work = [batched(ops) if in_batches else (ops, [0] * len(ops)) for _, _, ops, _ in scripts]
    lines = [line for (_, about, _, _), (part, _) in zip(scripts, work)
             for line in [{"op": "restart", "specs": about["specs"]}, *part]]
    answers = iter(ask(program, scripts[0][1]["specs"], lines))
    found = []
    for (line, about, ops, wants), (part, sizes) in zip(scripts, work):
        begun = next(answers)
        gots = flat([next(answers) for _ in part], sizes)
        assert len(gots) == len(ops), (line, len(gots))
        if begun != {"ok": True}:
            found.append((0, f"line {line - 1}: {json.dumps(begun)}: {json.dumps(about['specs'])}"))
            continue
        for i, (op, want, got) in enumerate(zip(ops, wants, gots)):
            text = compare(want, got, about["key_digits"])
            if text:
                found.append((i + 1, f"line {line + i}, operation {i} of a {about['model']} model"
                              f"{', in batches' if in_batches else ''}: {text}\n"
                              f"  {json.dumps(op)[:1000]}\n  {json.dumps(about['specs'])}"))
                break
    return found


def leaves(value, path=()):
    """Paths to every number, text, truth value and empty list."""
    if isinstance(value, dict):
        value = list(value.items())
    elif isinstance(value, list) and value:
        value = list(enumerate(value))
    else:
        return [path]
    return [leaf for key, inner in value for leaf in leaves(inner, path + (key,))]


def altered(value, path):
    """A copy with one leaf changed."""
    if not path:
        return not value if isinstance(value, bool) else \
            value + 1 if isinstance(value, (int, float)) else [0] if value == [] else f"{value}x"
    result = copy.copy(value)
    result[path[0]] = altered(value[path[0]], path[1:])
    return result


def check_comparison(scripts):
    """The comparison itself: an answer equals itself, and any one changed value is noticed."""
    tried = unnoticed = 0
    for number, (_, about, _, wants) in enumerate(scripts):
        for want in wants[number % 7::7]:
            got = {"error": "a text", **want} if set(want) == {"code"} else want
            assert compare(want, got, about["key_digits"]) == "", want
            for path in [path for path in leaves(got) if path][tried % 5::5]:
                tried += 1
                if path != ("error",) and not compare(want, altered(got, path), None):
                    print(f"a change of {path} goes unnoticed in {json.dumps(want)[:500]}")
                    unnoticed += 1
    assert tried > 1000, tried
    return unnoticed


def check(file):
    """The number of problems with one file."""
    head, scripts = read(file)
    check_data(file, head, scripts)
    bad = check_comparison(scripts)
    found = replay(sys.argv[1], scripts, False) + replay(sys.argv[1], scripts, True)
    if found:
        print(f"the shortest of {len(found)} differences:\n{min(found)[1]}")
    print(f"{file}: {len(scripts)} scripts, {head['operations']} operations of {head['manager']}, "
          f"line by line and in batches: {bad + len(found)} problem(s)")
    return bad + len(found)


sys.exit(1 if sum([check(file) for file in FILES]) else 0)
