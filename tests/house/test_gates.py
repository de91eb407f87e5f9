"""The gates themselves: each accepts this tree's rules and refuses one breach of each of them.

A gate that passes everything looks exactly like one that works, so each runs on a small tree with
one planted fault.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

CMAKE = "pkv_module(base LEVEL 0)\npkv_module(spec LEVEL 1)\npkv_module(plan LEVEL 2)\n" \
        "pkv_module(model LEVEL 2)\n"
CLEAN = {
    "CMakeLists.txt": CMAKE,
    "include/pkv/status.h": "#ifndef PKV_STATUS_H\n",
    "include/pkv/spec.h": "#include <pkv/status.h>\n",
    "include/pkv/plan.h": "#include <pkv/spec.h>\n",
    "include/pkv/pkv.h": "#include <pkv/plan.h>\n",
    "src/base/error.h": "#include <pkv/status.h>\n",
    "src/spec/spec.h": "#include <pkv/spec.h>\n",
    "src/spec/spec.c": '#include "spec/spec.h"\n#include <string.h>\n#include "base/error.h"\n',
    "src/plan/plan.c": '#include <pkv/plan.h>\n#include "spec/spec.h"\n',
    "src/model/model.c": "#include <pkv/plan.h>\n",
    "cli/out.h": "#include <pkv/pkv.h>\n",
    "cli/main.c": '#include "out.h"\n',
}


def run(check, extra, options=()):
    """Exit status and output of a gate on the clean tree plus `extra` files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**CLEAN, **extra}.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, "-B", str(ROOT / "tools" / check), *options, folder],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class Gates(unittest.TestCase):
    def refused(self, check, extra, words):
        status, output = run(check, extra)
        self.assertEqual(status, 1, output)
        self.assertIn(words, output)

    def accepted(self, check, extra):
        status, output = run(check, extra)
        self.assertEqual(status, 0, output)

    def test_clean_tree_passes(self):
        for check in ("check_layers.py", "check_size.py", "check_banned.py"):
            self.accepted(check, {})

    def test_layers(self):
        def breach(path, include, words):
            self.refused("check_layers.py", {path: f"#include {include}\n"}, words)
        breach("src/base/x.c", '"spec/spec.h"', "base (level 0) may not use spec")
        breach("src/base/x.c", "<pkv/spec.h>", "base (level 0) may not use spec")
        breach("src/plan/x.c", '"model/json.h"', "internal headers")
        breach("src/plan/x.c", "<pkv/pkv.h>", "the umbrella is for users")
        breach("src/plan/x.c", "<pkv/nosuch.h>", "no such header")
        breach("src/plan/x.c", '"pkv/spec.h"', "with <>")
        breach("src/plan/x.c", '"../base/error.h"', "no ../")
        breach("src/plan/x.c", '"spec/spec.c"', ".c file")
        breach("src/other/x.c", "<pkv/spec.h>", "no pkv_module() call")
        breach("include/pkv/status.h", "<pkv/spec.h>", "base (level 0) may not use spec")
        breach("include/pkv/other.h", "<pkv/spec.h>", "no module in HEADER_MODULE")
        breach("cli/x.c", '"base/error.h"', "public headers and its own folder only")
        breach("fuzz/x.c", '"spec/spec.h"', "public headers and its own folder only")

    def test_one_level_but_no_edge(self):
        self.refused("check_layers.py", {"include/pkv/model.h": "", "src/plan/x.c":
                                         "#include <pkv/model.h>\n"}, "may not use model")

    def test_size(self):
        def function(lines):
            return "int f(void)\n{\n" + "    ;\n" * (lines - 3) + "}\n"
        self.accepted("check_size.py", {"src/spec/x.c": function(70)})
        self.refused("check_size.py", {"src/spec/x.c": function(71)}, "f() has 71 lines")
        self.accepted("check_size.py", {"src/spec/x.c": "\n" * 500})
        self.refused("check_size.py", {"src/spec/x.c": "\n" * 501}, "501 lines")
        self.refused("check_size.py", {"src/spec/x.c": "/*" + "x" * 99 + "\n"}, "101 columns")
        allow = {"tools/size_allow.txt": "src/spec/x.c:f # a table\n"}
        self.accepted("check_size.py", {**allow, "src/spec/x.c": function(71)})
        self.refused("check_size.py", allow, "is not needed")

    def test_banned(self):
        for call in ("strcpy(a, b)", "sprintf (a, b)", "strtok(a, b)", "printf(a)", "exit(1)",
                     "fputs(a, stdout)", "abort()"):
            self.refused("check_banned.py", {"src/spec/x.c": f"void f(void)\n{{ {call}; }}\n"},
                         call.split("(")[0].strip())
        self.accepted("check_banned.py",
                      {"src/spec/x.c": '/* printf(x) */ // exit(1)\nconst char *s = "gets(x)";\n',
                       "src/base/panic.c": "void f(void) { abort(); }\n"})

    def test_mutations(self):
        table = "tests/mutations/mutations.txt"
        fault = "@ one src/spec/x.c\n# why\n     a;\n-    b;\n+    c;\n"

        def check(faults, source):
            return run("mutate.py", {table: faults, "src/spec/x.c": source}, ("--check-apply",))
        self.assertEqual(check(fault, "    a;\n    b;\n"), (0, "mutate: all 1 apply\n"))
        for faults, source, words in (
                (fault, "    b;\n    a;\n", "one does not apply"),
                (fault, "    a;\n    b;\n" * 2, "one does not apply"),
                (fault.replace("+    c", "+    b"), "    a;\n    b;\n", "changes nothing"),
                (fault.replace("# why\n", ""), "    a;\n    b;\n", "say why"),
                (fault.replace("x.c", "y.c"), "    a;\n    b;\n", "one does not apply"),
                (fault + "\n" + fault, "    a;\n    b;\n", "one stands there twice")):
            status, output = check(faults, source)
            self.assertEqual(status, 1, output)
            self.assertIn(words, output)


if __name__ == "__main__":
    unittest.main()
