#!/usr/bin/env python3
"""Records work of an encoder cache with the answers of vLLM's own class, for
tests/unit/test_encoder_recorded.c.

Random passes do what vLLM's scheduler does for the inputs of a request: look up, ask for room with
what is planned, then allocate all that was planned. Between them: releases, closed requests,
reports, and lookups and room asked for without a pass.

Usage: record_encoder.py --oracle DIR --root DIR [--seed N] [--caches N] [--operations N]
                         [--out FILE]
    DIR: of oracle_import.py; of the unzipped vLLM package. Writes tests/data/encoder.
"""
import argparse
import pathlib
import random
import re
import sys
import types

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/encoder/recorded.txt"
README = """# Recorded work of an encoder cache

recorded.txt: {operations} operations on {caches} caches, each with the answer of vLLM {version}'s
own EncoderCacheManager or EncoderDecoderCacheManager, run without a GPU. tools/record_encoder.py
wrote it:

    record_encoder.py --oracle DIR --root DIR --seed {seed} --caches {caches} \\
                      --operations {each}

`cache CAPACITY shared|single` begins a cache. Every other line is `operation > answer | state`.
The state: free/freeable slots, the number of cached items, the idle ones in order of eviction, and
after `:` the inputs that the request of the operation holds.

    open R A5 B3     request R shows item A of 5 embeddings and item B of 3
    lookup R I       yes, no, or mismatch: the item is cached with another number of embeddings
    room R I B P     yes or no: budget B, P planned
    allocate R I
    release R I      yes, or no: it holds nothing
    drop R           all inputs are released
    close R          all inputs are released and the request ends
    evicted          the ids that are told
    find A           embeddings, or no
    reset

Four things are ours, where upstream leaves something open (docs/internals/encoder.md):

* ids that upstream tells twice in one report are written once: for `shared` at their last place,
  for `single`, which does not evict, at their first;
* where the order of a Python set is not that of its numbers, inputs are released one by one;
* in `single` caches only what was allocated is released, input by input, since upstream would add
  room that nothing took, and freeable slots, cached and idle items are written as ours;
* a mismatch is found as the scheduler does, before the lookup.
"""
IDS = "ABCDEFGHIJKL"
MOST_INPUTS, MOST_REQUESTS = 6, 6


class Recorder:
    def __init__(self, encoder, rng, out):
        self.encoder, self.rng, self.out = encoder, rng, out

    def begin(self):
        rng = self.rng
        self.single = rng.random() < 0.2
        capacity = rng.choice((6, 10, 10, 16, 16, 24)) if rng.random() < 0.97 else 0
        kind = self.encoder.EncoderDecoderCacheManager if self.single else \
            self.encoder.EncoderCacheManager
        self.cache = kind(capacity)
        self.sizes = {i: rng.choice((0, 1, 2, 2, 3, 3, 4, 4, 5, 6, 8)) for i in IDS}
        self.ids = IDS[:rng.randint(2, len(IDS))]
        self.requests, self.held, self.next = {}, {}, 0
        self.out.append(f"cache {capacity} {'single' if self.single else 'shared'}")

    def write(self, op, answer="", request=None):
        c = self.cache
        if self.single:
            state = f"{c.num_free_slots}/{c.num_free_slots} 0"
        else:
            state = f"{c.num_free_slots}/{c.num_freeable_slots} {len(c.cached)}"
            state += "".join(f" {i}" for i in c.freeable)
        if request is not None and request in self.requests:
            held = self.held[request] if self.single else \
                c.get_cached_input_ids(self.requests[request])
            state += " :" + "".join(f" {i}" for i in sorted(held))
        self.out.append(f"{op} > {answer} | {state}")

    # ---- operations ----

    def open(self):
        number, self.next = self.next, self.next + 1
        inputs = []
        for _ in range(self.rng.randint(0 if self.rng.random() < 0.05 else 1, MOST_INPUTS)):
            i = self.rng.choice(self.ids)
            odd = self.rng.random() < 0.03
            inputs.append((i, self.sizes[i] + odd))
        features = [types.SimpleNamespace(identifier=i) for i, _ in inputs]
        self.requests[number] = types.SimpleNamespace(
            request_id=str(number), mm_features=features, inputs=inputs,
            get_num_encoder_embeds=lambda n: inputs[n][1])
        self.held[number] = set()
        self.write(" ".join([f"open {number}"] + [f"{i}{n}" for i, n in inputs]), "", number)

    def lookup(self, r, i):
        request = self.requests[r]
        known = None if self.single else self.cache.get_cached_num_encoder_embeds(request, i)
        if known is not None and known != request.inputs[i][1]:
            answer = "mismatch"
        else:
            answer = "yes" if self.cache.check_and_update_cache(request, i) else "no"
        self.write(f"lookup {r} {i}", answer, r)
        return answer

    def room(self, r, i, budget, planned):
        ok = self.cache.can_allocate(self.requests[r], i, budget, planned)
        self.write(f"room {r} {i} {budget} {planned}", "yes" if ok else "no", r)
        return ok

    def allocate(self, r, i):
        self.cache.allocate(self.requests[r], i)
        self.held[r].add(i)
        self.write(f"allocate {r} {i}", "", r)

    def free_input(self, r, i):
        request = self.requests[r]
        held = i in (self.held[r] if self.single else self.cache.get_cached_input_ids(request))
        if held or not self.single:
            self.cache.free_encoder_input(request, i)
        self.held[r].discard(i)
        return held

    def release(self, r, i):
        held = self.free_input(r, i)
        self.write(f"release {r} {i}", "yes" if held else "no", r)

    def drop(self, r, name="drop"):
        held = self.held[r] if self.single else self.cache.get_cached_input_ids(self.requests[r])
        if self.single or list(held) != sorted(held):
            for i in sorted(held):
                self.free_input(r, i)
        else:
            self.cache.free(self.requests[r])
        if name == "close":
            del self.requests[r], self.held[r]
        self.write(f"{name} {r}", "", r)

    def evicted(self):
        told = self.cache.get_freed_mm_hashes()
        once = list(dict.fromkeys(told)) if self.single else \
            list(reversed(dict.fromkeys(reversed(told))))
        self.write("evicted", " ".join(once))

    def find(self):
        item = self.rng.choice(IDS)
        known = None if self.single else self.cache.num_embeds_by_hash.get(item)
        self.write(f"find {item}", "no" if known is None else str(known))

    def reset(self):
        self.cache.reset()
        for held in self.held.values():
            held.clear()
        self.write("reset")

    # ---- what a scheduler does ----

    def schedule(self, r):
        """One pass over some inputs of a request."""
        request, planned, doubles = self.requests[r], {}, []
        budget = self.rng.choice((3, 8, 20, 100, 100))
        for i in range(self.rng.randint(0, 1), len(request.inputs)):
            item, embeds = request.inputs[i]
            if self.single:
                if i in self.held[r]:
                    continue
            elif item in [request.inputs[j][0] for j in planned]:
                doubles.append(i)
                continue
            else:
                answer = self.lookup(r, i)
                if answer == "mismatch":
                    return
                if answer == "yes":
                    continue
            if not self.room(r, i, budget, sum(planned.values())):
                break
            budget -= embeds
            planned[i] = embeds
        for i in planned:
            self.allocate(r, i)
        for i in doubles:
            self.lookup(r, i)

    def step(self):
        rng, dice = self.rng, self.rng.random()
        r = rng.choice(list(self.requests)) if self.requests else None
        i = rng.randrange(len(self.requests[r].inputs)) if r is not None and \
            self.requests[r].inputs else None
        if r is None or dice < 0.12 and len(self.requests) < MOST_REQUESTS:
            self.open()
        elif dice < 0.45:
            self.schedule(r)
        elif dice < 0.65 and i is not None:
            held = sorted(self.held[r] if self.single else
                          self.cache.get_cached_input_ids(self.requests[r]))
            self.release(r, rng.choice(held) if held and rng.random() < 0.8 else i)
        elif dice < 0.70:
            self.drop(r)
        elif dice < 0.80:
            self.drop(r, "close")
        elif dice < 0.90:
            self.evicted()
        elif dice < 0.94 and i is not None:
            self.lookup(r, i)
        elif dice < 0.97 and i is not None:
            self.room(r, i, rng.choice((2, 100)), rng.randint(0, 5))
        elif dice < 0.99:
            self.find()
        else:
            self.reset()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--oracle", required=True, help="folder of oracle_import.py")
    parser.add_argument("--root", required=True, help="folder of the vLLM package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--caches", type=int, default=25)
    parser.add_argument("--operations", type=int, default=80, help="of each cache, at least")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    return parser.parse_args()


def main():
    args = arguments()
    sys.path.insert(0, args.oracle)
    import oracle_import
    vllm = oracle_import.load(args.root)
    out = []
    recorder = Recorder(vllm.encoder, random.Random(args.seed), out)
    for _ in range(args.caches):
        recorder.begin()
        last = len(out) + args.operations
        while len(out) < last:
            recorder.step()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("".join(line.rstrip() + "\n" for line in out))
    if args.out == OUT:
        version = re.search(r"__version__ = version = '([^']+)'",
                            (pathlib.Path(args.root) / "vllm/_version.py").read_text()).group(1)
        args.out.with_name("README.md").write_text(README.format(
            operations=len(out) - args.caches, caches=args.caches, version=version,
            seed=args.seed, each=args.operations))
    print(f"{len(out) - args.caches} operations on {args.caches} caches")


main()
