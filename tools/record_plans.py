#!/usr/bin/env python3
"""Records inputs of the planner with vLLM's own answers, for tests/cli/test_recorded_plans.py.

Draws documents with the generator of the oracle's diff_plan.py and keeps one whenever it shows
something that fewer than QUOTA of those before it showed: a feature of the generator, an option, a
kind with one of its fields, a kind of group, a reason for a refusal. Left out are documents that
vLLM crashes on and those whose answer is a known defect of it.

Usage: record_plans.py --oracle DIR --root DIR [--seed N] [--count N] [--quota N]
    DIR: of diff_plan.py; of the unzipped vLLM package. Writes tests/data/plans.
"""
import argparse
import collections
import gzip
import json
import pathlib
import random
import re
import sys

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/plans"
README = """# Recorded plans

recorded.jsonl.gz: {kept} inputs of the planner, each with the answer of vLLM {version}'s own
planner, run without a GPU. tools/record_plans.py wrote it:

    record_plans.py --oracle DIR --root DIR --seed {seed} --count {count} --quota {quota}

drew {count} random documents and kept those that show something new (the script says what). The
first line says how the file was made; every other line is `{{"doc": input, "want": answer}}`, the
answer as of `pagedkv plan --specs - --json --derived`. Repaired in vLLM before it answered: the pad
of an aligned spec that got another block size, `alignment` and `kv_quant_mode` lost in a merge of
latent specs, and the crash on a sliding latent layer without hybrid groups. Formulas that only an
earlier revision of its interface has (`revision` "seed") come from that revision's text.

Kept are {plans} plans, {refused} refusals ({codes}) and {questions} documents
that ask for less.
Documents that show a feature of the generator:

{features}
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--oracle", required=True, help="folder of diff_plan.py")
    parser.add_argument("--root", required=True, help="folder of the vLLM package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=6000)
    parser.add_argument("--quota", type=int, default=4)
    return parser.parse_args()


def recording(generator):
    """The generator, noting which of its features took part."""
    class Recording(generator):
        def __init__(self, *args):
            super().__init__(*args)
            self.used, self.kind = set(), None

        def has(self, f, p=1.0):
            taken = super().has(f, p)
            if taken:
                self.used.add(f)
            return taken

    return Recording


def labels_of_doc(doc):
    for key, value in doc.items():
        yield f"key {key}"
        if isinstance(value, (str, bool)) or value is None:
            yield f"key {key} {value}"
    for key, value in doc.get("options", {}).items():
        yield f"option {key}"
        if isinstance(value, (str, bool)):
            yield f"option {key} {value}"
        if key == "speculative":
            yield f"option {key} {value['method']}"
    specs = [spec for name in ("layers", "merge", "uniform") for spec in doc.get(name, ())]
    specs += [doc[name] for name in ("resize", "views") if name in doc]
    for spec in specs:
        for key, value in spec.items():
            if key not in ("name", "kind"):
                yield f"field {spec['kind']} {key}"
            if key in ("kv_quant_mode", "dtype", "cache_dtype_str", "mamba_cache_mode"):
                yield f"field {key} {value}"
    if "layers" in doc:
        yield "kinds " + " ".join(sorted({spec["kind"] for spec in specs}))


def labels_of_answer(want):
    if "error" in want:
        text = re.sub(r"\S*[\d'\"{\[(]\S*", "#", want["error"])
        yield f"refusal {want['code']} {' '.join(text.split()[:12])}"
        return
    for key, value in want.items():
        yield f"answer {key}"
        if isinstance(value, (str, bool)) or value is None:
            yield f"answer {key} {value}"
    groups = want.get("groups", ())
    yield f"groups {len(groups)}"
    for group in groups:
        kind = "uniform" if group.get("uniform_type") else "one spec"
        yield f"group {group['kind']} {kind} {group['is_eagle']}"
        yield f"group {group.get('role')} {group.get('host')} {group.get('transfer')}"


def draw(gen, oracle, known):
    """A document with its answer, or None for one that vLLM has no right answer to."""
    doc = gen.doc()
    text = json.dumps(doc)
    want = oracle.plan(json.loads(text), True)
    if "CRASH" in json.dumps(want) or want.get("code") == "INPUT" or known(doc, want, {}):
        return None
    return doc, want


def choose(args, oracle, diff):
    """(document, answer) that are worth keeping, and how often each feature is among them."""
    seen, features, kept = collections.Counter(), collections.Counter(), []
    generator = recording(diff.Gen)
    for i in range(args.count):
        gen = generator(random.Random(f"plan{args.seed}.{i}"), diff.FEATURES)
        drawn = draw(gen, oracle, diff.known)
        if not drawn:
            continue
        doc, want = drawn
        used = gen.used | {gen.kind, "derived"} - {None}
        about = gen.kind or next(iter(doc))  # the model's main kind, or what is asked for
        labels = {f"{about} {name}" for name in used}
        labels |= set(labels_of_doc(doc)) | set(labels_of_answer(want))
        if all(seen[label] >= args.quota for label in labels):
            continue
        seen.update(labels)
        features.update(used)
        kept.append(drawn)
    missing = [name for name in diff.FEATURES if not features[name]]
    if missing:
        sys.exit(f"record_plans: no document shows {missing}")
    return kept, {name: features[name] for name in diff.FEATURES}


def main():
    args = arguments()
    sys.path.insert(0, args.oracle)
    import diff_plan
    import vllm_oracle
    vllm_oracle.load(args.root)
    version = re.search(r"__version__ = version = '([^']+)'",
                        (pathlib.Path(args.root) / "vllm/_version.py").read_text()).group(1)
    kept, features = choose(args, vllm_oracle, diff_plan)
    codes = collections.Counter(want["code"] for _, want in kept if "error" in want)
    refused = sum(codes.values())
    questions = sum("layers" not in doc for doc, want in kept if "error" not in want)
    head = {"made_by": "tools/record_plans.py", "planner": f"vLLM {version}", "seed": args.seed,
            "count": args.count, "quota": args.quota, "kept": len(kept), "features": features}
    lines = [head] + [{"doc": doc, "want": want} for doc, want in kept]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "recorded.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    (OUT / "README.md").write_text(README.format(
        kept=len(kept), version=version, seed=args.seed, count=args.count, quota=args.quota,
        plans=len(kept) - refused - questions, refused=refused, questions=questions,
        codes=", ".join(f"{code} {n}" for code, n in sorted(codes.items())),
        features="\n".join(f"* {name}: {n}" for name, n in features.items())))
    print(f"{len(kept)} of {args.count} documents, {len(text)} bytes, {features}")


main()
