"""Sessions of `pagedkv shell`, for the tests of it."""
import json
import subprocess
import tempfile

from support import program

SMALL = {"kind": "full_attention", "block_size": 4, "num_kv_heads": 1, "head_size": 64,
         "dtype": "bfloat16"}


def layer(name="a", **fields):
    return {"name": name, **SMALL, **fields}


def specs(*layers, blocks=11, **more):
    """A cache of 4-token blocks, ids 1 to blocks - 1, for requests of up to 32 tokens."""
    options = {"num_blocks_override": blocks, **more.pop("options", {})}
    return program.document(*(layers or (layer(),)), max_model_len=32, options=options, **more)


# Sparse latent attention whose history lives in a host pool (HiSparse): planned, not managed yet.
HOST_BACKED = program.document(
    layer("source", kind="mla_attention", block_size=16, head_size=576, dtype="uint8",
          state_content_bytes=656, topk_buffer_width=16, is_index_group_leader=True),
    layer("indexer", kind="mla_attention", block_size=16, head_size=132, dtype="uint8",
          cache_role="indexer"),
    max_model_len=384,
    options={"num_blocks_override": 181, "layout": "BLHNC", "max_num_batched_tokens": 64,
             "hisparse": {"host_bytes": 1574400, "device_buffer_rows": 32}})


def start(document, stdin, *options):
    """A run of the shell on a document; stdin: bytes."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(document if isinstance(document, str) else json.dumps(document))
        file.flush()
        return subprocess.run([program.PROGRAM, "shell", "--specs", file.name, *options],
                              input=stdin, capture_output=True, check=False, timeout=120)


def line(op):
    """An operation as a line: bytes and texts as they are."""
    text = op if isinstance(op, (bytes, str)) else json.dumps(op)
    return (text if isinstance(text, bytes) else text.encode()) + b"\n"


def op(name, request=None, **fields):
    return {"op": name, **({} if request is None else {"id": request}), **fields}


class Case(program.Case):
    """Assertions on sessions."""

    def talk(self, *ops, document=None):
        """The answers of a session that went well."""
        done = start(document or specs(), b"".join(map(line, ops)))
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stderr)
        answers = [json.loads(text) for text in done.stdout.splitlines()]
        self.assertEqual(len(answers), len(ops), answers)
        return answers

    def assert_error(self, answer, code, *words):
        self.assertEqual(set(answer), {"error", "code"}, answer)
        self.assertEqual(answer["code"], code, answer)
        for word in words:
            self.assertIn(word, answer["error"])

    def assert_refused(self, before, refused, code, document=None):
        """After the operations `before`, each of `refused` is, and changes nothing.

        `refused` holds operations, or pairs of an operation and words that its text must hold."""
        look = [op("state"), op("events"), op("stats"), op("check")]
        pairs = [one if isinstance(one, tuple) else (one,) for one in refused]
        session = [*before, *look[1:3], op("state")]
        for bad, *_ in pairs:
            session += [bad, *look]
        answers = self.talk(*session, document=document)
        for one in answers[:len(before)]:
            self.assertNotIn("error", one)
        at, quiet = len(before) + 3, answers[len(before) + 1]
        quiet = {key: False if key == "reset" else 0 for key in quiet}
        for bad, *words in pairs:
            with self.subTest(bad=line(bad)[:200]):
                self.assert_error(answers[at], code, *words)
                self.assertEqual(answers[at + 1:at + 5],
                                 [answers[len(before) + 2], {"events": []}, quiet, {"ok": True}])
            at += 5
