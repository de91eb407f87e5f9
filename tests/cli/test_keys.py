"""Keys of random requests: `pagedkv keys` against another implementation, with other libraries.

vLLM's functions are computed here by cbor2, hashlib and xxhash; our own from their description in
docs/formats/keys.md, whose vectors are checked too. Then what the command refuses.

Usage: test_keys.py PAGEDKV [SEED]
"""
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

try:
    import cbor2
    import xxhash
except ImportError as error:
    # the system's packages belong to its own Python, which need not be the first one in PATH
    SYSTEM = "/usr/bin/python3"
    if sys.executable != SYSTEM and os.path.exists(SYSTEM):
        os.execv(SYSTEM, [SYSTEM, *sys.argv])
    print(f"skipped: {error} (Debian: python3-cbor2, python3-xxhash)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FUNCTIONS = ("sha256_cbor", "xxhash_cbor", "pkv_sha256", "pkv_xxh3")
DEFAULT_SEED = "vllm-none-hash"


# ---- the other implementation

def sha256(data):
    return hashlib.sha256(data).digest()


def digest_of(name):
    return sha256 if "sha256" in name else lambda data: xxhash.xxh3_128(data).digest()


def overlapping(doc, start, end):
    """(id, offset from start) of the media in [start, end)."""
    return [(item["hash"], item["offset"] - start) for item in doc.get("mm") or []
            if item["offset"] < end and item["offset"] + item["length"] > start]


def rows_digest(doc, start, end):
    embeds = doc["embeds"]
    size = embeds["row_bytes"]
    return sha256(bytes.fromhex(embeds["data"])[start * size:end * size])


def cbor_key(doc, parent, start, end, more):
    extra = []
    if doc.get("lora"):
        extra.append(["lora", *doc["lora"]])
    extra += [["mm", *item] for item in overlapping(doc, start, end + more)]
    if doc.get("salt") and start == 0:
        extra.append(["cache_salt", doc["salt"]])
    if doc.get("embeds"):
        extra.append(["prompt_embeds", rows_digest(doc, start, end + more)])
    extra = extra or None
    if more:
        extra = [extra, *doc["tokens"][end:end + more]]
    message = cbor2.dumps([parent, doc["tokens"][start:end], extra], canonical=True)
    return digest_of(doc["hash"])(message)


def counted(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def own_key(doc, parent, start, end, more):
    kind, rest = 0x80, b""
    if doc.get("lora"):
        kind |= 1
        rest += counted(doc["lora"][0]) + counted(doc["lora"][1])
    media = overlapping(doc, start, end + more)
    if media:
        kind |= 2
        rest += struct.pack("<Q", len(media))
        rest += b"".join(struct.pack("<q", offset) + counted(name) for name, offset in media)
    if doc.get("embeds"):
        kind |= 4
        rest += rows_digest(doc, start, end + more)
    tokens = doc["tokens"][start:end + more]
    message = b"pkvkey\x01" + bytes([kind]) + parent
    message += struct.pack(f"<II{len(tokens)}I", end - start, more, *tokens) + rest
    return digest_of(doc["hash"])(message)


def own_root(doc, salt):
    cluster = bytes.fromhex(doc.get("cluster_seed") or "00" * 32)
    salted = sha256(salt.encode()) if salt else bytes(32)
    mixed = bytes(a ^ b for a, b in zip(cluster, salted))
    seed = sha256(seed_of(doc).encode())
    return sha256(b"pkvkey\x01\x00" + seed + mixed)[:32 if "sha256" in doc["hash"] else 16]


def seed_of(doc):
    return DEFAULT_SEED if doc.get("seed") is None else doc["seed"]


def event_extras(doc, start, end, more):
    extras = [doc["lora"][0]] if doc.get("lora") else []
    extras += [list(item) for item in overlapping(doc, start, end + more)]
    if doc.get("salt") and start == 0:
        extras.append(doc["salt"])
    if doc.get("embeds"):
        extras.append(rows_digest(doc, start, end + more).hex())
    return extras or None


def answer_to(doc):
    doc = {**doc, "hash": doc.get("hash") or "sha256_cbor"}
    unit, more, own = doc["block_size"], doc.get("lookahead") or 0, doc["hash"].startswith("pkv_")
    if own:
        none, parent = own_root(doc, None), own_root(doc, doc.get("salt"))
    else:
        none = parent = digest_of(doc["hash"])(cbor2.dumps(seed_of(doc), canonical=True))
    keys, extras, ahead = [], [], []
    for end in range(unit, len(doc["tokens"]) - more + 1, unit):
        parent = (own_key if own else cbor_key)(doc, parent, end - unit, end, more)
        keys.append(parent)
        extras.append(event_extras(doc, end - unit, end, more))
        ahead.append(doc["tokens"][end:end + more])
    answer = {"none_hash": none.hex(), "keys": [key.hex() for key in keys],
              "event_ints": [str(int.from_bytes(key, "big") % 2**64) for key in keys],
              "extra_keys": extras}
    if more:
        answer["lookahead_tokens"] = ahead
    if doc.get("view"):
        step = doc["view"] // unit
        keys = keys[step - 1::step]
        answer["view_keys"] = [key.hex() for key in keys]
    if doc.get("group") is not None:
        group = doc["group"].to_bytes(4, "big")
        answer["group_keys"] = [(key + group).hex() for key in keys]
    return answer


# ---- random requests

def random_text(rng):
    length = rng.choice([1, 2, 5, 23, 24, 64, 255, 256, 300])
    return "".join(rng.choice("abcz09/_-\u00e4\u20ac\U0001f600") for _ in range(length))


def random_tokens(rng, n):
    edges = (0, 1, 23, 24, 255, 256, 65535, 65536, 2**31 - 1)
    pick = rng.choice([lambda: rng.randrange(30), lambda: rng.randrange(300),
                       lambda: rng.randrange(128256), lambda: rng.randrange(2**31),
                       lambda: rng.choice(edges)])
    return [pick() for _ in range(n)]


def random_media(rng, unit):
    items, at = [], 0
    for _ in range(rng.randrange(6)):
        at += rng.choice([0, 0, 1, unit, rng.randrange(40)])
        length = rng.choice([1, 2, unit, rng.randrange(1, 3 * unit + 2)])
        items.append({"hash": rng.choice(["", random_text(rng)]), "offset": at, "length": length})
        at += length
    return items


def random_document(rng, function):
    unit = rng.choice([1, 2, 3, 4, 8, 16, 16, 16, 23, 24, 32, 64, 128, 255, 256, 300])
    n = rng.randrange(unit * rng.choice([2, 4, 9]) + 5)
    doc = {"tokens": random_tokens(rng, n), "block_size": unit, "hash": function}
    size = rng.choice([1, 3, 4, 16])
    rows = rng.choice([0, n, rng.randrange(n + 1)])
    optional = {"seed": rng.choice(["", "0", "123", random_text(rng)]), "salt": random_text(rng),
                "lora": [rng.choice(["", random_text(rng)]) for _ in range(2)],
                "mm": random_media(rng, unit), "view": unit * rng.randrange(1, 5),
                "embeds": {"row_bytes": size, "data": rng.randbytes(size * rows).hex()},
                "lookahead": rng.choice([0, 1, 1, 2, 3, unit, unit + 1, 30]),
                "group": rng.choice([0, 1, 258, 2**32 - 1])}
    if function.startswith("pkv_"):
        optional["cluster_seed"] = rng.randbytes(32).hex()
    for name, value in optional.items():
        kind = rng.randrange(6)
        if kind < 2:
            doc[name] = value
        elif kind == 2:
            doc[name] = None
    return doc


# ---- checks

def check(condition, *what):
    if not condition:
        print("FAILED:", *(str(one)[:2000] for one in what))
        sys.exit(1)


def run(program, *args, text=None):
    return subprocess.run([program, "keys", *args], input=text, capture_output=True, text=True,
                          check=False)


def ask_lines(program, documents):
    done = run(program, "--file", "-", text="".join(f"{json.dumps(one)}\n" for one in documents))
    check(done.returncode == 0 and done.stderr == "", done)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_equal(doc, want, got):
    for name in want:
        check(got.get(name) == want[name], name, "of", json.dumps(doc), "\nexpected", want[name],
              "\nfound   ", got.get(name), got.get("error"))
    check(got.keys() == want.keys(), doc, list(got))


def check_random(program, seed, each):
    rng = random.Random(seed)
    documents = [random_document(rng, name) for name in FUNCTIONS for _ in range(each)]
    answers = ask_lines(program, documents)
    check(len(answers) == len(documents), len(answers))
    keys = 0
    for doc, got in zip(documents, answers):
        check_equal(doc, answer_to(doc), got)
        keys += len(got["keys"])
    print(f"{len(documents)} requests, {keys} keys")


def check_vectors(program):
    """The block of the format's description: a document, then its keys."""
    text = (ROOT / "docs/formats/keys.md").read_text(encoding="utf-8")
    vectors = []
    for line in text.split("```vectors\n")[1].split("```")[0].splitlines():
        if line.startswith(" "):
            vectors[-1][1].append(line.strip())
        else:
            vectors.append((json.loads(line), []))
    answers = ask_lines(program, [doc for doc, _ in vectors])
    for (doc, keys), got in zip(vectors, answers, strict=True):
        check(answer_to(doc)["keys"] == keys, "vector of", doc)
        check(got["keys"] == keys, "answer to", doc)
    print(f"{len(vectors)} vectors")


def check_salt_algebra(program):
    """A cluster seed and a salt are one seed: their XOR, the salt as its SHA-256."""
    for name in FUNCTIONS[2:]:
        seed, salt = bytes(range(32)), "tenant"
        mixed = bytes(a ^ b for a, b in zip(seed, sha256(salt.encode())))
        doc = {"tokens": list(range(64)), "block_size": 16, "hash": name}
        both, one, other = ask_lines(program, [
            {**doc, "cluster_seed": seed.hex(), "salt": salt}, {**doc, "cluster_seed": mixed.hex()},
            {**doc, "cluster_seed": seed.hex()}])
        check(both["keys"] == one["keys"], name)
        check(not set(both["keys"]) & set(other["keys"]), name)


# Each is DOC with one change, and a word that the refusal must hold.
REFUSED = [
    ({"tokens": None}, "tokens"), ({"tokens": 3}, "tokens"), ({"tokens": [-1]}, "tokens[0]"),
    ({"tokens": [0, 2**31]}, "tokens[1]"), ({"tokens": [1.0]}, "tokens[0]"),
    ({"tokens": ["1"]}, "tokens[0]"), ({"tokens": [True]}, "tokens[0]"),
    ({"block_size": None}, "block_size"), ({"block_size": 0}, "block_size"),
    ({"block_size": -16}, "block_size"), ({"block_size": 16.0}, "block_size"),
    ({"hash": "sha256"}, "pickle"), ({"hash": "xxhash"}, "pickle"), ({"hash": "md5"}, "md5"),
    ({"hash": 1}, "hash"), ({"seed": 123}, "seed"), ({"salt": ""}, "salt"), ({"salt": 1}, "salt"),
    ({"cluster_seed": "00" * 32}, "cluster_seed"),
    ({"hash": "pkv_sha256", "cluster_seed": "00" * 31}, "cluster_seed"),
    ({"hash": "pkv_sha256", "cluster_seed": "0" * 63}, "cluster_seed"),
    ({"hash": "pkv_sha256", "cluster_seed": "g" + "0" * 63}, "cluster_seed"),
    ({"hash": "pkv_xxh3", "cluster_seed": 0}, "cluster_seed"),
    ({"lora": ["n"]}, "lora"), ({"lora": ["n", None]}, "lora"), ({"lora": "n"}, "lora"),
    ({"lora": ["n", "p", "x"]}, "lora"), ({"mm": {}}, "mm"), ({"mm": [3]}, "mm[0]"),
    ({"mm": [{"offset": 0, "length": 1}]}, "hash"),
    ({"mm": [{"hash": "a", "offset": -1, "length": 1}]}, "offset"),
    ({"mm": [{"hash": "a", "offset": 0, "length": 0}]}, "length"),
    ({"mm": [{"hash": "a", "offset": 0}]}, "length"),
    ({"mm": [{"hash": "a", "offset": 0, "length": 2**63 - 1},
             {"hash": "b", "offset": 2**63 - 1, "length": 1}]}, "mm[1]"),
    ({"mm": [{"hash": "a", "offset": 0, "length": 1, "kind": "image"}]}, "kind"),
    ({"mm": [{"hash": "a", "offset": 4, "length": 4}, {"hash": "b", "offset": 7, "length": 1}]},
     "mm[1]"),
    ({"embeds": {"row_bytes": 0, "data": ""}}, "row_bytes"),
    ({"embeds": {"data": ""}}, "row_bytes"),
    ({"embeds": {"row_bytes": 2, "data": "000"}}, "data"),
    ({"embeds": {"row_bytes": 4, "data": "0000"}}, "data"),
    ({"embeds": {"row_bytes": 4, "data": "0x000000"}}, "data"), ({"embeds": []}, "embeds"),
    ({"embeds": {"row_bytes": 1}}, "data"), ({"embeds": {"row_bytes": 1, "data": "", "x": 1}}, "x"),
    ({"lookahead": -1}, "lookahead"), ({"lookahead": "1"}, "lookahead"),
    ({"view": 24}, "view"), ({"view": 0}, "view"), ({"view": 8}, "view"),
    ({"group": -1}, "group"), ({"group": 2**32}, "group"), ({"lookahaed": 1}, "lookahaed"),
    ({"salt": "a\0b"}, "NUL"),
]
DOC = {"tokens": [1, 2, 3], "block_size": 16}


def check_refusals(program, folder):
    """Exit code 2, one line on stderr, nothing on stdout; as a line: the code INPUT."""
    texts = [(json.dumps({**DOC, **change}), word) for change, word in REFUSED]
    texts += [("", "expected"), ("[]", "object"), ("{", "document"), ("{} {}", "end"),
              ("nul", "JSON"),
              ('{"tokens": [], "tokens": [], "block_size": 1}', "once"),
              (json.dumps(DOC)[:-1] + ', "salt": "\\ud800"}', "JSON")]
    path = folder / "document.json"
    for text, word in texts:
        path.write_text(text, encoding="utf-8")
        for options in (["--json"], []):
            done = run(program, "--file", str(path), *options)
            check(done.returncode == 2 and done.stdout == "", text, done)
            check(done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), text, done)
            check(word in done.stderr, word, "is missing:", text, done.stderr)
    lines = "".join(f"{text}\n{json.dumps(DOC)}\n" for text, _ in texts)
    done = run(program, "--file", "-", text=lines)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    check(done.returncode == 0 and done.stderr == "", done)
    for answer in answers:
        check("keys" in answer or answer.get("code") == "INPUT", answer)
    refused = len(texts) - 1  # the empty text is a blank line there, which is passed over
    check(sum("error" in one for one in answers) == refused, len(answers))
    check(sum("keys" in one for one in answers) == len(texts), len(answers))
    print(f"{len(texts)} refusals")


def check_command(program, folder):
    doc = {"tokens": list(range(100)), "block_size": 16, "lora": ["n", "p"], "view": 32, "group": 1}
    path = folder / "request.json"
    path.write_text(json.dumps(doc), encoding="utf-8")
    done = run(program, "--file", str(path), "--json")
    check(done.returncode == 0 and done.stderr == "", done)
    check_equal(doc, answer_to(doc), json.loads(done.stdout))
    plain = run(program, "--file", str(path))
    check(plain.returncode == 0, plain)
    check(plain.stdout == "".join(f"{key}\n" for key in answer_to(doc)["keys"]), plain.stdout)

    check(run(program, "--file", str(folder / "nothing.json")).returncode == 3, "no such file")
    for args in ([], ["--file"], ["--file", str(path), "more"], ["--files", str(path)]):
        check(run(program, *args).returncode == 2, args)
    help_text = run(program, "--help")
    check(help_text.returncode == 0 and "--file" in help_text.stdout, help_text)

    # nothing to key, and sizes at the end of their range
    for change in ({"tokens": []}, {"block_size": 2**63 - 1}, {"lookahead": 2**63 - 1},
                   {"block_size": 2**62, "view": 2**62}):
        got, = ask_lines(program, [{**DOC, **change}])
        check_equal(change, answer_to({**DOC, **change}), got)


def main():
    program = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    print(f"seed {seed}: test_keys.py PAGEDKV {seed}")
    check_random(program, seed, 150)
    check_vectors(program)
    check_salt_algebra(program)
    with tempfile.TemporaryDirectory() as folder:
        check_refusals(program, pathlib.Path(folder))
        check_command(program, pathlib.Path(folder))


main()
