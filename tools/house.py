"""What the checks of the house share: the files, and C text without comments and strings."""
import pathlib
import re
import sys

CODE_DIRS = ("include", "src", "cli", "tests", "fuzz", "bench", "examples")


def root_from_args():
    """The tree to look at: the first argument, or the one that this script stands in."""
    if len(sys.argv) > 1:
        return pathlib.Path(sys.argv[1])
    return pathlib.Path(__file__).resolve().parent.parent


def files(root, suffixes, dirs=CODE_DIRS):
    """Files with these suffixes, sorted, as paths relative to root."""
    found = []
    for folder in dirs:
        for path in (root / folder).rglob("*"):
            if path.is_file() and path.suffix in suffixes:
                found.append(path.relative_to(root))
    return sorted(found)


_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_only(text):
    """Comments and literals become blanks; line numbers stay."""
    return _TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def finish(name, problems):
    """Prints the problems and ends with 0 or 1."""
    for problem in problems:
        print(problem)
    print(f"{name}: {len(problems)} problem(s)" if problems else f"{name}: ok")
    sys.exit(1 if problems else 0)
