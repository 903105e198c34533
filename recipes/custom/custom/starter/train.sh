#!/bin/bash
# What `tp` starts, once on each node of the job. This file is yours: put your own command here.
#
# The arguments are the parameters of config.yaml as flags, then what followed `--` on the
# command line of `tp submit`. The current folder may be read-only: write to TUNEPLANE_OUTPUT_DIR.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" > /dev/null && pwd)
node_rank=${TUNEPLANE_NODE_RANK:-0}
: "${TUNEPLANE_OUTPUT_DIR:?is set by tp; to try this by hand, set it to a folder of your own}"

echo "node $node_rank of ${TUNEPLANE_NODES:-1}, ${TUNEPLANE_GPUS_PER_NODE:-0} GPUs, attempt ${TUNEPLANE_ATTEMPT:-1}"
echo "head ${TUNEPLANE_HEAD_ADDRESS:-none}:${TUNEPLANE_HEAD_PORT:-none}"
echo "model ${TUNEPLANE_MODEL:-none}"
echo "training data ${TUNEPLANE_TRAIN_DATA:-none}, validation data ${TUNEPLANE_VALIDATION_DATA:-none}"
echo "resume from ${TUNEPLANE_RESUME_FROM:-nothing}, parameters in ${TUNEPLANE_PARAMS:-no file}"

# `exec` hands signals and the exit status straight through.
exec python3 -B "$here/fit.py" "$@"
