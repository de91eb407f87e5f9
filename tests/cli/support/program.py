"""Runs the program under test, which each test file gets as its first argument."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]
CONFIGS = pathlib.Path("tests/data/configs")
GIB = 1 << 30

FULL = {"kind": "full_attention", "block_size": 16, "num_kv_heads": 8, "head_size": 128,
        "dtype": "bfloat16"}  # a page of 16 x 8 x (128 + 128) x 2 = 65536 bytes


def layer(name, **fields):
    return {"name": name, **FULL, **fields}


def document(*layers, available_bytes=GIB, max_model_len=1024, **more):
    return {"available_bytes": available_bytes, "max_model_len": max_model_len, **more,
            "layers": list(layers)}


class Done:
    """What a run left: exit code, stdout, stderr."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)


def run(*args, stdin=""):
    return Done(subprocess.run([PROGRAM, *map(str, args)], input=stdin, capture_output=True,
                               text=True, check=False, timeout=120))


def run_specs(text, *options):
    """plan --specs of a document, as a text or as an object."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text if isinstance(text, str) else json.dumps(text))
        file.flush()
        return run("plan", "--specs", file.name, *options)


def run_config(config, *options):
    """plan of a config, as a text or as an object."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(config if isinstance(config, str) else json.dumps(config))
        file.flush()
        return run("plan", file.name, *options)


class Case(unittest.TestCase):
    """Assertions on exit codes."""

    def assert_done(self, done):
        self.assertEqual((done.code, done.err), (0, ""), done.err)
        return done

    def answer(self, done):
        """The one JSON document of a run that succeeded."""
        self.assert_done(done)
        self.assertEqual(done.out.count("\n"), 1)
        return done.json

    def assert_line(self, done, code, *parts):
        """That exit code, one line on stderr that holds the parts, and nothing on stdout."""
        self.assertEqual((done.code, done.out), (code, ""), done.err)
        self.assertTrue(done.err.endswith("\n") and done.err.count("\n") == 1, repr(done.err))
        for part in parts:
            self.assertIn(part, done.err)

    def assert_no(self, done, code, *parts):
        """Exit 1 and an error document on stdout."""
        self.assertEqual((done.code, done.err), (1, ""), done.out)
        self.assertEqual(done.json["code"], code)
        for part in parts:
            self.assertIn(part, done.json["error"])


def main():
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:])
