#!/bin/sh
# docs/published-plans.md says what the program gives. Usage: test_published_plans.sh PAGEDKV
exec python3 -B tools/published_plans.py "$1" --check
