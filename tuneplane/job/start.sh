#!/bin/sh
# Started once on each node, inside the container: /bin/sh HELPER/start --option VALUE … -- WORD…
# With a Python of 3.8 or newer this becomes HELPER/supervise.py. Without one, it supervises a plain command
# on one node by itself, and leaves the same files. What the options mean stands in tuneplane/job/main.py.

say() {
    printf 'tuneplane: %s\n' "$1" >&3
    [ -z "$logging" ] || printf 'tuneplane: %s\n' "$1"
}

is_new_enough() {
    "$1" -B -E -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1
}

# JSON text: control characters become blanks, quotes and backslashes are escaped.
json() {
    printf '%s' "$1" | tr '\001-\037\177' ' ' | sed 's/[\\"]/\\&/g'
}

json_or_null() {
    if [ -n "$1" ]; then printf '"%s"' "$(json "$1")"; else printf null; fi
}

# write_whole NAME TEXT: under another name first, so that nobody reads half of it.
write_whole() {
    { printf '%s\n' "$2" >"$folder/.$1.$$" && mv -f "$folder/.$1.$$" "$folder/$1"; } 2>/dev/null && return
    say "cannot write $1"
    rm -f "$folder/.$1.$$"
}

# claim_verdict CODE TEXT: the first one stands. By link; where links do not work, by exclusive creation.
claim_verdict() {
    if printf '%s\n%s\n' "$1" "$2" >"$folder/.verdict.$$"; then
        ln "$folder/.verdict.$$" "$folder/verdict" || [ -e "$folder/verdict" ] ||
            (set -C && cat "$folder/.verdict.$$" >"$folder/verdict")
    fi 2>/dev/null || say "cannot write the verdict"
    rm -f "$folder/.verdict.$$"
}

phase() {
    printf '{"t": %s, "node": %s, "phase": "%s"%s}\n' "$(date +%s)" "$rank" "$1" "$2" 2>/dev/null \
        >>"$folder/phases.jsonl" || say "cannot write phases.jsonl"
}

# finish CODE SIGNAL REASON MESSAGE: record how the node ended, and with it the run.
finish() {
    [ "$1" = 0 ] || say "$4"
    # The rank is free text until it was checked; without one there is no record, but a verdict.
    case $rank in '' | *[!0-9]*) node=null ;; *) node=$rank ;; esac
    if [ -n "$folder" ]; then
        end="\"code\": $1, \"signal\": $(json_or_null "$2"), \"reason\": \"$3\", \"message\": \"$(json "$4")\""
        [ "$node" = null ] || write_whole "node-$node.json" \
            "{\"rank\": $node, \"host\": \"$(json "$host")\", \"started\": $started, \"ended\": $(date +%s), $end}"
        [ -z "$running" ] || phase ended ", \"code\": $1, \"reason\": \"$3\""
        who="\"node\": $node, \"host\": \"$(json "$host")\""
        [ "$1" != 0 ] || who='"node": null, "host": null'
        claim_verdict "$1" "{$who, $end}"
    fi
    exit "$1"
}

refuse() {
    finish 125 '' preflight "$1"
}

check_place() {
    [ "$nodes" = 1 ] || refuse "without a Python of 3.8 or newer in the image a job runs on one node only, not on $nodes"
    [ "$TUNEPLANE_NODES" = 1 ] ||
        refuse "the launcher placed \`$TUNEPLANE_NODES\` nodes (TUNEPLANE_NODES), but the job is for 1 (--nodes)"
    [ "$rank" = 0 ] || refuse "TUNEPLANE_NODE_RANK is \`$rank\`, which is not one of 0 to 0 (--nodes 1)"
    { [ -n "$TUNEPLANE_EXPERIMENT_DIR" ] && cd -- "$TUNEPLANE_EXPERIMENT_DIR"; } 2>/dev/null ||
        refuse "there is no folder \`$TUNEPLANE_EXPERIMENT_DIR\` (TUNEPLANE_EXPERIMENT_DIR)"
}

# A port for the user below the usual ephemeral ports; without Python there is nothing to hold a claim with.
user_port() {
    key=$(printf '%s' "${SLURM_JOB_ID:-$TUNEPLANE_RUN_ID}/$TUNEPLANE_ATTEMPT" | cksum | cut -d ' ' -f 1)
    tries=0
    while [ "$tries" -lt 355 ]; do
        port=$((10002 + (key + tries) % 355 * 64))
        grep -qi ":$(printf '%04x' "$port") " /proc/net/tcp /proc/net/tcp6 2>/dev/null || break
        tries=$((tries + 1))
    done
    printf '%s' "$port"
}

set_environment() {
    TUNEPLANE_HEAD_ADDRESS=127.0.0.1
    TUNEPLANE_HEAD_PORT=$(user_port)
    PYTHONPATH=$helper${PYTHONPATH:+:$PYTHONPATH}
    PYTHONDONTWRITEBYTECODE=${PYTHONDONTWRITEBYTECODE-1}
    export TUNEPLANE_HEAD_ADDRESS TUNEPLANE_HEAD_PORT PYTHONPATH PYTHONDONTWRITEBYTECODE
    unset RANK LOCAL_RANK GROUP_RANK ROLE_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
}

# Whether a program can be executed; `command -v` would also say yes to builtins.
can_start() (
    case $1 in */*) [ -f "$1" ] && [ -x "$1" ] && exit 0 || exit 1 ;; esac
    IFS=:
    set -f
    for directory in $PATH; do
        [ -f "${directory:-.}/$1" ] && [ -x "${directory:-.}/$1" ] && exit 0
    done
    exit 1
)

# The command and all that stays in its session, where the image has `setsid`; else the command alone.
signal_command() {
    kill "-$1" "$target" 2>/dev/null
}

# shellcheck disable=SC2317 # called by the traps
on_stop() {
    interrupted=1
    [ -z "$told" ] || return
    told=$1
    [ -n "$pid" ] || return
    say "told to stop by SIG$told"
    signal_command TERM
    (
        sleep "$grace" &
        timer=$!
        trap 'kill "$timer" 2>/dev/null; exit 0' TERM
        wait "$timer" && signal_command KILL
    ) >/dev/null 2>&1 3>&- &
    killer=$!
}

# Wait for the command through all signals; `code` becomes its status. A wait that a trap cut short gives the
# status of the signal, so it is repeated, and 127 then means that the status before was the real one.
await() {
    code=127
    while :; do
        interrupted=
        wait "$pid"
        status=$?
        [ "$status" = 127 ] && [ "$code" != 127 ] || code=$status
        [ -n "$interrupted" ] || break
    done
}

supervise() {
    check_place
    running=1
    phase started ", \"host\": \"$(json "$host")\""
    can_start "$1" || finish 127 '' could-not-start "the command \`$1\` could not start: not found, or not executable"
    set_environment
    [ -z "$told" ] || finish 143 '' stopped "told to stop by SIG$told; the command had not been started"
    session=$(command -v setsid)
    # `exec`, so that no builtin or function of this shell takes the place of the program.
    (exec ${session:+"$session"} "$@") </dev/null 3>&- &
    pid=$!
    target=${session:+-}$pid
    phase running
    [ -z "$told" ] || signal_command TERM
    await
    [ -z "$session" ] || signal_command KILL
    [ -z "$killer" ] || kill "$killer" 2>/dev/null
    judge
}

judge() {
    name='' reason=exited message="the command ended with exit code $code"
    if [ "$code" -gt 128 ] && name=$(kill -l "$code" 2>/dev/null) && [ -n "$name" ]; then
        name=SIG${name#SIG} reason=signal
        message="the command was killed by $name"
    fi
    if [ -n "$told" ]; then
        [ "$code" != 0 ] || code=143
        finish "$code" "$name" stopped "told to stop by SIG$told; $message"
    fi
    finish "$code" "$name" "$reason" "$message"
}

exec 3>&2
helper=${0%/*}
[ "$helper" != "$0" ] || helper=.
helper=$(cd -- "$helper" && pwd)
kind='' nodes='' grace=10 python='' option=''
for word in "$@"; do
    case $option in
        --kind) kind=$word ;;
        --nodes) nodes=$word ;;
        --stop-grace) grace=$word ;;
        --python) python=$word ;;
    esac
    if [ -n "$option" ]; then option= && continue; fi
    [ "$word" != -- ] || break
    option=$word
done

# Apptainer lets nobody hand in HOME, so it comes under another name.
[ -z "${TUNEPLANE_HOME:-}" ] || export HOME="$TUNEPLANE_HOME"

for candidate in ${python:+"$python"} python3 python; do
    if is_new_enough "$candidate"; then
        exec 3>&-
        exec "$candidate" -B "$helper/supervise.py" "$@"
    fi
    [ -z "$python" ] || break
done

# From here on there is no Python.
started=$(date +%s)
rank=$TUNEPLANE_NODE_RANK host=${SLURMD_NODENAME:-$(uname -n)}
folder=$TUNEPLANE_RUN_DIR/attempts/$TUNEPLANE_ATTEMPT
pid='' told='' killer='' running='' logging=''
if [ -z "$TUNEPLANE_RUN_DIR" ] || [ -z "$TUNEPLANE_ATTEMPT" ] || [ ! -d "$folder" ]; then
    bad=$folder folder=
    refuse "there is no folder \`$bad\` (TUNEPLANE_RUN_DIR, TUNEPLANE_ATTEMPT)"
fi
[ -z "$python" ] || refuse "\`$python\` (--python) is not a Python of 3.8 or newer"
[ "$kind" = process ] || refuse "the image has no Python of 3.8 or newer, which \`--kind $kind\` needs"
trap 'on_stop TERM' TERM
trap 'on_stop INT' INT
if (: >>"$folder/node-$rank.log") 2>/dev/null; then
    exec >>"$folder/node-$rank.log" 2>&1
    logging=1
else
    say "cannot write node-$rank.log"
fi
while [ "$1" != -- ] && [ $# -gt 0 ]; do shift; done
[ $# -gt 1 ] || refuse "no command after \`--\`"
shift
supervise "$@"
