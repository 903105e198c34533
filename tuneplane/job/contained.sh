#!/bin/sh
# Started inside a container of pyxis or Enroot: /bin/sh HELPER/contained, with the arguments of HELPER/start.
# Variables come in under other names (TUNEPLANE_ENV_X for X, all X in TUNEPLANE_NAMES), since an image's own win over
# those that are handed in, and pyxis drops some. What Slurm, pyxis and Enroot add beside them is removed.

# tp_names PREFIX…: names of the variables that begin so; values may be in another encoding than the locale's.
tp_names() {
    for tp_prefix in "$@"; do
        env | LC_ALL=C sed -n "s/^\(${tp_prefix}[A-Za-z0-9_]*\)=.*/\1/p"
    done
}

for tp_left in $(tp_names SLURM _SLURM SRUN_ PMI PYXIS_ ENROOT_ SPANK_ OMPI_MCA_ PRTE_MCA_ HYDRA_ I_MPI_ tp_); do
    case $tp_left in SLURM_JOB_ID | SLURMD_NODENAME | SLURM_PROCID) ;; *) unset "$tp_left" ;; esac
done
# what an image says for Apptainer, where it was made from one
for tp_left in /.singularity.d/env/10-docker*.sh /.singularity.d/env/9*-environment.sh; do
    # shellcheck disable=SC1090
    [ ! -r "$tp_left" ] || . "$tp_left"
done
tp_helper=${0%/*}
PATH=${PATH-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
unset ENVIRONMENT RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

for tp_given in ${TUNEPLANE_NAMES-}; do
    eval "export $tp_given=\"\${TUNEPLANE_ENV_$tp_given-}\"; unset TUNEPLANE_ENV_$tp_given"
done
unset TUNEPLANE_NAMES
TUNEPLANE_NODE_RANK=${TUNEPLANE_NODE_RANK-${SLURM_PROCID-}}
export TUNEPLANE_NODE_RANK
unset SLURM_PROCID

[ -n "${TUNEPLANE_SCRATCH-}" ] || exec /bin/sh "$tp_helper/start" "$@"

# With pyxis nobody outside could make and remove the scratch folder on each node.
tp_scratch=$TUNEPLANE_SCRATCH
unset TUNEPLANE_SCRATCH
tp_child=
tp_told=
trap 'tp_told=1; tp_interrupted=1; [ -z "$tp_child" ] || kill -TERM "$tp_child" 2>/dev/null' TERM INT
trap 'tp_interrupted=1; [ -z "$tp_child" ] || kill -USR1 "$tp_child" 2>/dev/null' USR1
trap 'tp_interrupted=1; [ -z "$tp_child" ] || kill -USR2 "$tp_child" 2>/dev/null' USR2
# tp_fail SENTENCE: this node cannot start, which is the verdict of the run unless there is one.
tp_fail() {
    printf 'tuneplane: node %s (%s): %s\n' "$TUNEPLANE_NODE_RANK" "${SLURMD_NODENAME-}" "$1" >&2
    tp_verdict="{\"code\":1,\"node\":$TUNEPLANE_NODE_RANK,\"host\":\"${SLURMD_NODENAME-}\",\"signal\":null"
    tp_verdict="$tp_verdict,\"reason\":\"preflight\",\"message\":\"$1\",\"rank\":null,\"phase\":\"preflight\",\"tail\":[]}"
    tp_attempt=$TUNEPLANE_RUN_DIR/attempts/$TUNEPLANE_ATTEMPT
    (set -C && printf '1\n%s\n' "$tp_verdict" >"$tp_attempt/verdict") 2>/dev/null
}
# without -p: a folder or link that somebody else put there is an error, never used
if ! mkdir -m 700 -- "$tp_scratch"; then
    tp_fail 'its scratch folder is there already or cannot be made'
    exit 0
fi
if ! mkdir -- "$tp_scratch/home" "$tp_scratch/tmp" "$tp_scratch/cache" "$tp_scratch/config" "$tp_scratch/data" ||
    ! date >"$tp_scratch/tmp/.full" || ! rm -- "$tp_scratch/tmp/.full"; then
    tp_fail 'its scratch folder cannot be written to, it may be full'
    rm -rf -- "$tp_scratch"
    exit 0
fi

tp_status=143
# told to stop before there was anything to stop?
if [ -z "$tp_told" ]; then
    /bin/sh "$tp_helper/start" "$@" &
    tp_child=$!
    [ -z "$tp_told" ] || kill -TERM "$tp_child" 2>/dev/null
    while :; do
        tp_interrupted=
        wait "$tp_child"
        tp_last=$?
        [ "$tp_last" -eq 127 ] || tp_status=$tp_last
        [ -n "$tp_interrupted" ] || break
    done
fi
# the program may have left folders that even their owner cannot change
chmod -R u+rwX "$tp_scratch" 2>/dev/null
rm -rf -- "$tp_scratch"
# what the job script waits for after a failure
[ "${TUNEPLANE_NODES-1}" = 1 ] || : >"$TUNEPLANE_RUN_DIR/attempts/$TUNEPLANE_ATTEMPT/.left.$TUNEPLANE_NODE_RANK"
# the verdict tells what happened; a status would make srun kill nodes that are still clearing away
[ ! -e "$TUNEPLANE_RUN_DIR/attempts/$TUNEPLANE_ATTEMPT/verdict" ] || tp_status=0
exit "$tp_status"
