"""The program as such: help, version, exit codes, words that it does not know."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.program import PROGRAM, layer, document, run, run_specs  # noqa: E402

LLAMA = program.CONFIGS / "meta-llama--Meta-Llama-3.1-8B.json"


class Usage(program.Case):
    def test_help_is_printed_and_is_a_success(self):
        for args in (["--help"], ["help"]):
            text = self.assert_done(run(*args)).out
            for command in ("bench", "keys", "plan", "shell", "transfer"):
                self.assertIn(f"\n  {command} ", text)
        text = self.assert_done(run("plan", "--help")).out
        for option in ("--specs", "--json", "--derived", "--emit-specs", "--memory",
                       "--block-size", "--kv-dtype", "--max-model-len", "--max-num-seqs",
                       "--max-num-batched-tokens", "--tp", "--pp", "--dp", "--dcp", "--pcp",
                       "--layout", "--no-prefix-caching"):
            self.assertIn(option + " ", text)

    def test_help_of_layout_lists_its_options(self):
        text = self.assert_done(run("layout", "--help")).out
        for option in ("--file", "--json", "--engine", "--shape", "--strides", "--offset",
                       "--dtype", "--hint", "--structure", "--device"):
            self.assertIn(option + " ", text)

    def test_version_is_that_of_the_library(self):
        with open("include/pkv/version.h", encoding="utf-8") as header:
            words = [line.split() for line in header if "define PKV_VERSION_" in line]
        version = ".".join(word[2] for word in words if len(word) == 3)
        self.assertEqual(self.assert_done(run("--version")).out, f"pagedkv {version}\n")

    def test_without_a_command_the_usage_is_an_error(self):
        done = run()
        self.assertEqual((done.code, done.out), (2, ""))
        self.assertIn("usage:", done.err)

    def test_unknown_words_are_named_in_one_line(self):
        self.assert_line(run("plane"), 2, '"plane"')
        self.assert_line(run("plan", LLAMA, "--memroy", "8GiB"), 2, '"--memroy"')
        self.assert_line(run("plan", LLAMA, LLAMA), 2, "unexpected")
        self.assert_line(run("plan", LLAMA, "-j"), 2, '"-j"')

    def test_a_model_or_specs_are_needed_and_not_both(self):
        self.assert_line(run("plan"), 2, "MODEL", "--specs")
        self.assert_line(run("plan", LLAMA, "--specs", "-"), 2, "MODEL", "--specs")

    def test_options_have_their_value_once(self):
        self.assert_line(run("plan", LLAMA, "--memory"), 2, "--memory needs a value")
        self.assert_line(run("plan", LLAMA, "--tp", 1, "--tp", 2), 2, "--tp is given twice")
        self.assert_line(run("plan", LLAMA, "--json=yes"), 2, "--json takes no value")
        both = run("plan", LLAMA, "--tp=2", "--json"), run("plan", LLAMA, "--tp", 2, "--json")
        self.assertEqual(self.answer(both[0]), self.answer(both[1]))

    def test_numbers_are_whole_and_in_range(self):
        for option in ("--tp", "--pp", "--dp", "--dcp", "--pcp", "--block-size",
                       "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens"):
            for value in ("0", "-1", "1.5", "x", "", "9223372036854775808",
                          "99999999999999999999999", "1 ", "+1", "0x10"):
                self.assert_line(run("plan", LLAMA, option, value), 2, option)

    def test_options_of_models_do_not_go_with_specs(self):
        self.assert_line(run_specs(document(layer("a")), "--memory", "8GiB"), 2, "--memory")
        self.assert_line(run_specs(document(layer("a")), "--emit-specs"), 2, "--emit-specs")


class Environment(program.Case):
    def test_a_file_that_cannot_be_read_is_exit_3(self):
        self.assert_line(run("plan", "no/such/file"), 3, "no/such/file")
        self.assert_line(run("plan", "--specs", "no/such/file"), 3, "no/such/file")
        self.assert_line(run("plan", "--specs", "tests", "--json"), 3, "tests")  # a folder
        self.assert_line(run("plan", "tests"), 3, "config.json")  # a folder without a config

    def full_device(self, *args):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with open("/dev/full", "w", encoding="utf-8") as out:
            return subprocess.run([PROGRAM, *map(str, args)], stdout=out, stderr=subprocess.PIPE,
                                  text=True, check=False)

    def test_an_answer_that_cannot_be_written_is_exit_3(self):
        done = self.full_device("plan", LLAMA, "--json")
        self.assertEqual(done.returncode, 3)
        self.assertNotIn("out of memory", done.stderr)

    def test_a_screen_that_cannot_be_written_is_exit_3(self):
        self.assertEqual(self.full_device("plan", LLAMA).returncode, 3)


program.main()
