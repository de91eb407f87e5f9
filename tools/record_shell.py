#!/usr/bin/env python3
"""Records work of a cache with vLLM's own answers, for tests/cli/test_recorded_shell.py.

Draws models and work with the generator of the oracle's diff_shell.py, four times: with what every
scheduler does; with drafters, loads and other things beside it; with all of that and connectors on
the other kinds of layers (but those with a host pool); and on aligned states alone. A script is
kept if it shows something that fewer than QUOTA of those before it in its file showed. Left out are
scripts that vLLM itself fails on.

Usage: record_shell.py --oracle DIR --root DIR [--seed N] [--count N] [--steps N] [--quota N]
    DIR: of diff_shell.py; of the unzipped vLLM package. Writes tests/data/shell.
"""
import argparse
import collections
import gzip
import json
import pathlib
import random
import re
import sys
import textwrap

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/shell"
USUAL = ("full,hybrid,sliding,mla,swmla,pages,nocache,drafts,preempt,evict,reset,events,lora,mm,"
         "salt,skip,watermark,gate,xxhash,seed,errors,batch,steps,stats,defer").split(",")
MORE = "eagle,mtp,dcp,retention,inflight,external,report,zero,fine".split(",")
PLAIN = ["full", "hybrid", "sliding", "mla"]
KINDS = "chunked,mambanone,ring,kpool,cross,rswa,replay,connector".split(",")
# which sets a file holds
FILES = {"recorded": {"usual": USUAL, "more": USUAL + MORE},
         "kinds": {"kinds": [x for x in USUAL + MORE + KINDS if x not in PLAIN],
                   "states": [x for x in USUAL + MORE + ["mamba", "connector"]
                              if x not in PLAIN + ["swmla"]]}}
KEY_DIGITS, WHOLE_EVERY = 12, 4
README = """# Recorded work of a cache

Scripts for `pagedkv shell`, and for each operation the answer of vLLM {version}'s own cache
manager, run without a GPU. tools/record_shell.py wrote them:

    record_shell.py --oracle DIR --root DIR --seed {seed} --count {count} --steps {steps} \\
                    --quota {quota}

drew {count} random scripts for each of four sets of features and kept those that show something
new in their file (the tool says what).

| file | sets | scripts | operations |
|---|---|---|---|
{files}

The sets:

{usual}
{more}
{kinds}
{states}

The first line says how the file was made. A line with `specs` begins a script: the document of its
cache, the set it was drawn from, and how many operations follow. Every other line is
`[operation, answer]`.

* Of a refusal only the code is kept: its text is ours.
* Keys are long and do not compress. In one script of {whole} they are whole; in the others their
  first {digits} hex digits are kept (`key_digits`), and compared. A wrong key still differs there.
* Stored events without hashes are left out, as docs/formats/shell.md says.
* One defect of the oracle around vLLM is repaired: a refused `reset` forgets nothing.

What they show, and in how many scripts:

{shown}
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--oracle", required=True, help="folder of diff_shell.py")
    parser.add_argument("--root", required=True, help="folder of the vLLM package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--quota", type=int, default=1)
    return parser.parse_args()


def repair(shell):
    """The oracle's reset replaces the table of secondary keys even when vLLM refuses, which vLLM
    does while a block is in use; the keys are then still those of cached blocks."""
    upstream = shell.op_reset

    def op_reset(self, op):
        secondary = self.pool.cached_block_hashes_by_block
        answer = upstream(self, op)
        if not answer["ok"]:
            self.pool.cached_block_hashes_by_block = secondary
        return answer

    shell.op_reset = op_reset


def with_fine_units(model):
    """The generator cuts keys finer than blocks in recurrent models only."""
    class Fine(model):
        def draw(self):
            doc = super().draw()
            size = min(layer["block_size"] for layer in doc["layers"])
            if self.has("fine", 0.2) and size > 4 and doc["options"].get("dcp", 1) == 1:
                doc["prefix_match_unit"] = size // self.r.choice([2, 4])
            return doc

    return Fine


def labels(doc, kind, ops, answers):
    """What a script shows."""
    yield f"model {kind}"
    plain = {"caching": True, "events": True, "hash": "sha256_cbor", "watermark": 0}
    for name in ("caching", "events", "hash", "hash_seed", "watermark", "prefix_match_unit",
                 "retention_interval", "shared_prefix_checkpoint"):
        value = doc.get(name, plain.get(name))
        if value != plain.get(name):
            yield f"model {kind}, {name}" + (f" {value}" if name == "caching" else "")
    options = doc["options"]
    drafter = options.get("speculative")
    if drafter:
        ahead = " with lookahead" if drafter["lookahead_hashes"] else ""
        yield f"model {kind}, {drafter['method']}{ahead}"
    if options.get("dcp", 1) > 1:
        yield f"model {kind}, dcp"
    if len({layer["dtype"] for layer in doc["layers"] if "dtype" in layer}) > 1:
        yield f"model {kind}, two precisions"
    for layer in doc["layers"]:
        for name in ("num_speculative_blocks", "num_prefill_checkpoint_blocks", "bounded_replay"):
            if layer.get(name):
                yield f"model {kind}, {name}"
    for op, answer in zip(ops, answers):
        name = op["op"]
        yield name
        for field in op:
            if field not in ("op", "id", "tokens", "new_tokens"):
                yield f"{name} with {field}"
        if "error" in answer:
            yield f"{name}: {answer['code']}"
        yield from (f"{name}: {found}" for found in findings(op, answer))


def findings(op, answer):
    if answer.get("ok") is False:
        yield "refused"
    for field in ("cached_tokens", "shared_prefix", "copies", "zero", "hits", "preempted_hits",
                  "offloads", "diverged"):
        if answer.get(field):
            yield f"some {field}"
    if "done" in answer and answer["done"] < len(op["ids"]):
        yield "stops early"
    for event in answer.get("events", ()):
        yield event["type"]
        for field in ("lora_id", "lora_name", "parent_block_hash", "lookahead_token_ids"):
            if event.get(field):
                yield f"{event['type']} with {field}"
        if any(event.get("extra_keys") or ()):
            yield f"{event['type']} with extra_keys"


def tidy(answer):
    """What is recorded of an answer."""
    if "error" in answer:
        return {"code": answer["code"]}
    if "events" in answer:
        return {"events": [event for event in answer["events"]
                           if event["type"] != "BlockStored" or event["block_hashes"]]}
    return answer


def shorten(value, digits):
    """The value with every key cut to so many digits."""
    if isinstance(value, str):
        key = len(value) in (32, 64) and re.fullmatch("[0-9a-f]+", value)
        return value[:digits] if key else value
    if isinstance(value, list):
        return [shorten(one, digits) for one in value]
    if isinstance(value, dict):
        return {key: shorten(one, digits) for key, one in value.items()}
    return value


def draw(diff, model, args, features, number):
    """One script, or None if vLLM failed or the script replaced its own cache."""
    rng = random.Random(f"record{args.seed}.{number}")
    try:
        work = diff.Work(model(rng, features), args.steps)
    except RecursionError:
        return None
    ops, answers = work.run()
    if work.dead or ops[-1]["op"] != "check" or answers[-1] != {"ok": True}:
        return None
    return work.m.doc, work.m.kind, ops, answers


def choose(diff, args, name, features, first):
    model, seen, kept = with_fine_units(diff.Model), collections.Counter(), []
    for number in range(first, first + args.count):
        drawn = draw(diff, model, args, features, number)
        if not drawn:
            continue
        shows = {f"{name} {x}" if x.startswith("model") else x for x in labels(*drawn)}
        if all(seen[label] >= args.quota for label in shows):
            continue
        seen.update(shows)
        kept.append((name, *drawn))
    return kept, seen


def write(file, kept, shown, args, version):
    """One file; its row of the table."""
    operations = sum(len(ops) for _, _, _, ops, _ in kept)
    lines = [{"made_by": "tools/record_shell.py", "manager": f"vLLM {version}", "seed": args.seed,
              "count": args.count, "quota": args.quota, "scripts": len(kept),
              "operations": operations, "shown": shown}]
    for number, (name, doc, kind, ops, answers) in enumerate(kept):
        digits = None if number % WHOLE_EVERY == 0 else KEY_DIGITS
        lines.append({"specs": doc, "set": name, "model": kind, "operations": len(ops),
                      "key_digits": digits})
        for op, answer in zip(ops, answers):
            answer = tidy(answer)
            lines.append([op, answer if digits is None else shorten(answer, digits)])
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    packed = gzip.compress(text.encode(), 9, mtime=0)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{file}.jsonl.gz").write_bytes(packed)
    print(f"{file}: {len(kept)} scripts, {operations} operations, {len(text)} bytes, {len(packed)} "
          "packed")
    return f"| {file}.jsonl.gz | {', '.join(FILES[file])} | {len(kept)} | {operations} |"


def list_features(name, features, end):
    return textwrap.fill(f"`{name}`: {', '.join(features)}{end}", 100)


def main():
    args = arguments()
    sys.path.insert(0, args.oracle)
    import diff_shell
    import vllm_oracle
    vllm_oracle.load(args.root)
    repair(vllm_oracle.Shell)
    version = re.search(r"__version__ = version = '([^']+)'",
                        (pathlib.Path(args.root) / "vllm/_version.py").read_text()).group(1)
    rows, texts, number = [], [], 0
    for file, sets in FILES.items():
        kept, shown = [], collections.Counter()
        for name, features in sets.items():
            some, seen = choose(diff_shell, args, name, features, number)
            kept += some
            shown += seen
            number += args.count
        shown = dict(sorted(shown.items()))
        rows.append(write(file, kept, shown, args, version))
        told = "; ".join(f"{label} ({n})" for label, n in shown.items())
        texts.append(textwrap.fill(f"`{file}`: {told}", 100))
    (OUT / "README.md").write_text(README.format(
        version=version, seed=args.seed, count=args.count, steps=args.steps, quota=args.quota,
        whole=WHOLE_EVERY, digits=KEY_DIGITS, files="\n".join(rows), shown="\n\n".join(texts),
        usual=list_features("usual", USUAL, ";"),
        more=list_features("more, beside them", MORE, ";"),
        kinds=list_features("kinds, all of those, but other layers", ["swmla"] + KINDS, ";"),
        states=list_features("states, all of those, but one kind of layers", ["mamba"], ".")))


main()
