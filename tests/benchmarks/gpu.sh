#!/usr/bin/env bash
# Checks on one GPU, under 8 minutes in all, in two parts. toys: tests marked gpu, speed of the paper's grid,
# exponents of a short run. lm: tests marked gpu (on all GPUs where there are several), speed of the language
# model in bfloat16. Needs no network and no installation of this package.
#
#   bash tests/benchmarks/gpu.sh
#
# PARTS   "toys", "lm" or both (default)
# WHEELS  folder of wheels that the machine lacks (default .whl; used if it is there)
# OUT     folder that also gets the output, one file a step (default: none)
# TINY=1  small sizes, to try the script; with JAX_PLATFORMS=cpu it needs no GPU
#
# A step that fails or runs out of time does not stop the others; the exit status is then 1.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2

export JAX_PLATFORMS="${JAX_PLATFORMS:-cuda,cpu}"
export XLA_PYTHON_CLIENT_PREALLOCATE=false
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
wheels="${WHEELS:-.whl}"
tiny=${TINY:+--tiny}
temporary="$(mktemp -d)"
trap 'rm -rf "$temporary"' EXIT
out="${OUT:-$temporary}"
mkdir -p "$out"

if compgen -G "$wheels/*.whl" >/dev/null; then
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
    --target "$temporary/site" "$wheels"/*.whl || exit 2
  export PYTHONPATH="$PYTHONPATH:$temporary/site"
fi

failed=0
step() { # name, seconds, command...
  local name="$1" seconds="$2" start=$SECONDS
  shift 2
  echo "== $name"
  timeout -k 5 "$seconds" "$@" 2>&1 | tee -a "$out/$name.txt"
  local status=${PIPESTATUS[0]}
  [ "$status" -eq 0 ] || failed=1
  echo "== $name: exit $status after $((SECONDS - start)) s"
}

step gpu_machine 40 python3 - <<'PYTHON'
import importlib.metadata, sys, jax
print("python", sys.version.split()[0])
for name in ("jax", "jaxlib", "equinox", "optax", "diffrax", "numpy", "scipy", "beartype", "pytest", "hypothesis"):
    try:
        print(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        print(name, "missing")
print(jax.devices())
PYTHON

# Versions here are not the tested ones: what they deprecate is shown, and is no error.
tests() { # seconds, folder
  step gpu_tests "$1" python3 -m pytest -m gpu "$2" -q -rs -p no:cacheprovider \
    --continue-on-collection-errors -o filterwarnings=default -o addopts=--import-mode=importlib
}

# shellcheck disable=SC2086  # $tiny is empty when not tiny
toys() {
  tests 75 tests/toymodels
  for unroll in 1 4; do
    step gpu_throughput 55 python3 tests/benchmarks/gpu_check.py throughput --unroll "$unroll" $tiny
  done
  step gpu_exponents 70 python3 tests/benchmarks/gpu_check.py exponents --seconds 55 $tiny
}

# shellcheck disable=SC2086
lm() {
  tests 90 tests/llm
  for recurrences in 1 4; do
    step gpu_lm 50 python3 tests/benchmarks/gpu_check.py lm --num-recur "$recurrences" $tiny
  done
}

for part in ${PARTS:-toys lm}; do
  case "$part" in
    toys | lm) "$part" ;;
    *) echo "PARTS has $part: it may have toys and lm" >&2; exit 2 ;;
  esac
done
exit "$failed"
