#!/bin/sh
# Each peer of the training benchmark in an environment of its own, under .venv-peers/.
#
#     benchmarks/peers/install.sh [plain] [flower] [pfl_research] [fed_lab] [blaze_fl]
#
# Without names: all but blaze_fl. PYTHON (python3.11) is what they run on. BlazeFL needs Python 3.14, and a
# free-threaded one for its threads to run at once: PYTHON_FREE_THREADED (python3.14t).
#
# PyTorch is installed first and pinned. Where pip is not told of an index or a directory that has a build for
# CPUs alone, it takes the one with CUDA: several gigabytes an environment, as fast on a CPU. TORCH_INDEX, if set,
# is where pip looks for PyTorch.
set -eu

cd "$(dirname "$0")/../.."
python=${PYTHON:-python3.11}
free_threaded=${PYTHON_FREE_THREADED:-python3.14t}
[ $# -gt 0 ] || set -- plain flower pfl_research fed_lab

for peer in "$@"; do
    requirements=benchmarks/peers/requirements-$peer.txt
    environment=.venv-peers/$peer
    [ -f "$requirements" ] || { echo "no such peer: $peer" >&2; exit 2; }
    case $peer in
        blaze_fl) "$free_threaded" -m venv "$environment" ;;
        *) "$python" -m venv "$environment" ;;
    esac
    # shellcheck disable=SC2086
    "$environment/bin/python" -m pip install --quiet ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
        "$(grep '^torch==' "$requirements")"
    "$environment/bin/python" -m pip install --quiet --requirement "$requirements"
done
