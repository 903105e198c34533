"""Bash that rides in the job script and runs on the node: is this the image, and a verified copy of it on local disk.

It needs bash 4.2, GNU coreutils 8.21 (`df --output`, `dd status=none`) and util-linux; it goes on without `flock` or
`fallocate`. The script defines `tp_say`; printed by `declare -f` both texts stay what they are.
"""

from __future__ import annotations

import re

CHECK_IMAGE_SH = r"""
# tp_check_image PATH SIZE SAMPLES: PATH is a file of SIZE bytes, and SAMPLES is the sha256 of its sampled blocks: of
# those of 1 MiB all when there are up to 64, else 64 from the first to the last. 1: it is not, stderr says why.
tp_check_image() {
  local -x LC_ALL=C
  local tp_path=$1 tp_found tp_sum tp_i tp_n=$((($2 + 1048575) / 1048576)) tp_last
  [[ $1 == /* ]] || tp_path=./$1 # `-` would be standard input
  tp_last=$((tp_n > 64 ? 63 : tp_n - 1))
  if ! tp_found=$(stat -L -c %s -- "$tp_path" 2>&1); then
    case $tp_found in
      *': No such file or directory' | *': Not a directory') echo 'the image is gone' >&2 ;;
      *) echo 'the image cannot be read' >&2 ;;
    esac
    return 1
  fi
  [[ -f $tp_path ]] || { echo 'the image is not a regular file' >&2; return 1; }
  ((tp_found == $2)) || { echo "the image has another size: $tp_found bytes, expected $2" >&2; return 1; }
  tp_sum=$(
    set -o pipefail
    [[ -r $tp_path ]] || exit 1
    for ((tp_i = 0; tp_i <= tp_last; tp_i++)); do
      dd if="$tp_path" bs=1M count=1 iflag=fullblock \
        skip=$((tp_last ? tp_i * (tp_n - 1) / tp_last : 0)) 2>/dev/null || exit 1
    done | sha256sum
  ) || { echo 'the image cannot be read' >&2; return 1; }
  [[ ${tp_sum%% *} == "$3" ]] || { echo 'the image has another content in the sampled blocks' >&2; return 1; }
}
"""

STAGE_SH = r"""
# tp_stage PATH SIZE SHA256 SAMPLES CACHE KEEP_FREE MAX_AGE: sets tp_image to a verified copy below CACHE, or to PATH
# after a line that says why. 1: PATH is proven to be another image, a line says so and tp_image is empty.
tp_stage() {
  local -x LC_ALL=C
  local tp_from=$1 tp_size=$2 tp_sha=$3 tp_samples=$4 tp_keep=$6 tp_age=$7 tp_need=$(($2 + $6)) tp_free
  local tp_name=$3 tp_suffix=.${1##*.} tp_folder tp_mask tp_code=0
  case $tp_suffix in
    .lock | .part | .said | *[!.A-Za-z0-9]* | ?????????*) ;; # none, or none that a copy may have
    *) tp_name+=$tp_suffix ;;
  esac
  [[ $1 == /* ]] || tp_from=./$1
  tp_image=$1
  tp_mask=$(umask)
  umask 077
  if tp_find_folder "$5"; then
    tp_stage_in_folder 9>>"$tp_folder/$tp_sha.lock" # the lock of this image on this node
    tp_code=$?
  fi
  umask "$tp_mask"
  [[ $tp_code -ne 2 ]] || tp_image=
  [[ $tp_code -ne 2 ]]
}

# tp_unstaged WHY: the line for an image that is not staged; its status is 1.
tp_unstaged() {
  tp_say "the shared image is used, not a copy on this node: ${1//[[:cntrl:]]/?}"
  return 1
}

# tp_kept TYPE PATH OWNERS [sticky]: PATH itself, not what it links to, is a TYPE (4: folder, 8: file) of one of OWNERS
# and nobody else may write to it; or they may and it is sticky: what is not theirs in it they cannot replace.
tp_kept() {
  local tp_found tp_mode
  tp_found=$(stat -c '%u %f' -- "$2" 2>/dev/null) || return 1
  tp_mode=$((16#${tp_found#* }))
  [[ " $3 " == *" ${tp_found% *} "* ]] && ((tp_mode >> 12 == $1)) || return 1
  (((tp_mode & 8#22) == 0)) || { [[ -n ${4-} ]] && (((tp_mode & 8#1000) != 0)); }
}

# tp_find_folder CACHE: sets tp_folder to this user's folder for copies; 1: there is none, or tp_image is root's copy.
tp_find_folder() {
  local tp_cache tp_way tp_why tp_lock
  # the real path, where only root and this user can change a folder: what is seen below stays so
  tp_cache=$(cd -P -- "$1" 2>/dev/null && printf '%s/' "${PWD%/}") || { tp_unstaged "$1 is not a folder"; return; }
  tp_cache=${tp_cache%/}
  tp_way=$tp_cache/
  while [[ -n $tp_way ]]; do
    tp_way=${tp_way%/*}
    tp_kept 4 "${tp_way:-/}" "0 $EUID" sticky || { tp_unstaged "others may change ${tp_way:-/}"; return; }
  done
  tp_folder=$tp_cache/tuneplane-images
  if [[ -e $tp_folder || -L $tp_folder ]]; then
    if ! tp_kept 4 "$tp_folder" 0; then
      tp_say "not used, since it is not a folder of root alone: ${tp_folder//[[:cntrl:]]/?}"
    elif tp_kept 8 "$tp_folder/$tp_name" 0; then
      tp_why=$(tp_check_image "$tp_folder/$tp_name" "$tp_size" "$tp_samples" 2>&1) &&
        { tp_image=$tp_folder/$tp_name; return 1; }
      tp_say "root's copy on this node is not used: $tp_why"
    fi
  fi
  tp_folder+=-$EUID
  # without -p: what somebody else put there is not taken for ours
  mkdir -m 700 -- "$tp_folder" 2>/dev/null
  [[ -e $tp_folder || -L $tp_folder ]] || { tp_unstaged "cannot make $tp_folder"; return; }
  tp_kept 4 "$tp_folder" "0 $EUID" || { tp_unstaged "it is not a folder of this user alone: $tp_folder"; return; }
  tp_lock=$tp_folder/$tp_sha.lock
  [[ ! -e $tp_lock && ! -L $tp_lock ]] || tp_kept 8 "$tp_lock" "0 $EUID" ||
    { tp_unstaged "it is not a file of this user alone: $tp_lock"; return; }
  { : >>"$tp_lock"; } 2>/dev/null || tp_unstaged "cannot write to $tp_folder"
}

# tp_stage_in_folder: reuses the copy in tp_folder or makes it; 1: neither, a line says why. 2: PATH is another image.
tp_stage_in_folder() {
  local tp_copy=$tp_folder/$tp_name tp_patience=$((tp_size / 20971520 + 60)) tp_why='' tp_lock tp_found
  if command -v flock >/dev/null; then
    # many may look at a copy at once; one alone makes it, and looks again before
    for tp_lock in -s -x; do
      tp_hold "$tp_lock" || { tp_unstaged "its lock was not free within $tp_patience s, or a signal came"; return; }
      tp_reuse && return
    done
  else
    tp_reuse && return
  fi
  if [[ -n $tp_why ]]; then
    tp_say "the copy on this node is removed and made again: $tp_why"
    rm -f -- "$tp_copy" 2>/dev/null
  fi
  tp_found=$(stat -L -c %s -- "$tp_from" 2>/dev/null) || { tp_unstaged 'the image cannot be read'; return; }
  if [[ $tp_found != "$tp_size" ]]; then
    tp_say "the image is not the one that was registered: it has $tp_found bytes, expected $tp_size"
    return 2
  fi
  tp_make_room && tp_copy
}

# tp_hold -s|-x: the lock on descriptor 9, shared or alone; waits for tp_patience seconds.
tp_hold() {
  flock -n "$1" 9 && return
  tp_say "waiting for another job on this node that copies the image, up to $tp_patience s"
  flock -w "$tp_patience" "$1" 9 &
  tp_attend
}

# tp_attend: the status of what was just started; a signal that the script has a trap for ends it.
tp_attend() {
  local tp_status=143
  tp_child=$! # what the trap ends
  if [[ -z ${tp_interrupted-} ]]; then # a signal may have come before
    wait "$tp_child" 2>/dev/null
    tp_status=$?
  fi
  if [[ $tp_status -gt 128 ]]; then
    # its first process, at whose end a pipeline ends (`kill %%` hangs in bash 5.2); one just started may miss a signal
    while kill "$(jobs -p %% 2>/dev/null)" 2>/dev/null; do sleep 0.1; done
    wait "$tp_child" 2>/dev/null
  fi
  tp_child=
  return "$tp_status"
}

# tp_reuse: tp_image becomes the copy that is there, marked as used now. 1: there is none, or tp_why is its fault.
tp_reuse() {
  tp_why=
  [[ -e $tp_copy || -L $tp_copy ]] || return 1
  tp_kept 8 "$tp_copy" "0 $EUID" || { tp_why='it is not a file of this user alone'; return 1; }
  touch -c -- "$tp_copy" 2>/dev/null
  tp_why=$(tp_check_image "$tp_copy" "$tp_size" "$tp_samples" 2>&1) && tp_image=$tp_copy
}

# tp_make_room: removes what was not used for tp_age seconds and what killed copies left, then, while there is no room,
# what was used least recently; nothing of the last hour, nor what is locked. 1: there is no room, a line says so.
tp_make_room() {
  local tp_now tp_used tp_file
  tp_now=$(date +%s)
  while read -r tp_used tp_file; do
    ((tp_now - tp_used >= 3600)) || break
    [[ $tp_file =~ ^[0-9a-f]{64} && $tp_file != *.lock ]] || continue
    [[ $tp_file == *.part* ]] || ((tp_now - tp_used > tp_age)) || ! tp_has_room || continue
    (
      [[ ${tp_file:0:64} == "$tp_sha" ]] || ! command -v flock >/dev/null || flock -n 8 || exit
      # used again meanwhile?
      [[ $(stat -c %Y -- "$tp_folder/$tp_file" 2>/dev/null) != "$tp_used" ]] || rm -f -- "$tp_folder/$tp_file"
    ) 8>>"$tp_folder/${tp_file:0:64}.lock"
  done < <(cd -- "$tp_folder" && stat -c '%Y %n' -- * 2>/dev/null | sort -n)
  tp_has_room || tp_unstaged "$tp_folder has $tp_free bytes free, needed are $tp_size and $tp_keep to stay free"
}

# tp_has_room: tp_free, the bytes free in tp_folder, are tp_need or more.
tp_has_room() {
  tp_free=$(df --output=avail -B1 -- "$tp_folder" 2>/dev/null | tail -n 1)
  tp_free=${tp_free//[!0-9]/}
  ((${tp_free:=0} >= tp_need))
}

# tp_copy: tp_image becomes a new copy. 1: there is none, a line says why. 2: PATH is another image, a line says so.
tp_copy() {
  local tp_part tp_said='' tp_status
  tp_part=$(mktemp --suffix=.part -- "$tp_folder/$tp_name.XXXXXX" 2>/dev/null) ||
    { tp_unstaged "cannot write to $tp_folder"; return; }
  tp_say "copying the image to this node: ${tp_copy//[[:cntrl:]]/?}"
  tp_fill
  tp_status=$?
  if [[ $tp_status -eq 1 ]]; then
    tp_has_room
    tp_said=${tp_said%%$'\n'*}
    tp_said="copying stopped at $(stat -c %s -- "$tp_part") of $tp_size bytes: ${tp_said##*: }"
    tp_unstaged "$tp_said ($tp_free bytes are free)"
  fi
  rm -f -- "$tp_part" "$tp_part.said"
  return "$tp_status"
}

# tp_fill: PATH is written to tp_part and hashed in one pass, then tp_part becomes tp_copy. 1: it does not, see tp_said.
tp_fill() {
  local tp_read
  # room is taken at once where the filesystem can: others may be filling it
  tp_said=$(fallocate -n -l "$tp_size" -- "$tp_part" 2>&1)
  [[ $tp_said != *': No space left on device' && $tp_said != *': Disk quota exceeded' ]] || return 1
  # one that fails says so beside the digest; one that dies without a word, or is cut short, leaves less than tp_size
  dd if="$tp_from" bs=4M count=$((tp_size / 4194304 + 1)) iflag=fullblock status=none 2>>"$tp_part.said" |
    tee -a -- "$tp_part" 2>>"$tp_part.said" | sha256sum >>"$tp_part.said" 2>&1 &
  tp_attend
  tp_read=$?
  tp_said=$(cat -- "$tp_part.said" 2>&1)
  [[ $tp_read -le 128 ]] || tp_said='a signal came'
  [[ $tp_read -eq 0 && $tp_said =~ ^[0-9a-f]{64}'  -'$ ]] || return 1
  [[ $(stat -c %s -- "$tp_part") == "$tp_size" ]] || { tp_said='not all of it was read and written'; return 1; }
  if [[ ${tp_said%% *} != "$tp_sha" ]]; then
    tp_say "the image is not the one that was registered: its sha256 is ${tp_said%% *}"
    return 2
  fi
  tp_said='it cannot be kept'
  # on the disk before it has its name, or a node that crashes leaves holes in it
  dd if=/dev/null of="$tp_part" conv=notrunc,fsync status=none 2>/dev/null &
  tp_attend && chmod 400 -- "$tp_part" && mv -f -T -- "$tp_part" "$tp_copy" 2>/dev/null || return 1
  tp_image=$tp_copy
}
"""

NODE_FUNCTIONS = tuple(re.findall(r"^(\w+)\(\)", CHECK_IMAGE_SH + STAGE_SH, re.MULTILINE))
"""Their names, for `declare -f`."""
