#!/usr/bin/env python3
"""Writes docs/published-plans.md: what engines printed about their KV cache, and what we plan.

figures() names the figures of tests/data/published-plans.csv that can be compared and how; OTHERS
why each other row cannot. A printed size stands for every size that rounds to it.

Usage: published_plans.py PAGEDKV [--check]     --check: is the document up to date?
"""
import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/published-plans.md"
ROWS = ROOT / "tests/data/published-plans.csv"
CONFIGS = ROOT / "tests/data/configs"
UNITS = {"GiB": 2**30, "MiB": 2**20}

# Made from the dimensions in its owner's code (google-deepmind/gemma, gemma/gm/nn/_gemma.py, class
# Gemma3_270M).
MADE = {"gemma-3-270m": {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 18,
    "hidden_size": 640, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
    "sliding_window": 512, "sliding_window_pattern": 6, "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16"}}
# Rows whose model has no config here: one with the same layers, KV heads and head size stands in.
STANDS_IN = "p004 p005 p020 p022 p070"

REASONS = {
    "model": "the printed text does not say which model",
    "family": "an architecture that is not read yet",
    "memory": "no memory printed or implied",
    "block": "tokens per block not printed",
    "dtype": "cache type not printed",
    "format": "the engine's own page format, q8_0",
}
OTHERS = {
    "model": "p007 p010 p013 p016 p017 p023 p032 p034 p035 p040 p061 p064 p073 p079",
    "family": "p008 p019 p025 p026 p028 p038 p041 p043 p044 p046 p047 p049 p050 p052 p053 p055 "
              "p074 p076 p077",
    "memory": "p037 p058 p059 p062",
    "block": "p011",
    "dtype": "p014",
    "format": "p031",
}


class Printed:
    """A printed number: 2.89 stands for [2.885, 2.895], a count for itself. Ends belong to it,
    since ties are rounded either way."""

    def __init__(self, text, unit=""):
        digits = text.replace(",", "")
        self.text = f"{text} {unit}".strip()
        self.value = float(digits)
        half = 0.5 * 10.0 ** -len(digits.partition(".")[2]) if unit or "." in digits else 0
        self.low, self.high = self.value - half, self.value + half

    def bytes(self, unit_bytes):
        """The least, the nominal and the largest number of bytes."""
        return (math.ceil(self.low * unit_bytes), round(self.value * unit_bytes),
                math.floor(self.high * unit_bytes))


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = path, pathlib.Path(folder)

    def config(self, name):
        if name not in MADE:
            return CONFIGS / f"{name}.json"
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(MADE[name]))
        return path

    def plan(self, model, *options):
        command = [self.path, "plan", self.config(model), "--json", *map(str, options)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode > 1 or not done.stdout:
            sys.exit(f"published_plans: {done.stderr}")
        return json.loads(done.stdout)


# ---- ways to compare: (what ours is called, [least, nominal, largest]) ----

def blocks(program, model, memory, options=()):
    """Blocks that fit, at each end of the printed memory."""
    return [program.plan(model, "--memory", n, "--max-model-len", "auto", *options)["num_blocks"]
            for n in memory.bytes(UNITS[memory.text.split()[1]])]


def tokens(program, model, memory, options=()):
    return [16 * n for n in blocks(program, model, memory, options)]


def usable_tokens(program, model, memory, options=()):
    """Without the null block, as that engine counts."""
    return [16 * (n - 1) for n in blocks(program, model, memory, options)]


def concurrency(program, model, memory, length, options=()):
    """Requests of `length` in the blocks that fit; below 1 we would refuse the plan."""
    need = program.plan(model, "--max-model-len", length, *options)["blocks_per_request"]
    return [n / need for n in blocks(program, model, memory, options)]


def concurrency_of_blocks(program, model, count, length):
    memory = count * program.plan(model)["bytes_per_block"]
    plan = program.plan(model, "--memory", memory, "--max-model-len", length)
    return [plan["max_concurrency"]] * 3


def longest(program, model, memory, length):
    """The length that a refusal recommends."""
    return [program.plan(model, "--memory", n, "--max-model-len", length, "--derived")
            ["derived"]["estimated_max_model_len"] for n in memory.bytes(2**30)]


def size(program, model, count, unit, options=(), share=1):
    """`count` tokens, every layer keeping all of them, or a share of that."""
    token = program.plan(model, *options)["bytes_per_token"]
    return [share * token * count / unit] * 3


def windows_capped(program, model, length, requests):
    """The same, but a windowed layer keeps only its window; counted in tokens, not blocks."""
    plan = program.plan(model, "--max-model-len", length, "--block-size", 1,
                        "--max-num-batched-tokens", 1, "--derived")
    layers = plan["derived"]["layers"]
    return [requests * sum(layer["max_memory_bytes"] for layer in layers) / 2**30] * 3


# row, config, settings in words, printed, ours under each reading of what was printed
def figures():
    llama8, llama405 = "meta-llama--Meta-Llama-3.1-8B", "meta-llama--Meta-Llama-3.1-405B"
    coder, gemma = "Qwen--Qwen3-30B-A3B-Instruct-2507", "gemma-3-270m"
    qwen4, gpt = "Qwen--Qwen3-4B", "openai--gpt-oss-20b"
    qwen235, small = "Qwen--Qwen3-235B-A22B-FP8", "mistralai--Devstral-Small-2-24B-Instruct"
    tp4, tp2 = ("--tp", 4), ("--tp", 2)

    yield ("p001", qwen235, "TP 4, blocks of 16, 8.11 GiB", Printed("178,880"), "tokens",
           {"": lambda p, m: tokens(p, m, Printed("8.11", "GiB"), tp4)})
    yield ("p002", qwen235, "TP 4, K of 367404 tokens", Printed("8.23", "GB"), "",
           {f"GB = {name}": lambda p, m, n=n: size(p, m, 367404, n, tp4, 0.5)
            for name, n in (("2^30", 2**30), ("10^9", 10**9))})
    yield ("p004", llama8, "blocks of 16, 2.89 GiB", Printed("1478"), "blocks",
           {"": lambda p, m: blocks(p, m, Printed("2.89", "GiB"))})
    yield ("p004", llama8, "blocks of 16, 2.89 GiB", Printed("23648"), "tokens",
           {"": lambda p, m: tokens(p, m, Printed("2.89", "GiB"))})
    yield ("p004", llama8, "the same, requests of 29000", Printed("0.82"), "at once",
           {"": lambda p, m: concurrency(p, m, Printed("2.89", "GiB"), 29000)})
    yield ("p005", coder, "one request of 262144, all layers", Printed("24.0", "GiB"), "",
           {"": lambda p, m: size(p, m, 262144, 2**30)})
    yield ("p005", coder, "3.18 GiB, all layers", Printed("34736"), "longest",
           {"": lambda p, m: longest(p, m, Printed("3.18", "GiB"), 262144)})
    yield ("p020", "meta-llama--Meta-Llama-3.1-70B", "1381 blocks of 16, requests of 2048",
           Printed("10.79"), "at once", {"": lambda p, m: concurrency_of_blocks(p, m, 1381, 2048)})
    yield ("p022", "Qwen--Qwen2.5-14B-Instruct", "TP 2, blocks of 16, 8.69 GiB", Printed("81536"),
           "tokens", {"": lambda p, m: tokens(p, m, Printed("8.69", "GiB"), tp2)})
    yield ("p029", "deepseek-ai--DeepSeek-V3", "32768 tokens, f16", Printed("2196.00", "MiB"), "",
           {"": lambda p, m: size(p, m, 32768, 2**20)})
    yield ("p056", qwen4, "blocks of 16, 12116 MiB", Printed("5385"), "blocks",
           {"": lambda p, m: blocks(p, m, Printed("12116", "MiB"))})
    yield ("p056", qwen4, "the same, less one block", Printed("86144"), "tokens",
           {"": lambda p, m: usable_tokens(p, m, Printed("12116", "MiB"))})
    for row, model, values in (("p065", llama8, ("0.125", "1.95", "15.62")),
                               ("p067", llama405, ("0.984", "15.38", "123.05"))):
        for k, value in zip((1, 16, 128), values):
            yield (row, model, f"{k}k tokens, FP16, GB = 2^30", Printed(value, "GB"), "",
                   {f"k = {n}": lambda p, m, n=n * k: size(p, m, n, 2**30) for n in (1024, 1000)})
    yield ("p068", gpt, "32 requests of 8192, windows capped", Printed("6.09", "GiB"), "",
           {"": lambda p, m: windows_capped(p, m, 8192, 32)})
    yield ("p068", gpt, "32 requests of 8192, all layers full", Printed("12.00", "GiB"), "",
           {"": lambda p, m: size(p, m, 32 * 8192, 2**30)})
    yield ("p070", small, "128K tokens, 2 bytes an element", Printed("20.0", "GiB"), "",
           {f"K = {n}": lambda p, m, n=128 * n: size(p, m, n, 2**30) for n in (1024, 1000)})
    for value, cells in (("27.0", 1536), ("18.0", 1024)):
        yield ("p071", gemma, f"{cells} cells, f16", Printed(value, "MiB"), "",
               {"": lambda p, m, n=cells: size(p, m, n, 2**20)})


def shown(values, printed):
    """Ours, as exact as it takes to see the difference."""
    if all(isinstance(n, int) for n in values):
        low, nominal, high = (f"{n:,}" for n in values)
        return nominal if low == high else f"{low} to {high}"
    places = len(printed.text.split()[0].partition(".")[2]) + 1
    low, high = f"{values[0]:.{places}f}", f"{values[2]:.{places}f}"
    return low if low == high else f"{low} to {high}"


def percent(values, printed):
    return 100 * (values[1] / printed.value - 1)


def signed(difference):
    return f"{difference:+.1f} %".replace("-0.0", "0.0").replace("+0.0", "0.0")


def is_equal(values, printed):
    return values[0] <= printed.high and values[2] >= printed.low


def best_reading(printed, readings):
    """The reading that agrees, else the closest one; and the others as a note."""
    order = sorted(readings.items(),
                   key=lambda r: (not is_equal(r[1], printed), abs(percent(r[1], printed))))
    (name, values), others = order[0], order[1:]
    note = "".join(f"; {other}: {signed(percent(v, printed))}" for other, v in others)
    return name, values, note


def config_words(row, model):
    if model in MADE:
        return "from its dimensions"
    return model.partition("--")[2] + (", stands in" if row in STANDS_IN.split() else "")


def compared(program, rows):
    """Lines of the table, and how many figures are equal and differ."""
    lines, counts = [], {True: 0, False: 0}
    for row, model, settings, printed, noun, ways in figures():
        if printed.text.split()[0] not in " ".join(rows[row].values()):
            sys.exit(f"published_plans: {row} does not say {printed.text}")
        readings = {name: way(program, model) for name, way in ways.items()}
        name, values, note = best_reading(printed, readings)
        equal = is_equal(values, printed)
        counts[equal] += 1
        difference = percent(values, printed)
        verdict = "equal within the printed rounding" if equal else \
            f"**differs by {abs(difference):.1f} %, cause unknown**"
        reading = f" ({name}{note})" if name else ""
        lines.append(f"| {row} | {rows[row]['model']} | {config_words(row, model)} | {settings} | "
                     f"{f'{printed.text} {noun}'.strip()} | {shown(values, printed)} | "
                     f"{signed(difference)} | {verdict}{reading} |")
    return lines, counts


def others(rows):
    reasons = {row: word for word, ids in OTHERS.items() for row in ids.split()}
    used = {figure[0] for figure in figures()}
    if used | reasons.keys() != rows.keys() or used & reasons.keys():
        sys.exit(f"published_plans: figures() and OTHERS miss or repeat rows: "
                 f"{sorted(used ^ reasons.keys() ^ rows.keys())}")
    return [f"| {row} | {rows[row]['source']} | {rows[row]['model']} | {word} |"
            for row, word in sorted(reasons.items())]


HEAD = """# Published plans

What engines printed about their KV cache, beside what `pagedkv plan` gives for the same model.
tools/published_plans.py wrote this page; a test keeps it up to date.

The figures are in tests/data/published-plans.csv. They were collected from public issue threads,
pull requests and tables; each row names its source, and the quoted text belongs to its authors.
Where no block size was printed, blocks have 16 tokens, the engine's default. Configs are those of
tests/data/configs; one that stands in for the named model has the same layers, KV heads and head
size. "From its dimensions": made from the owner's code (google-deepmind/gemma, class Gemma3_270M).

A printed size stands for all sizes that round to it: ours is then a range, and "equal" means that
the two ranges meet. The percentage is between the printed and our nominal value. Where a text
does not say what its unit means, every reading is shown. A difference without a proven cause
stays "cause unknown".

"""


def document(program):
    with open(ROWS, newline="", encoding="utf-8") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    lines, counts = compared(program, rows)
    used = sorted({figure[0] for figure in figures()})
    return (HEAD + f"## Compared: {len(lines)} figures of {len(used)} rows, {counts[True]} equal, "
            f"{counts[False]} different\n\n"
            "| row | model | config | settings | printed | ours | difference | |\n"
            "|---|---|---|---|---|---|---|---|\n" + "\n".join(lines) + "\n\nSources:\n\n"
            + "".join(f"* {row}: {rows[row]['source']}, {rows[row]['engine']}\n" for row in used)
            + "\n## Not compared\n\n"
            + "".join(f"* {word}: {text}\n" for word, text in REASONS.items())
            + "\n| row | source | model | reason |\n|---|---|---|---|\n" + "\n".join(others(rows))
            + "\n")


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    if len(words) != 1:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        text = document(Program(words[0], folder))
    if "--check" not in sys.argv:
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_text(text, encoding="utf-8")
    elif not DOCUMENT.is_file() or DOCUMENT.read_text(encoding="utf-8") != text:
        sys.exit("published_plans: docs/published-plans.md is not what the program gives; "
                 "run tools/published_plans.py PAGEDKV")
    print("published plans: ok")


main()
