#!/bin/sh
# Each peer of the training benchmark in an environment of its own, under .venv-peers/.
#
#     benchmarks/peers/install.sh [plain] [flower] [pfl_research] [fed_lab] [blaze_fl]
#
# Without names: all. PYTHON (python3.11) is what they run on, but for BlazeFL, which needs Python 3.14, and a
# free-threaded build of it for its threads to run at once: PYTHON_FREE_THREADED (python3.14t). Where that is not to
# be had, BlazeFL is left out.
#
# PyTorch is installed first and pinned. Where pip is not told of an index or a directory that has a build for
# CPUs alone, it takes the one with CUDA: several gigabytes an environment, as fast on a CPU. TORCH_INDEX, if set,
# is where pip looks for PyTorch.
set -eu

cd "$(dirname "$0")/../.."
python=${PYTHON:-python3.11}
free_threaded=${PYTHON_FREE_THREADED:-python3.14t}
[ $# -gt 0 ] || set -- plain flower pfl_research fed_lab blaze_fl

# Whether an interpreter is a free-threaded Python 3.14 or later; one with the lock would run BlazeFL's threads in turn.
without_lock() {
    "$1" -c 'import sys, sysconfig
sys.exit(sys.version_info < (3, 14) or not sysconfig.get_config_var("Py_GIL_DISABLED"))' 2>/dev/null
}

for peer in "$@"; do
    requirements=benchmarks/peers/requirements-$peer.txt
    environment=.venv-peers/$peer
    [ -f "$requirements" ] || { echo "no such peer: $peer" >&2; exit 2; }
    base=$python
    if [ "$peer" = blaze_fl ]; then
        base=$free_threaded
        without_lock "$base" || {
            echo "BlazeFL is left out: $base is not a free-threaded Python 3.14 (PYTHON_FREE_THREADED names one)" >&2
            continue
        }
    fi
    "$base" -m venv "$environment"
    # shellcheck disable=SC2086
    "$environment/bin/python" -m pip install --quiet ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
        "$(grep '^torch==' "$requirements")"
    "$environment/bin/python" -m pip install --quiet --requirement "$requirements"
done
