"""pagedkv shell as a program: how it starts and ends, and what it refuses.

Expected values are the contract's. Each refusal leaves the cache as it was.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.program import CONFIGS, PROGRAM, run  # noqa: E402
from support.shell import HOST_BACKED, Case, layer, line, op, specs, start  # noqa: E402

LLAMA = CONFIGS / "meta-llama--Meta-Llama-3.1-8B.json"
NOT_INTEGERS = (-1, 1 << 31, 1 << 62, 1.5, 2.0, True, "1", [1], {})
NOT_BOOLEANS = (0, 1, "true", [], {})
# a: 9 tokens in blocks 1 to 3, of which 8 tokens are keyed; w: 5 tokens, waits
WORK = [op("open", "a", tokens=list(range(1, 10))), op("allocate", "a", new_tokens=9),
        op("open", "w", tokens=[7] * 5)]


class Start(Case):
    def assert_ends(self, document, code, *words):
        done = start(document, line(op("state")))
        self.assertEqual((done.returncode, done.stdout), (code, b""), done.stderr)
        text = done.stderr.decode()
        self.assertEqual(text.count("\n"), 1, text)
        for word in words:
            self.assertIn(word, text)

    def test_one_source_is_needed(self):
        self.assert_line(run("shell"), 2, "--specs", "--model")
        self.assert_line(run("shell", "--specs", LLAMA, "--model", LLAMA, "--memory", "1GiB"), 2,
                         "--specs", "--model")
        self.assert_line(run("shell", "--model", LLAMA), 2, "--memory")

    def test_usage(self):
        for args in (["--spec", "x"], ["x"], ["--specs"], ["--model", LLAMA, "--memory", "x"],
                     ["--model", LLAMA, "--memory", "1GiB", "--tp", "0"]):
            self.assertEqual(run("shell", *args).code, 2, args)
        self.assertIn("--specs", self.assert_done(run("shell", "--help")).out)

    def test_a_file_that_cannot_be_read_is_exit_3(self):
        self.assert_line(run("shell", "--specs", "no/such/file"), 3, "no/such/file")
        self.assert_line(run("shell", "--specs", "tests"), 3, "tests")
        self.assert_line(run("shell", "--model", "no/such/file", "--memory", "1GiB"), 3,
                         "no/such/file")

    def test_specs_that_cannot_be_planned_are_exit_1(self):
        self.assert_ends(specs(blocks=8), 1)  # 32 tokens need 8 blocks beside the null block
        self.assert_ends(specs(layer("a"), layer("b", block_size=6), retention_interval=3), 1)

    def test_specs_that_cannot_be_managed_are_exit_1(self):
        self.assert_ends(HOST_BACKED, 1, "mla_attention")
        unkept = {"name": "m", "kind": "mamba", "block_size": 32, "shapes": [[4, 64]],
                  "dtypes": ["float32"], "mamba_cache_mode": "none", "page_size_padded": 8192}
        self.assert_ends(specs(unkept, blocks=4), 1, "align")

    def test_a_document_outside_the_format_is_bad_input(self):
        for document, word in (("", ""), ("{", ""), ("[]", ""), ({"layers": []}, ""),
                               ({**specs(), "colour": 1}, "colour"),
                               (specs(layer(kind="nonsense")), "nonsense"),
                               ({"merge": [layer()]}, "")):
            with self.subTest(document=document):
                self.assert_ends(document, 2, word)

    def test_a_model(self):
        # 32 layers, each 16 tokens x 8 heads x (128 + 128) x 2 bytes: 2 MiB a block
        done = run("shell", "--model", LLAMA, "--memory", "1GiB", "--max-model-len", "4096",
                   stdin='{"op":"state"}\n')
        state = self.answer(done)
        self.assertEqual(state["free"], list(range(1, 512)))
        done = run("shell", "--model", LLAMA, "--memory", "1GiB", "--max-model-len", "8192",
                   stdin='{"op":"state"}\n')  # 512 blocks beside the null block are needed
        self.assertEqual((done.code, done.out), (1, ""))

    def test_the_end_of_input(self):
        for text, lines in ((b"", 0), (b"\n \r\n\t\n", 0), (b'{"op":"check"}', 1),
                            (b'{"op":"check"}\r\n\n{"op":"check"}\n', 2)):
            done = start(specs(), text)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertEqual(done.stdout, b'{"ok":true}\n' * lines)

    def test_each_answer_comes_before_the_next_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(specs(), file)
            file.flush()
            with subprocess.Popen([PROGRAM, "shell", "--specs", file.name], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) as process:
                for one in (*WORK, op("nonsense"), op("check")):
                    process.stdin.write(line(one))
                    process.stdin.flush()
                    self.assertTrue(json.loads(process.stdout.readline()))
                process.stdin.close()
                self.assertEqual(process.stdout.read(), b"")
            self.assertEqual(process.returncode, 0)

    def test_an_answer_that_cannot_be_written_is_exit_3(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file, \
                open("/dev/full", "wb") as out:
            json.dump(specs(), file)
            file.flush()
            done = subprocess.run([PROGRAM, "shell", "--specs", file.name], stdout=out,
                                  input=line(op("check")) * 3, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 3)


class Lines(Case):
    def test_what_is_no_operation(self):
        deep = "[" * 100000
        self.assert_refused(WORK, [
            "{", "nul", "state", "[]", "5", "null", "true", '"state"', "{}", '{"op":5}',
            '{"op":null}', '{"op":"state"} x', '{"op":"state"}{"op":"state"}',
            '{"op":"state","op":"state"}', '{"op":"state",}', "{'op':'state'}",
            '{"op":"allocate","id":"w","new_tokens":1e400}',
            '{"op":"allocate","id":"w","new_tokens":99999999999999999999}',
            '{"op":"allocate","id":"w","new_tokens":NaN}',
            '{"op":"free","id":"\\ud800"}', '{"op":"free","id":"\\u0000"}',
            b'{"op":"free","id":"\xff"}', b'{"op":"free","id":"\xc0\x80"}', b"\xef\xbb\xbf{}",
            b"\0", b'\0{"op":"state"}', b'{"op":"state"}\0', b'{"op":"sta\0te"}',
            deep, '{"op":' + deep, "x" * 100000], "PKV_E_INVAL")

    def test_unknown_operations_and_fields_are_named(self):
        self.assert_refused(WORK, [
            (op("nonsense"), "nonsense"), (op("State"), "State"), (op(""),),
            (op("x" * 5000),), (op("\u20ac" * 5000),), (op("state", colour=1), "colour"),
            (op("open", "n", tokens=[1], token=[1]), "token"),
            (op("allocate", "w", new_token=1), "new_token"), (op("check", "a"), "id"),
            (op("free", "a", **{"\u20ac" * 5000: 1}),)], "PKV_E_INVAL")

    def test_long_lines(self):
        blocks = [1] * 500000
        answers = self.talk(op("evict", blocks=blocks), op("open", "a", tokens=[0] * 500000),
                            op("open", "n" * 1000000, tokens=[1]), op("batch", ops=[op("check")]
                                                                      * 20000), op("check"))
        self.assertEqual(answers[0], {"ok": True})
        self.assert_error(answers[1], "PKV_E_INVAL")
        self.assertEqual(answers[2]["cached_tokens"], 0)
        self.assertEqual(answers[3], {"answers": [{"ok": True}] * 20000})
        self.assertEqual(answers[4], {"ok": True})

    def test_ids_are_any_text(self):
        names = ["", " ", "a\nb", "\u20ac", "\U0001f600", "id", "\\", '"', "\x7f", "\x01"]
        session = [op("open", name, tokens=[1]) for name in names] + \
            [op("free", name) for name in names] + [op("state")]
        answers = self.talk(*session)
        self.assertEqual(answers[len(names):-1], [{}] * len(names))
        self.assertEqual(answers[-1]["requests"], 0)


class Fields(Case):
    def test_integers(self):
        bad = []
        for value in NOT_INTEGERS:
            for field in ("new_tokens", "external_tokens", "lookahead", "in_flight_tokens",
                          "reserved_blocks", "encoder_tokens"):
                bad.append((op("allocate", "w", **{"new_tokens": 1, field: value}), field))
            bad += [(op(name, "a", tokens=value), "tokens")
                    for name in ("computed", "cache", "zero", "blocks")]
            bad.append((op("steps", ids=["a"], tokens=[[1]], lookahead=value), "lookahead"))
            for field in ("offset", "length"):
                media = {"hash": "h", "offset": 0, "length": 1, field: value}
                bad.append((op("open", "n", tokens=[1, 2], mm=[media]), field))
        bad += [op("allocate", "w"), op("allocate", "w", new_tokens=None), op("computed", "a"),
                op("cache", "a"), op("zero", "a")]
        self.assert_refused(WORK, bad, "PKV_E_INVAL")

    def test_booleans(self):
        bad = []
        for value in NOT_BOOLEANS:
            bad += [(op("allocate", "w", new_tokens=1, **{field: value}), field) for field in
                    ("use_cached", "delay_caching", "full_sequence_must_fit", "others_scheduled")]
            bad += [(op("open", "n", tokens=[1], skip_cache=value), "skip_cache"),
                    (op("free", "a", defer=value), "defer"),
                    (op("lookup", "w", connector=value), "connector")]
        self.assert_refused(WORK, bad, "PKV_E_INVAL")

    def test_tokens(self):
        lists = [None, {}, 5, "12", [1, "x"], [1.5], [1.0], [True], [-1], [1 << 31], [[1]], [None]]
        bad = [op("open", "n"), op("append", "a"), op("open", "n", tokens=[]),
               op("append", "a", tokens=[]), op("steps", ids=["a"], tokens=[])]
        for tokens in lists:
            bad += [op("open", "n", tokens=tokens), op("append", "a", tokens=tokens),
                    op("steps", ids=["a"], tokens=[tokens])]
        self.assert_refused(WORK, bad, "PKV_E_INVAL")

    def test_null_is_a_field_left_out(self):
        answers = self.talk(
            op("open", "a", tokens=[1, 2], salt=None, lora=None, mm=None, skip_cache=None,
               report=None, session=None),
            op("allocate", "a", new_tokens=2, use_cached=None, lookahead=None,
               external_tokens=None, delay_caching=None, in_flight_tokens=None,
               full_sequence_must_fit=None, reserved_blocks=None, encoder_tokens=None,
               others_scheduled=None, skip_zero_groups=None),
            op("blocks", "a", tokens=None), op("free", "a", defer=None))
        self.assertEqual(answers[1]["new_blocks"], [[1]])
        self.assertEqual(answers[2:], [{"blocks": [[1]]}, {}])

    def test_what_a_request_may_say(self):
        bad = [op("open", 5, tokens=[1]), op("open", None, tokens=[1]), op("open", "a", tokens=[1])]
        bad += [op("open", "n", tokens=[1], salt=salt) for salt in ("", 5, [])]
        bad += [op("open", "n", tokens=[1], session=session) for session in (5, ["s"])]
        bad += [op("open", "n", tokens=[1], report=report) for report in ("half", 1, "Full")]
        bad += [op("open", "n", tokens=[1], lora=lora) for lora in
                (5, "n", {}, [], ["n"], ["n", 5], [5, "p"], ["n", "p", -1], ["n", "p", "1"],
                 ["n", "p", 1.0], ["n", "p", 1, 2])]
        one = {"hash": "h", "offset": 1, "length": 2}
        bad += [op("open", "n", tokens=[1, 2, 3, 4], mm=mm) for mm in
                (5, {}, "h", [5], [[]], [{}], [{**one, "hash": 5}], [{**one, "kind": "image"}],
                 [{"hash": "h", "offset": 1}], [{**one, "length": 0}], [{**one, "length": 4}],
                 [{**one, "offset": 4}], [one, one], [one, {**one, "offset": 2}],
                 [{**one, "offset": 2}, {**one, "offset": 0}])]
        self.assert_refused(WORK, bad, "PKV_E_INVAL")

    def test_groups_and_blocks(self):
        # ids of the pool are 0 to 10, and there is one group
        bad = [op("allocate", "w", new_tokens=1, skip_zero_groups=groups) for groups in
               (5, "0", {}, [1], [-1], [0, 1], [0.0], ["0"], [True], [1 << 40])]
        bad += [op("evict"), op("evict", blocks=None)]
        bad += [op("evict", blocks=blocks) for blocks in
                (5, {}, "1", [11], [-1], [1, 2, 11], [1.0], ["1"], [True], [1 << 32], [1 << 62])]
        self.assert_refused(WORK, bad, "PKV_E_INVAL")

    def test_unknown_requests(self):
        fields = {"allocate": {"new_tokens": 1}, "append": {"tokens": [1]},
                  "fork": {"new_id": "n"}, "computed": {"tokens": 1}, "cache": {"tokens": 1},
                  "zero": {"tokens": 0}}
        names = ("lookup", "allocate", "append", "computed", "cache", "blocks", "keys", "cached",
                 "zero", "preempt", "free", "fork")
        unknown = [(op(name, one, **fields.get(name, {})), "id") for name in names
                   for one in ("nobody", "", "x" * 5000, "\u20ac" * 5000)]
        unknown.append(op("steps", ids=["nobody"], tokens=[[1]]))
        self.assert_refused(WORK, unknown, "PKV_E_NOT_FOUND")
        self.assert_refused(WORK, [op(name, one, **fields.get(name, {})) for name in names
                                   for one in (5, True, ["a"], {}, None)], "PKV_E_INVAL")
        self.assert_refused(WORK + [op("free", "w")], [op("free", "w"), op("lookup", "w")],
                            "PKV_E_NOT_FOUND")


class Documented(Case):
    def test_the_session_of_the_documentation(self):
        text = pathlib.Path("docs/formats/shell.md").read_text(encoding="utf-8")
        lines = text.split("```session\n")[1].split("```")[0].splitlines()
        document = "".join(one[2:] for one in lines if one.startswith("# "))
        sent = [one[2:] for one in lines if one.startswith("> ")]
        answers = [one for one in lines if one[0] not in "#>"]
        done = start(document, b"".join(map(line, sent)))
        self.assertEqual(len(sent), len(answers))
        self.assertEqual(done.stdout.decode().splitlines(), answers)

    def test_every_operation_is_documented(self):
        text = pathlib.Path("docs/formats/shell.md").read_text(encoding="utf-8")
        for name in ("open", "lookup", "allocate", "append", "computed", "cache", "blocks", "keys",
                     "cached", "zero", "preempt", "free", "fork", "evict", "reset", "step", "steps",
                     "restart", "state", "stats", "events", "check", "batch", "offloads", "finish",
                     "sparse", "transferred", "loaded"):
            self.assertIn(f"`{name}`", text)


program.main()
