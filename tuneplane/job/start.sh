#!/bin/sh
# Started once on each node, inside the container: /bin/sh HELPER/start --option VALUE … -- WORD…
# With a Python of 3.8 or newer this becomes HELPER/supervise.py. Without one, it supervises a plain command
# on one node by itself, and leaves the same files. What the options mean stands in tuneplane/job/main.py.

say() {
    printf 'tuneplane: %s\n' "$1" >&3
    [ -n "$tp_logging" ] || return 0
    # on a line of its own, also where the command's last one has no end
    [ -z "$(tail -c 1 "$tp_folder/node-$tp_rank.log" 2>/dev/null)" ] || echo
    printf 'tuneplane: %s\n' "$1"
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
    { printf '%s\n' "$2" >"$tp_folder/.$1.$$" && mv -f "$tp_folder/.$1.$$" "$tp_folder/$1"; } 2>/dev/null && return
    say "cannot write $1"
    rm -f "$tp_folder/.$1.$$"
}

# claim_verdict CODE TEXT: the first one stands. By link; where links do not work, by exclusive creation.
claim_verdict() {
    if printf '%s\n%s\n' "$1" "$2" >"$tp_folder/.verdict.$$"; then
        ln "$tp_folder/.verdict.$$" "$tp_folder/verdict" || [ -e "$tp_folder/verdict" ] ||
            (set -C && cat "$tp_folder/.verdict.$$" >"$tp_folder/verdict")
    fi 2>/dev/null || say "cannot write the verdict"
    rm -f "$tp_folder/.verdict.$$"
}

phase() {
    printf '{"t": %s, "node": %s, "phase": "%s"%s}\n' "$(date +%s)" "$tp_rank" "$1" "$2" 2>/dev/null \
        >>"$tp_folder/phases.jsonl" || say "cannot write phases.jsonl"
}

# The end of the log as JSON strings.
last_lines() {
    tail -n 20 "$tp_folder/node-$tp_node.log" 2>/dev/null | {
        tp_comma=
        while IFS= read -r tp_line; do
            printf '%s"%s"' "$tp_comma" "$(json "$tp_line")"
            tp_comma=', '
        done
    }
}

# finish CODE SIGNAL REASON MESSAGE: record how the node ended, and with it the run.
finish() {
    [ "$1" = 0 ] || say "$4"
    # The rank is free text until it was checked; without one there is no record, but a verdict.
    case $tp_rank in '' | *[!0-9]*) tp_node=null ;; *) tp_node=$tp_rank ;; esac
    if [ -n "$tp_folder" ]; then
        tp_end="\"code\": $1, \"signal\": $(json_or_null "$2"), \"reason\": \"$3\", \"message\": \"$(json "$4")\""
        [ "$tp_node" = null ] || write_whole "node-$tp_node.json" \
            "{\"rank\": $tp_node, \"host\": \"$(json "$tp_host")\", \"started\": $tp_started, \"ended\": $(date +%s), $tp_end}"
        [ -z "$tp_running" ] || phase ended ", \"code\": $1, \"reason\": \"$3\""
        tp_who="\"node\": $tp_node, \"host\": \"$(json "$tp_host")\""
        [ "$1" != 0 ] || tp_who='"node": null, "host": null'
        tp_end="$tp_end, \"rank\": null, \"phase\": \"${tp_phase:-preflight}\", \"tail\": [$([ "$1" = 0 ] || last_lines)]"
        claim_verdict "$1" "{$tp_who, $tp_end}"
    fi
    exit "$1"
}

refuse() {
    finish 125 '' preflight "$1"
}

check_place() {
    [ "$tp_nodes" = 1 ] || refuse "without a Python of 3.8 or newer in the image a job runs on one node only, not on $tp_nodes"
    [ "$TUNEPLANE_NODES" = 1 ] ||
        refuse "the launcher placed \`$TUNEPLANE_NODES\` nodes (TUNEPLANE_NODES), but the job is for 1 (--nodes)"
    [ "$tp_rank" = 0 ] || refuse "TUNEPLANE_NODE_RANK is \`$tp_rank\`, which is not one of 0 to 0 (--nodes 1)"
    { [ -n "$TUNEPLANE_EXPERIMENT_DIR" ] && cd -- "$TUNEPLANE_EXPERIMENT_DIR"; } 2>/dev/null ||
        refuse "there is no folder \`$TUNEPLANE_EXPERIMENT_DIR\` (TUNEPLANE_EXPERIMENT_DIR)"
}

# A port for the user below the usual ephemeral ports; without Python there is nothing to hold a claim with.
user_port() {
    tp_key=$(printf '%s' "${SLURM_JOB_ID:-$TUNEPLANE_RUN_ID}/$TUNEPLANE_ATTEMPT" | cksum | cut -d ' ' -f 1)
    tp_tries=0
    while [ "$tp_tries" -lt 355 ]; do
        tp_port=$((10002 + (tp_key + tp_tries) % 355 * 64))
        grep -qi ":$(printf '%04x' "$tp_port") " /proc/net/tcp /proc/net/tcp6 2>/dev/null || break
        tp_tries=$((tp_tries + 1))
    done
    printf '%s' "$tp_port"
}

set_environment() {
    TUNEPLANE_HEAD_ADDRESS=127.0.0.1
    TUNEPLANE_HEAD_PORT=$(user_port)
    TUNEPLANE_WARNING_FILE=$tp_folder/warning
    PYTHONPATH=$tp_helper${PYTHONPATH:+:$PYTHONPATH}
    PYTHONDONTWRITEBYTECODE=${PYTHONDONTWRITEBYTECODE-1}
    export TUNEPLANE_HEAD_ADDRESS TUNEPLANE_HEAD_PORT TUNEPLANE_WARNING_FILE PYTHONPATH PYTHONDONTWRITEBYTECODE
    unset RANK LOCAL_RANK GROUP_RANK ROLE_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
}

# Whether a program can be executed; `command -v` would also say yes to builtins.
can_start() (
    case $1 in */*) [ -f "$1" ] && [ -x "$1" ] && exit 0 || exit 1 ;; esac
    IFS=:
    set -f
    for tp_directory in $PATH; do
        [ -f "${tp_directory:-.}/$1" ] && [ -x "${tp_directory:-.}/$1" ] && exit 0
    done
    exit 1
)

# The command and all that stays in its session, where the image has `setsid`; else the command alone.
signal_command() {
    kill "-$1" "$tp_target" 2>/dev/null
}

# shellcheck disable=SC2317 # called by the traps
on_stop() {
    tp_interrupted=1
    [ -z "$tp_told" ] || return
    tp_told=$1
    [ -n "$tp_pid" ] || return
    say "told to stop by SIG$tp_told"
    signal_command TERM
    (
        sleep "$tp_grace" &
        tp_timer=$!
        trap 'kill "$tp_timer" 2>/dev/null; exit 0' TERM
        wait "$tp_timer" && signal_command KILL
    ) >/dev/null 2>&1 3>&- &
    tp_killer=$!
}

# The time limit or a preemption is near: said once, and the command gets what was agreed.
# shellcheck disable=SC2317 # called by the trap
on_warning() {
    tp_interrupted=1
    [ -z "$tp_warned" ] || return
    tp_warned=1
    phase warned
    say "warned: the time limit or a preemption is near"
    tp_agreed=${tp_warning#signal:}
    [ "$tp_warning" = none ] || [ -z "$tp_pid" ] || signal_command "${tp_agreed#SIG}"
}

# shellcheck disable=SC2317 # called by the trap
pass_on() {
    tp_interrupted=1
    [ -z "$tp_pid" ] || signal_command "$1"
}

# Wait for the command through all signals; `code` becomes its status. A wait that a trap cut short gives the
# status of the signal, so it is repeated, and 127 then means that the status before was the real one.
await() {
    tp_code=127
    while :; do
        tp_interrupted=
        wait "$tp_pid"
        tp_status=$?
        [ "$tp_status" = 127 ] && [ "$tp_code" != 127 ] || tp_code=$tp_status
        [ -n "$tp_interrupted" ] || break
    done
}

supervise() {
    check_place
    tp_running=1
    phase started ", \"host\": \"$(json "$tp_host")\""
    can_start "$1" || finish 127 '' could-not-start "the command \`$1\` could not start: not found, or not executable"
    set_environment
    [ -z "$tp_told" ] || finish 143 '' stopped "told to stop by SIG$tp_told; the command had not been started"
    tp_session=$(command -v setsid)
    # `exec`, so that no builtin or function of this shell takes the place of the program.
    (exec ${tp_session:+"$tp_session"} "$@") </dev/null 3>&- &
    tp_pid=$!
    tp_target=${tp_session:+-}$tp_pid
    phase running
    tp_phase=running
    [ -z "$tp_told" ] || signal_command TERM
    # the batch script says it by a file: a signal to a step of Slurm reaches every process in it
    (
        trap - USR1 USR2
        until [ -e "$tp_folder/warning" ]; do
            sleep 1
            kill -0 "$tp_self" 2>/dev/null || exit 0
        done
        kill -USR2 "$tp_self"
    ) >/dev/null 2>&1 3>&- &
    tp_watcher=$!
    await
    kill "$tp_watcher" 2>/dev/null
    [ -z "$tp_session" ] || signal_command KILL
    [ -z "$tp_killer" ] || kill "$tp_killer" 2>/dev/null
    judge
}

judge() {
    tp_name='' tp_reason=exited tp_message="the command ended with exit code $tp_code"
    if [ "$tp_code" -gt 128 ] && tp_name=$(kill -l "$tp_code" 2>/dev/null) && [ -n "$tp_name" ]; then
        tp_name=SIG${tp_name#SIG} tp_reason=signal
        tp_message="the command was killed by $tp_name"
    fi
    if [ -n "$tp_told" ]; then
        [ "$tp_code" != 0 ] || tp_code=143
        finish "$tp_code" "$tp_name" stopped "told to stop by SIG$tp_told; $tp_message"
    fi
    finish "$tp_code" "$tp_name" "$tp_reason" "$tp_message"
}

# Until somebody can answer it, a warning ends nothing.
trap '' USR1 USR2
exec 3>&2
tp_helper=${0%/*}
[ "$tp_helper" != "$0" ] || tp_helper=.
tp_helper=$(cd -- "$tp_helper" && pwd)
tp_kind='' tp_nodes='' tp_grace=10 tp_python='' tp_warning=none tp_pools='' tp_option=''
for tp_word in "$@"; do
    case $tp_option in
        --kind) tp_kind=$tp_word ;;
        --nodes) tp_nodes=$tp_word ;;
        --stop-grace) tp_grace=$tp_word ;;
        --python) tp_python=$tp_word ;;
        --warning) tp_warning=$tp_word ;;
        --pools) tp_pools=$tp_word ;;
    esac
    if [ -n "$tp_option" ]; then tp_option= && continue; fi
    [ "$tp_word" != -- ] || break
    tp_option=$tp_word
done

# Apptainer lets nobody hand in HOME, so it comes under another name.
[ -z "${TUNEPLANE_HOME:-}" ] || export HOME="$TUNEPLANE_HOME"

for tp_candidate in ${tp_python:+"$tp_python"} python3 python; do
    if is_new_enough "$tp_candidate"; then
        exec 3>&-
        exec "$tp_candidate" -B -E "$tp_helper/supervise.py" "$@"
    fi
    [ -z "$tp_python" ] || break
done

# From here on there is no Python.
tp_started=$(date +%s)
tp_rank=$TUNEPLANE_NODE_RANK tp_host=${SLURMD_NODENAME:-$(uname -n)}
tp_folder=$TUNEPLANE_RUN_DIR/attempts/$TUNEPLANE_ATTEMPT
tp_pid='' tp_told='' tp_killer='' tp_running='' tp_logging='' tp_warned='' tp_phase=''
if [ -z "$TUNEPLANE_RUN_DIR" ] || [ -z "$TUNEPLANE_ATTEMPT" ] || [ ! -d "$tp_folder" ]; then
    tp_bad=$tp_folder tp_folder=
    refuse "there is no folder \`$tp_bad\` (TUNEPLANE_RUN_DIR, TUNEPLANE_ATTEMPT)"
fi
[ -z "$tp_python" ] || refuse "\`$tp_python\` (--python) is not a Python of 3.8 or newer"
[ "$tp_kind" = process ] || refuse "the image has no Python of 3.8 or newer, which \`--kind $tp_kind\` needs"
[ -z "$tp_pools" ] || refuse "the image has no Python of 3.8 or newer, which \`--pools\` needs"
trap 'on_stop TERM' TERM
trap 'on_stop INT' INT
trap 'pass_on USR1' USR1
trap on_warning USR2
tp_self=$$
if (: >>"$tp_folder/node-$tp_rank.log") 2>/dev/null; then
    exec >>"$tp_folder/node-$tp_rank.log" 2>&1
    tp_logging=1
else
    say "cannot write node-$tp_rank.log"
fi
while [ "$1" != -- ] && [ $# -gt 0 ]; do shift; done
[ $# -gt 1 ] || refuse "no command after \`--\`"
shift
supervise "$@"
