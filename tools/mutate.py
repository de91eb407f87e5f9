#!/usr/bin/env python3
"""Do the tests notice faults? Plants one at a time and runs the tests of the cache.

tests/mutations/mutations.txt has the faults. Works on a copy of the tree in a temporary folder: the
tests pass there as it is; then, for each fault, they are built with it, and run until one fails. A
test that crashes or hangs has noticed, too. Ends with 1 if a fault survives, does not build, or no
longer applies: its old lines must be in the file exactly once.
Usage: mutate.py [--check-apply | --list] [--only NAME] [--seed N] [--count N] [--jobs N] [TREE]
"""
import argparse
import collections
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

TABLE = "tests/mutations/mutations.txt"
# Which tests are of the cache: programs by their names, and scripts that drive the program.
UNIT = re.compile(r"unit\.(pool|cache|seq|ring|prefix)(_\w+)?$")
SCRIPTS = re.compile(r"cli\.test_(shell\w*|recorded_shell\w*)$")
MEMORY = 4 << 30  # bytes of address space for a test; a fault may make a loop that allocates

Mutation = collections.namedtuple("Mutation", "name file why old new")


def read_table(root):
    """Paragraphs: "@ NAME FILE", "# why", then lines as in a diff: " " both, "-" old, "+" new.

    Blank lines and headings, which begin with ====, stand between them.
    """
    table = []
    text = (root / TABLE).read_text()
    for paragraph in ("\n" + text).split("\n@ ")[1:]:
        head, *lines = [line for line in paragraph.split("\n") if line and line[:4] != "===="]
        name, file = head.split()
        bad = [line for line in lines if line[:1] not in ("#", " ", "-", "+")]
        if bad:
            sys.exit(f"mutate: {TABLE}: {name}: {bad[0]!r}")
        why = " ".join(line[1:].strip() for line in lines if line[0] == "#")
        old = "".join(line[1:] + "\n" for line in lines if line[0] in " -")
        new = "".join(line[1:] + "\n" for line in lines if line[0] in " +")
        table.append(Mutation(name, file, why, old, new))
    return table


def mutated(root, mutation):
    """The file's text with the fault; None: the fault does not apply."""
    path = root / mutation.file
    text = path.read_text() if path.is_file() else ""
    at = [m.start() for m in re.finditer("^" + re.escape(mutation.old), text, re.M)]
    if len(at) != 1 or mutation.old == mutation.new or not mutation.old or not mutation.why:
        return None
    return text[:at[0]] + mutation.new + text[at[0] + len(mutation.old):]


def check_apply(root, table):
    names = [mutation.name for mutation in table]
    problems = [f"{TABLE}: {name} stands there twice" for name in set(names)
                if names.count(name) > 1]
    problems += [f"{TABLE}: {mutation.name} does not apply to {mutation.file}, or changes nothing, "
                 "or does not say why it is wrong" for mutation in table
                 if mutated(root, mutation) is None]
    for problem in problems:
        print(problem)
    return problems


class Build:
    """A copy of the tree with a build folder in it."""

    def __init__(self, root, folder, jobs):
        self.tree = pathlib.Path(folder) / "tree"
        self.build = self.tree / "build"
        self.jobs = str(jobs)
        self.tests = []  # of the cache, the quickest first
        self.seconds = {}
        shutil.copytree(root, self.tree, ignore=shutil.ignore_patterns(
            "build", ".git", "__pycache__"))
        self.call("cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", "-DPKV_WERROR=OFF",
                  "-DCMAKE_BUILD_TYPE=Release", "-DPKV_EXAMPLES=OFF", "-DPKV_TEST_TIMEOUT=",
                  must=True)
        listed = self.call("ctest", "--test-dir", self.build, "-N", must=True).stdout
        for name in re.findall(r"Test +#\d+: (\S+)", listed):
            if UNIT.match(name) or SCRIPTS.match(name):
                self.tests.append(name)

    def call(self, *command, must=False, **more):
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, **more)
        if must and done.returncode != 0:
            sys.exit(f"{done.stdout}\nmutate: failed: {' '.join(map(str, command))}")
        return done

    def compile(self, names, must=False):
        """Builds what these tests need."""
        targets = {name.replace("unit.", "test_") if UNIT.match(name) else "pagedkv"
                   for name in names}
        return self.call("cmake", "--build", self.build, "-j", self.jobs, "--target", *targets,
                         must=must).returncode == 0

    def passes(self, name):
        """Runs one test; one that takes much longer than without a fault hangs."""
        limit = 10 + 10 * self.seconds.get(name, 60)

        def limit_memory():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        done = self.call("ctest", "--test-dir", self.build, "-R", f"^{re.escape(name)}$",
                         "--no-tests=error", "--timeout", int(limit), preexec_fn=limit_memory)
        return done.returncode == 0

    def measure(self):
        """All must pass as they are. How long each takes."""
        self.compile(self.tests, must=True)
        for name in self.tests:
            begin = time.monotonic()
            if not self.passes(name):
                sys.exit(f"mutate: {name} fails without any fault")
            self.seconds[name] = time.monotonic() - begin
        self.tests.sort(key=self.seconds.get)

    def try_out(self, mutation):
        """The verdict on one fault."""
        path = self.tree / mutation.file
        text = path.read_text()
        path.write_text(mutated(self.tree, mutation))
        try:
            # tests that name the part of the file (seq_states, cache_batch, pool_list) first
            words = set(re.split(r"\W|_", mutation.file)) - {"src", "c"}
            telling = sorted(self.tests, key=lambda name: not words & set(re.split(r"\W|_", name)))
            for name in telling:
                if not self.compile([name]):
                    return "DOES NOT BUILD"
                if not self.passes(name):
                    return f"caught by {name}"
            return "SURVIVED"
        finally:
            path.write_text(text)


def choose(args, table):
    """The faults to try: all in the order of the table, or a random sample."""
    if args.only:
        table = [mutation for mutation in table if mutation.name in args.only]
        if len(table) != len(args.only):
            sys.exit("mutate: --only: no such name, see --list")
    if args.seed is not None or args.count is not None:
        seed = args.seed if args.seed is not None else random.randrange(1 << 32)
        print(f"seed {seed}")
        table = random.Random(seed).sample(table, min(len(table), args.count or len(table)))
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check-apply", action="store_true", help="only look whether all apply")
    parser.add_argument("--list", action="store_true", help="only print them")
    parser.add_argument("--only", action="append", metavar="NAME", help="this one; again for more")
    parser.add_argument("--seed", type=int, help="in random order")
    parser.add_argument("--count", type=int, help="so many of them, by chance")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the build")
    parser.add_argument("tree", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    begin = time.monotonic()
    table = read_table(args.tree)
    if args.list:
        for mutation in table:
            print(f"{mutation.name:32} {mutation.file:24} {mutation.why}")
        return 0
    if check_apply(args.tree, table):
        return 1
    if args.check_apply:
        print(f"mutate: all {len(table)} apply")
        return 0
    verdicts = {}
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        chosen = choose(args, table)
        build = Build(args.tree, folder, args.jobs)
        build.measure()
        print(f"{len(build.tests)} tests pass without a fault after "
              f"{time.monotonic() - begin:.0f} s", flush=True)
        for mutation in chosen:
            verdicts[mutation] = build.try_out(mutation)
            print(f"{mutation.name:32} {verdicts[mutation]}", flush=True)
    missed = {m: verdict for m, verdict in verdicts.items() if not verdict.startswith("caught")}
    for mutation, verdict in missed.items():
        print(f"{verdict}: {mutation.name} in {mutation.file}: {mutation.why}")
    print(f"mutate: {len(verdicts) - len(missed)} of {len(verdicts)} caught in "
          f"{time.monotonic() - begin:.0f} s")
    return 1 if missed else 0


sys.exit(main())
