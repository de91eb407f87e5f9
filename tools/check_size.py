#!/usr/bin/env python3
"""Files stay under 500 lines, functions under 70, lines under 101 columns.

What is longer for a reason stands in tools/size_allow.txt, one "PATH" or "PATH:FUNCTION" a line
with its reason after #. An entry that is no longer needed is a problem too.
Usage: check_size.py [TREE]
"""
import re

import house

FILE_LINES = 500
FUNCTION_LINES = 70
COLUMNS = 100


def functions(text):
    """(name, first line, lines) of every function: clang-format puts its braces in column 0."""
    lines = [line.rstrip() for line in house.code_only(text).split("\n")]
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            first = start
            while first > 0 and lines[first - 1] and lines[first - 1][-1] not in ";}/\\":
                first -= 1
            name = re.search(r"(\w+)\s*\(", " ".join(lines[first:start]))
            yield (name.group(1) if name else "?", first + 1, number - first + 1)
            start = None


def allowed(root):
    path = root / "tools/size_allow.txt"
    if not path.is_file():
        return set()
    entries = (line.split("#")[0].strip() for line in path.read_text().split("\n"))
    return {entry for entry in entries if entry}


def main():
    root = house.root_from_args()
    unused = allowed(root)
    allow = frozenset(unused)
    problems = []

    def over(key, text):
        if key in allow:
            unused.discard(key)
        else:
            problems.append(text)

    for path in house.files(root, {".c", ".h", ".py", ".sh"}, house.CODE_DIRS + ("tools",)):
        text = (root / path).read_text()
        count = text.count("\n")
        if count > FILE_LINES:
            over(str(path), f"{path}: {count} lines, at most {FILE_LINES}")
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > COLUMNS:
                problems.append(f"{path}:{number}: {len(line)} columns, at most {COLUMNS}")
        if path.suffix != ".c":
            continue
        for name, first, length in functions(text):
            if length > FUNCTION_LINES:
                over(f"{path}:{name}",
                     f"{path}:{first}: {name}() has {length} lines, at most {FUNCTION_LINES}")
    problems += [f"tools/size_allow.txt: {entry} is not needed" for entry in sorted(unused)]
    house.finish("size", problems)


main()
